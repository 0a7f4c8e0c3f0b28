package docs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// The size of the README: what a newcomer reads in one sitting. 200 lines, and 24 for the policy of `toolbus dev`.
const (
	readmeLines = 224
	readmeWidth = 120
)

func TestReadmeIsShort(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(read(t, "README.md"), "\n"), "\n")
	if len(lines) > readmeLines {
		t.Errorf("README.md has %d lines, at most %d are allowed", len(lines), readmeLines)
	}
	for i, line := range lines {
		if n := utf8.RuneCountInString(line); n > readmeWidth {
			t.Errorf("README.md:%d has %d characters, at most %d are allowed", i+1, n, readmeWidth)
		}
	}
}

// TestReadme runs the commands of the README in their order, with the programs that it shows, and compares their
// output with the output that it shows. It replaces `make`, the port of `toolbus dev`, and `go mod tidy`, which
// downloads modules that only tests of dependencies need.
func TestReadme(t *testing.T) {
	r := newReadme(t)
	output := r.run()
	for i, b := range r.blocks {
		if b.kind == "text" && !strings.Contains(plain(output[i-1]), plain(b.text)) {
			t.Errorf("the README shows\n%s\nthe commands print\n%s", b.text, output[i-1])
		}
		if m := prints.FindStringSubmatch(b.text); b.kind == "sh" && m != nil && !strings.Contains(output[i], m[1]) {
			t.Errorf("the README says that a command prints %s, the commands print\n%s", m[1], output[i])
		}
	}
	config, err := os.ReadFile(filepath.Join(r.hello, "mcp.json"))
	if err != nil || !strings.Contains(string(config), `"toolbus"`) {
		t.Errorf("the MCP configuration does not name the bus: %v\n%s", err, config)
	}
}

var (
	codeBlock = regexp.MustCompile("(?s)([^\n]*)\n?\n```(go|sh|text)\n(.*?)```\n")
	mainFile  = regexp.MustCompile("`([a-z]+/main\\.go)`")
	prints    = regexp.MustCompile(`# prints (.+)`)
	duration  = regexp.MustCompile(`\b[0-9.]+ ?m?s\b`)
)

// plain replaces the durations in a text, which differ from run to run.
func plain(text string) string { return duration.ReplaceAllString(text, "N ms") }

// readme is the README with the folders that its commands work in.
type readme struct {
	*testing.T
	home   string // of the user
	clone  string // stands for the clone of the repository: built programs and the tool that the README calls
	hello  string // the folder of the user's own programs
	blocks []readmeBlock
}

type readmeBlock struct {
	kind, text string
	file       string // of a Go program
}

func newReadme(t *testing.T) *readme {
	t.Helper()
	dir := t.TempDir()
	r := &readme{T: t, home: filepath.Join(dir, "home"), clone: filepath.Join(dir, "clone")}
	r.hello = filepath.Join(dir, "hello")
	for _, m := range codeBlock.FindAllStringSubmatch(read(t, "README.md"), -1) {
		b := readmeBlock{kind: m[2], text: m[3]}
		if b.kind == "go" {
			b.file = mainFile.FindStringSubmatch(m[1])[1]
			r.write(filepath.Join(r.hello, b.file), b.text)
		}
		r.blocks = append(r.blocks, b)
	}
	const tool = "tools/fs_2ewrite"
	if len(r.blocks) < 8 {
		t.Fatalf("found only %d blocks in the README", len(r.blocks))
	}
	r.ok(os.MkdirAll(r.home, 0o700))
	r.ok(os.CopyFS(filepath.Join(r.clone, tool), os.DirFS(filepath.Join(root, tool))))
	r.ok(os.RemoveAll(filepath.Join(r.clone, tool, "data"))) // files of earlier calls
	r.ok(os.Rename(build(t), filepath.Join(r.clone, "bin")))
	server := filepath.Join(dir, "transcript-clean")
	goIn(t, root, "go", "build", "-o", filepath.Join(r.clone, tool, "fs-write"), "./"+tool)
	goIn(t, root, "go", "build", "-o", server, "./tools/mcp/internal/transcript-clean")
	r.write(filepath.Join(r.hello, "go.sum"), read(t, "go.sum"))
	r.write(filepath.Join(r.hello, "mcp.json"), fmt.Sprintf(`{"mcpServers": {"clean": {"command": %q}}}`, server))
	return r
}

func (r *readme) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *readme) write(name, text string) {
	r.Helper()
	r.ok(os.MkdirAll(filepath.Dir(name), 0o700))
	r.ok(os.WriteFile(name, []byte(text), 0o600))
}

// prelude replaces the commands that a test cannot run as they are.
const prelude = `set -eu
bus=
stop() { if [ -n "$bus" ]; then kill $bus; wait $bus || true; fi; }
trap stop EXIT
toolbus() {
	if [ "$1" != dev ]; then command toolbus "$@"; return; fi
	stop; shift; rm -f "$HOME/ready"
	command toolbus dev --port 0 --ready-file "$HOME/ready" "$@" > "$HOME/dev.out" & bus=$!
	until [ -s "$HOME/ready" ]; do kill -0 $bus; sleep 0.1; done
	export TOOLBUS_URL=$(cat "$HOME/ready")
}
bin/toolbus() { toolbus "$@"; }
make() { :; }
go() { if [ "$1 $2" != "mod tidy" ]; then command go "$@"; fi; }
`

// run runs the shell blocks in one shell, and returns the output of each by its index.
func (r *readme) run() map[int]string {
	r.Helper()
	script, output := prelude, map[int]string{}
	for i, b := range r.blocks {
		switch b.kind {
		case "go":
			script += fmt.Sprintf("cd %q\n", r.hello)
		case "sh": // the variable TOOLBUS is set: the repository with its sources
			script += strings.ReplaceAll(b.text, "TOOLBUS=$PWD ", "") + fmt.Sprintf("echo ==== %d\n", i)
		}
	}
	text := r.shell(script)
	for i, b := range r.blocks {
		if b.kind == "sh" {
			var found bool
			if output[i], text, found = strings.Cut(text, fmt.Sprintf("==== %d\n", i)); !found {
				r.Fatalf("block %d did not end:\n%s", i, output[i])
			}
		}
	}
	return output
}

func (r *readme) shell(script string) string {
	r.Helper()
	source, err := filepath.Abs(root)
	r.ok(err)
	cmd := exec.CommandContext(r.Context(), "bash", "-c", script)
	cmd.Dir = r.clone
	cmd.Env = append(os.Environ(), "HOME="+r.home, "TOOLBUS="+source, "GOFLAGS=-mod=mod",
		"PATH="+filepath.Join(r.clone, "bin")+":"+os.Getenv("PATH"))
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} { // they lie below the real home
		cmd.Env = append(cmd.Env, name+"="+strings.TrimSpace(output(r.T, "go", "env", name)))
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func goIn(t *testing.T, dir string, words ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
}
