package processtest

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Programs holds the folders of the programs and of the tools of a deployment.
type Programs struct{ Dir, Tools string }

// Build builds the NATS server, toolbus, its supervisor and tools. root is the folder of the module. Each tool is the
// name of a folder in its folder tools.
func Build(t testing.TB, root string, tools ...string) Programs {
	t.Helper()
	p := Programs{Dir: t.TempDir(), Tools: filepath.Join(t.TempDir(), "tools")}
	for _, tool := range tools {
		in := filepath.Join(p.Tools, tool)
		if err := os.CopyFS(in, os.DirFS(filepath.Join(root, "tools", tool))); err != nil {
			t.Fatal(err)
		}
		program := strings.ReplaceAll(tool, "_2e", "-")
		Output(t, "go", "-C", root, "build", "-o", filepath.Join(in, program), "./tools/"+tool)
	}
	Output(t, "go", "-C", root, "build", "-o", p.Dir, "./cmd/toolbus", "./cmd/toolbus-supervisor",
		"github.com/nats-io/nats-server/v2")
	return p
}

// Server returns the path of the NATS server.
func (p Programs) Server() string { return filepath.Join(p.Dir, "nats-server") }

// Toolbus returns the path of toolbus.
func (p Programs) Toolbus() string { return filepath.Join(p.Dir, "toolbus") }

// Output runs a program and returns its output. If the program fails, the test fails.
func Output(t testing.TB, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), name, args...)
	cmd.Env = append(os.Environ(), "GOFLAGS=", "XDG_CONFIG_HOME="+t.TempDir(), "TOOLBUS_URL=", "TOOLBUS_CONTEXT=",
		"TOOLBUS_CREDENTIALS=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// Process is a program that runs until it is killed or the test ends.
type Process struct {
	Cmd   *exec.Cmd
	Wrote atomic.Int64 // bytes written to standard output and standard error

	ended chan struct{} // closed at the end of the output
	lines chan string   // output lines that Await has not read
}

// Start runs a program until the test ends, and waits for an output line that contains ready.
func Start(t testing.TB, ready, name string, args ...string) *Process {
	t.Helper()
	p := Launch(t, exec.Command(name, args...))
	p.Await(t, ready)
	return p
}

// Launch runs a command until the test ends.
func Launch(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close() // the process has inherited its own copy
	p := &Process{Cmd: cmd, ended: make(chan struct{}), lines: make(chan string, 1000)}
	go func() {
		defer close(p.ended)
		defer func() { _ = read.Close() }()
		for lines := bufio.NewScanner(read); lines.Scan(); {
			p.Wrote.Add(int64(len(lines.Bytes()) + 1))
			select {
			case p.lines <- lines.Text():
			default: // the buffer is full: nothing reads lines after Await
			}
		}
	}()
	t.Cleanup(p.Kill)
	return p
}

// readyTime is the longest time until a process is ready. Servers elect a leader first.
const readyTime = 40 * time.Second

// Await waits for an output line that contains ready.
func (p *Process) Await(t testing.TB, ready string) (line string) {
	t.Helper()
	late := time.After(readyTime)
	var lines []string
	for {
		select {
		case line = <-p.lines:
			if lines = append(lines, line); strings.Contains(line, ready) {
				return line
			}
		case <-p.ended:
			t.Fatalf("%s ended:\n%s", p.Cmd, strings.Join(lines, "\n"))
		case <-late:
			t.Fatalf("%s is not ready:\n%s", p.Cmd, strings.Join(lines, "\n"))
		}
	}
}

// listens waits until the process accepts connections at host. Its output may not show that, if it logs to a file.
func (p *Process) listens(t testing.TB, host string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(readyTime); ; {
		if conn, err := net.Dial("tcp", host); err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-tick.C:
		case <-p.ended:
			t.Fatalf("%s ended: %s", p.Cmd, strings.Join(drain(p.lines), "\n"))
		case <-late:
			t.Fatalf("%s does not listen at %s", p.Cmd, host)
		}
	}
}

// drain returns the unread output lines.
func drain(lines chan string) (all []string) {
	for {
		select {
		case line := <-lines:
			all = append(all, line)
		default:
			return all
		}
	}
}

// Terminate sends SIGTERM. It fails the test unless the process ends within a time.
func (p *Process) Terminate(t testing.TB, within time.Duration) {
	t.Helper()
	if err := p.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(within):
		t.Fatalf("%s has not ended %s after SIGTERM:\n%s", p.Cmd, within, strings.Join(drain(p.lines), "\n"))
	}
}

// Kill ends the process with SIGKILL and waits for it. The process may have ended already.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill()
	<-p.ended
	_ = p.Cmd.Wait()
}
