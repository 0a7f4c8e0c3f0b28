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
	said := p.run()
	for i, b := range p.blocks {
		if b.kind == "text" {
			p.shows(said[i], b.text)
		}
	}
	if config, err := os.ReadFile(filepath.Join(p.home, "mcp.json")); err != nil || string(config) != p.config {
		t.Errorf("the configuration is not what it was: %s, %v", config, err)
	}
}

// page is the document, in a home of its own.
type page struct {
	*testing.T
	home   string
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
	p := &page{T: t, home: t.TempDir()}
	own := strings.NewReplacer("/home/ada", p.home, "'node.*", "'node "+p.home+".*") // nobody else's servers end here
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
	bin := p.TempDir()
	build := exec.CommandContext(p.Context(), "go", "build", "-o", bin, "./cmd/toolbus", "./cmd/toolbus-supervisor")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		p.Fatalf("%v\n%s", err, out)
	}
	script := "set -eu\ntrap 'kill $(jobs -p); wait' EXIT\n"
	for i, b := range p.blocks {
		if b.shell() {
			script += b.text + fmt.Sprintf("\necho %s%d\n", between, i+1)
		}
	}
	ctx, cancel := context.WithTimeout(p.Context(), time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-s") // what it runs must not be in its command line, for pkill
	shell.Stdin, shell.Dir = strings.NewReader(script), p.home
	shell.Env = []string{"HOME=" + p.home, "PATH=" + bin + ":" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGTERM) }
	shell.WaitDelay = 5 * time.Second
	out, err := shell.CombinedOutput()
	if err != nil {
		p.Fatalf("%v\n%s", err, out)
	}
	said, at := map[int]string{}, 0
	for i, b := range p.blocks {
		if mark := fmt.Sprintf("%s%d\n", between, i+1); b.shell() {
			end := strings.Index(string(out), mark)
			said[i+1], at = string(out)[at:end], end+len(mark)
		}
	}
	return said
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
