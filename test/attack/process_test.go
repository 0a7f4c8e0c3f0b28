package attack

import (
	"flag"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

var long = flag.Bool("long", false, "flood a deployment of processes for minutes, too")

// onlyLong skips a test that -long asks for.
func onlyLong(t *testing.T) {
	t.Helper()
	if !*long {
		t.Skip("takes minutes: run with -long, as make attack does")
	}
}

// process is a program that runs until the test ends.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	said string // file of its output
	done chan struct{}
}

func environment(t *testing.T) []string {
	return append(os.Environ(), "GOFLAGS=", "XDG_CONFIG_HOME="+t.TempDir(), "TOOLBUS_URL=", "TOOLBUS_CONTEXT=",
		"TOOLBUS_CREDENTIALS=")
}

// run runs a program to its end.
func run(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = environment(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
}

func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := &process{
		t: t, cmd: exec.Command(name, args...), said: filepath.Join(t.TempDir(), "said"), done: make(chan struct{}),
	}
	out, err := os.Create(p.said)
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = environment(t), out, out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = out.Close() // the process has its own
	go func() { defer close(p.done); _ = p.cmd.Wait() }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); <-p.done })
	return p
}

// output is the end of what it has said.
func (p *process) output() string {
	text, err := os.ReadFile(p.said)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text[max(0, len(text)-1<<20):])
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

var peakLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peak is how many MiB of memory it has taken up at most.
func (p *process) peak() int {
	p.t.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/status")
	found := peakLine.FindSubmatch(status)
	if err != nil || found == nil {
		p.t.Fatalf("no memory of %s: %v", p.cmd, err)
	}
	kb, _ := strconv.Atoi(string(found[1]))
	return kb >> 10
}

// freeHost is a free port of loopback.
func freeHost(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
