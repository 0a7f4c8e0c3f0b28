package mcpservers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestQuickStart does what docs/quickstart.md says, with a shell, and sees what it shows. Like [TestReferenceServers]
// it needs the servers.
func TestQuickStart(t *testing.T) {
	if *servers == "" {
		t.Log("make mcp-servers runs this with the servers")
		return
	}
	p := newPage(t)
	other := p.unrelated()
	said := p.run()
	for i, b := range p.blocks {
		if b.kind == "text" {
			p.shows(said[i], b.text)
		}
	}
	if config, err := os.ReadFile(filepath.Join(p.home, "mcp.json")); err != nil || string(config) != p.config {
		t.Errorf("the configuration is not what it was: %s, %v", config, err)
	}
	select {
	case err := <-other:
		t.Error("a process that has nothing to do with the bus has ended:", err)
	default:
	}
	p.reboot()
}

// unrelated starts a process whose command line looks like a server of the bus, until the test ends.
func (p *page) unrelated() (ended <-chan error) {
	cmd := exec.CommandContext(p.Context(), "bash", "-c", "read # node mcp-server-memory")
	in, err := cmd.StdinPipe()
	p.ok(err)
	p.ok(cmd.Start())
	over := make(chan error, 2)
	go func() { over <- cmd.Wait(); close(over) }()
	p.Cleanup(func() {
		_ = in.Close() // it ends with its input
		for range over {
		}
	})
	return over
}

// reboot starts the bus again as the unit says that the page writes, and sees that it goes on with what it has stored.
func (p *page) reboot() {
	if verify, err := exec.LookPath("systemd-analyze"); err == nil {
		cmd := exec.CommandContext(p.Context(), verify, "verify", "--user", "--man=no", p.unit())
		cmd.Env = []string{"HOME=" + p.home, "XDG_RUNTIME_DIR=" + p.TempDir(), "PATH=" + os.Getenv("PATH")}
		if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "toolbus.service") {
			p.Errorf("the unit: %v\n%s", err, out)
		}
	}
	text, err := os.ReadFile(p.unit())
	p.ok(err)
	start := regexp.MustCompile("(?m)^ExecStart=(.*)$").FindSubmatch(text)
	if start == nil {
		p.Fatalf("no ExecStart in %s", text)
	}
	said := p.shell(string(start[1]) + ` &
until toolbus tools list > /dev/null 2>&1; do sleep 0.2; done
` + p.again() + " || true\n")
	p.shows(said, "S-TOOL-UNKNOWN\nreplayed")
}

// unit is the file of the unit that the page writes.
func (p *page) unit() string { return filepath.Join(p.home, ".config/systemd/user/toolbus.service") }

// again is the call that the page makes a second time.
func (p *page) again() string {
	for _, b := range p.blocks {
		if call, _, ok := strings.Cut(b.text, " || true"); ok {
			return call
		}
	}
	p.Fatal("the page makes no call a second time")
	return ""
}

// page is the document, in a home of its own.
type page struct {
	*testing.T
	home   string
	bin    string // folder of the programs
	config string // of the agent
	blocks []block
}

type block struct{ kind, text string }

func (b block) shell() bool { return b.kind == "sh" || b.kind == "bash" }

func newPage(t *testing.T) *page {
	text, err := os.ReadFile("../../docs/quickstart.md")
	if err != nil {
		t.Fatal(err)
	}
	p := &page{T: t, home: t.TempDir(), bin: t.TempDir()}
	build := exec.CommandContext(p.Context(), "go", "build", "-o", p.bin, "./cmd/toolbus", "./cmd/toolbus-supervisor")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		p.Fatalf("%v\n%s", err, out)
	}
	own := strings.NewReplacer("/home/ada", p.home)
	for _, m := range regexp.MustCompile("(?s)```([^\n]+)\n(.*?)```\n").FindAllStringSubmatch(string(text), -1) {
		b := block{m[1], own.Replace(m[2])}
		if p.blocks = append(p.blocks, b); b.kind == "json mcp.json" {
			p.config = b.text
		}
	}
	p.ok(os.Mkdir(filepath.Join(p.home, "work"), 0o700))
	p.ok(os.Symlink(filepath.Join(*servers, "node_modules"), filepath.Join(p.home, "node_modules")))
	p.ok(os.WriteFile(filepath.Join(p.home, "mcp.json"), []byte(p.config), 0o600))
	return p
}

func (p *page) ok(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

const between = "==== "

// run runs what is for the shell, and returns what each block has said, below the block that comes next.
func (p *page) run() map[int]string {
	script := ""
	for i, b := range p.blocks {
		if b.shell() {
			script += b.text + fmt.Sprintf("\necho %s%d\n", between, i+1)
		}
	}
	out := p.shell(script)
	said, at := map[int]string{}, 0
	for i, b := range p.blocks {
		if mark := fmt.Sprintf("%s%d\n", between, i+1); b.shell() {
			end := strings.Index(out, mark)
			said[i+1], at = out[at:end], end+len(mark)
		}
	}
	return said
}

// shell runs a script in the home, ends what it leaves, and returns what was said.
func (p *page) shell(script string) string {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-s") // what it runs must not be in its command line, for pkill
	shell.Stdin, shell.Dir = strings.NewReader("set -eu\ntrap 'kill $(jobs -p); wait' EXIT\n"+script), p.home
	shell.Env = []string{"HOME=" + p.home, "PATH=" + p.bin + ":" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGTERM) }
	shell.WaitDelay = 5 * time.Second
	out, err := shell.CombinedOutput()
	if err != nil {
		p.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), `"level":"error"`) || strings.Contains(string(out), "authentication") {
		p.Errorf("the bus has errors to report:\n%s", out)
	}
	return string(out)
}

// shows fails unless lines come one after the other in what was said, in which … stands for anything.
func (p *page) shows(said, lines string) {
	p.Helper()
	rest := strings.Split(said, "\n")
	for line := range strings.SplitSeq(strings.TrimSpace(lines), "\n") {
		words := strings.Split(strings.TrimSpace(line), "…")
		for i := range words {
			words[i] = regexp.QuoteMeta(strings.TrimSpace(words[i]))
		}
		like, at := regexp.MustCompile(strings.Join(words, ".*")), 0
		for at < len(rest) && !like.MatchString(rest[at]) {
			at++
		}
		if at == len(rest) {
			p.Errorf("it does not show %q, but\n%s", line, said)
			return
		}
		rest = rest[at+1:]
	}
}
