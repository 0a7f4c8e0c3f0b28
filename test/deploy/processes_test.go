package deploy

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/accounts"
	"github.com/seed-018f16cc/toolbus/identity"
)

// programs are built once for all profiles.
type programs struct{ dir, tools string }

// root is where the module is.
const root = "../.."

func build(t *testing.T) programs {
	t.Helper()
	p := programs{dir: t.TempDir(), tools: filepath.Join(t.TempDir(), "tools")}
	const tool = "text_2esearch"
	if err := os.CopyFS(filepath.Join(p.tools, tool), os.DirFS(filepath.Join(root, "tools", tool))); err != nil {
		t.Fatal(err)
	}
	output(t, "go", "-C", root, "build", "-o", p.dir, "./cmd/toolbus", "./cmd/toolbus-supervisor",
		"github.com/nats-io/nats-server/v2")
	output(t, "go", "-C", root, "build", "-o", filepath.Join(p.tools, tool, "text-search"), "./tools/"+tool)
	return p
}

func (p programs) server() string  { return filepath.Join(p.dir, "nats-server") }
func (p programs) toolbus() string { return filepath.Join(p.dir, "toolbus") }

// output runs a program to its end.
func output(t *testing.T, name string, args ...string) string {
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

// process is a program that runs until it is killed.
type process struct {
	cmd  *exec.Cmd
	said chan struct{} // closed when its output has ended
}

// start runs a program until the test ends, and returns when it has said a word.
func start(t *testing.T, word, name string, args ...string) *process {
	t.Helper()
	p := launch(t, name, args...)
	p.await(t, word)
	return p.process
}

// launched is a process that has still to say that it is ready.
type launched struct {
	*process
	lines chan string
}

func launch(t *testing.T, name string, args ...string) *launched {
	t.Helper()
	cmd := exec.Command(name, args...)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = write, write
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close() // the process has its own
	p := &launched{&process{cmd, make(chan struct{})}, make(chan string, 1000)}
	go func() {
		defer close(p.said)
		defer func() { _ = read.Close() }()
		for lines := bufio.NewScanner(read); lines.Scan(); {
			select {
			case p.lines <- lines.Text():
			default: // nobody waits any more
			}
		}
	}()
	t.Cleanup(p.kill)
	return p
}

// readyTime is how long a process may take to be ready: servers have to elect a leader first.
const readyTime = 40 * time.Second

func (p *launched) await(t *testing.T, word string) {
	t.Helper()
	late := time.After(readyTime)
	var lines []string
	for {
		select {
		case line := <-p.lines:
			if lines = append(lines, line); strings.Contains(line, word) {
				return
			}
		case <-p.said:
			t.Fatalf("%s ended:\n%s", p.cmd, strings.Join(lines, "\n"))
		case <-late:
			t.Fatalf("%s is not ready:\n%s", p.cmd, strings.Join(lines, "\n"))
		}
	}
}

// kill ends the process as nothing else does, with SIGKILL. It may be ended already.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.said
	_ = p.cmd.Wait()
}

// deployment is one that `toolbus keys init` has made.
type deployment struct {
	t       *testing.T
	of      programs
	dir     string
	url     string
	keys    *accounts.Keys
	servers []*process
}

// prepare makes a deployment of a profile with n servers on free ports of loopback.
func prepare(t *testing.T, of programs, profile string, n int) *deployment {
	t.Helper()
	d := &deployment{t: t, of: of, dir: filepath.Join(t.TempDir(), "deployment"), servers: make([]*process, n)}
	args := []string{"keys", "init", d.dir, "--profile", profile}
	var urls []string
	for range n {
		host := "127.0.0.1:" + strconv.Itoa(free(t))
		args, urls = append(args, "--host", host), append(urls, "nats://"+host)
	}
	output(t, of.toolbus(), args...)
	d.url = strings.Join(urls, ",")
	var err error
	if d.keys, err = accounts.Load(filepath.Join(d.dir, "keys")); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		d.anyDisk(i)
	}
	return d
}

// free is a port with a free one for the cluster above it.
func free(t *testing.T) int {
	t.Helper()
	for {
		one, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := one.Addr().(*net.TCPAddr).Port
		other, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port+2000))
		_ = one.Close()
		if err == nil {
			_ = other.Close()
			return port
		}
	}
}

func (d *deployment) conf(i int) string {
	return filepath.Join(d.dir, fmt.Sprintf("nats-%d.conf", i+1))
}

// anyDisk lets the streams reserve more than there is: the test keeps little.
func (d *deployment) anyDisk(i int) {
	d.t.Helper()
	text, err := os.ReadFile(d.conf(i))
	if err == nil {
		const block = "jetstream {"
		changed := strings.Replace(string(text), block, block+"\n  max_file_store: 1TB", 1)
		err = os.WriteFile(d.conf(i), []byte(changed), 0o644)
	}
	if err != nil {
		d.t.Fatal(err)
	}
}

// serve starts the servers that do not run; they are ready once most of them are there.
func (d *deployment) serve(which ...int) {
	d.t.Helper()
	started := map[int]*launched{}
	for _, i := range which {
		started[i] = launch(d.t, d.of.server(), "-c", d.conf(i), "-l", "/dev/stderr") // instead of its log file
	}
	for i, p := range started {
		p.await(d.t, "Server is ready")
		d.servers[i] = p.process
	}
}

// credential writes a token for an hour into a file.
func (d *deployment) credential(p identity.Principal) (file, token string) {
	d.t.Helper()
	signer, err := d.keys.Signer()
	if err != nil {
		d.t.Fatal(err)
	}
	p.Tenant, p.ID, p.Family = "default", identity.NewID(), identity.NewID()
	p.Issued, p.Expires = time.Now(), time.Now().Add(time.Hour)
	if token, err = signer.Mint(p); err != nil {
		d.t.Fatal(err)
	}
	file = filepath.Join(d.t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		d.t.Fatal(err)
	}
	return file, token
}
