package docs_test

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

// block is a fenced block of a page.
type block struct {
	line       int    // of its first fence
	kind, text string // kind is the first word behind the fence, and "file" for a shell script with a name
	before     string // the last line before it
}

// command reports whether a reader types the block.
func (b block) command() bool { return b.kind == "sh" || b.kind == "bash" || b.kind == "console" }

// blocksOf returns the fenced blocks of a page, also those of lists.
func blocksOf(text string) (all []block) {
	open, indent, before := false, "", ""
	for i, line := range strings.Split(text, "\n") {
		info, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && open:
			open = false
		case fence:
			kind, name, _ := strings.Cut(info, " ")
			if name != "" && kind == "sh" {
				kind = "file"
			}
			open, indent = true, line[:strings.IndexByte(line, '`')]
			all = append(all, block{line: i + 1, kind: kind, before: before})
		case open:
			all[len(all)-1].text += strings.TrimPrefix(line, indent) + "\n"
		case line != "":
			before = line
		}
	}
	return all
}

// page is a document, with the folders that its commands work in.
type page struct {
	*testing.T
	name   string
	home   string // of the user
	clone  string // stands for a clone of the repository after `make build`
	blocks []block
	given  setting
}

// prelude replaces the programs that serve until somebody stops them: a reader starts each in a terminal of its own.
// Here it runs in the background, and is ended when the page starts it again, or ends itself.
const prelude = `set -euo pipefail
declare -A serving
end() {
	if [ -n "${serving[$1]-}" ]; then
		kill "${serving[$1]}" || true
		wait "${serving[$1]}" || true
		unset "serving[$1]"
	fi
}
trap 'for name in "${!serving[@]}"; do end "$name"; done' EXIT
begin() { # NAME COMMAND…
	end "$1"
	env "${@:2}" > "$HOME/$1.out" 2>&1 & serving[$1]=$!
}
serve() { # NAME COMMAND…: waits until it serves
	rm -f "$HOME/$1.ready"
	begin "$@" --ready-file "$HOME/$1.ready"
	until [ -s "$HOME/$1.ready" ]; do kill -0 "${serving[$1]}"; sleep 0.1; done
}
toolbus() {
	case "$1 ${2-}" in
	dev*) serve dev toolbus dev --port 0 "${@:2}"; export TOOLBUS_URL=$(cat "$HOME/dev.ready") ;;
	gateway*) serve gateway toolbus "$@" ;;
	"audit tail") begin tail toolbus "$@" ;;
	"calls watch" | "top ") begin "$1" toolbus "$@" ;;
	*) command toolbus "$@" ;;
	esac
}
dispatcher() { serve dispatcher toolbus dispatcher "$@"; }
executor() { serve executor toolbus executor "$@"; }
nats-server() { # -c FILE: on any disk, as the page says; the test stores little
	grep -q max_file_store "$2" || sed -i 's/^jetstream {/&\n  max_file_store: 1TB/' "$2"
	begin nats nats-server "$@"
	until { : < "/dev/tcp/127.0.0.1/$PORT"; } 2> /dev/null; do kill -0 "${serving[nats]}"; sleep 0.1; done
}
go() {
	local module=github.com/seed-018f16cc/toolbus
	case "$1" in
	install) ;;
	get) command go mod edit -require $module@v0.0.0 -replace $module="$TOOLBUS" ;;
	*) command go "$@" ;;
	esac
}
`

// mark is the line that the shell prints before the block of an index.
func mark(i int) string { return fmt.Sprintf("==== block %d\n", i) }

// run runs the command blocks in one shell, and returns the output of each by its index.
func (p *page) run() map[int]string {
	p.Helper()
	script, ran := prelude+p.replaced(p.given.before)+"\n", []int{}
	for i, b := range p.blocks {
		if b.kind == "go" {
			script += p.given.enter
		}
		if b.command() && p.given.reason(b) == "" {
			script, ran = script+fmt.Sprintf("printf %q\n", mark(i))+p.replaced(b.text), append(ran, i)
		}
	}
	text, err := p.shell(script)
	output := map[int]string{}
	for n, i := range ran {
		var begun bool
		if _, text, begun = strings.Cut(text, mark(i)); !begun {
			p.Fatalf("%s:%d: did not run: %v\n%s", p.name, p.blocks[i].line, err, text)
		}
		if output[i] = text; n+1 < len(ran) {
			output[i], _, _ = strings.Cut(text, mark(ran[n+1]))
		}
		if err != nil && (n+1 == len(ran) || !strings.Contains(text, mark(ran[n+1]))) {
			p.Fatalf("%s:%d: %v\n%s%s", p.name, p.blocks[i].line, err, output[i], p.served())
		}
	}
	return output
}

// replaced returns the commands of a block with what the test has instead.
func (p *page) replaced(text string) string {
	for _, r := range p.given.instead {
		text = strings.ReplaceAll(text, r.is, r.becomes)
	}
	return text
}

// served returns what the programs in the background have printed.
func (p *page) served() (all string) {
	names, err := filepath.Glob(filepath.Join(p.home, "*.out"))
	p.ok(err)
	for _, name := range names {
		said, err := os.ReadFile(name)
		p.ok(err)
		all += "\n" + filepath.Base(name) + ":\n" + string(said)
	}
	return all
}

// shell runs a script in the clone, and ends all that is left of it.
func (p *page) shell(script string) (string, error) {
	ctx, cancel := context.WithTimeout(p.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir, cmd.Env = p.clone, p.environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	return string(out), err
}

// environment returns that of a user of his own, with the caches of the real one.
func (p *page) environment() []string {
	source, err := filepath.Abs(root)
	p.ok(err)
	env := append(os.Environ(), "HOME="+p.home, "TOOLBUS="+source, "GOFLAGS=-mod=mod", "PORT="+p.given.port,
		"PATH="+filepath.Join(p.clone, "bin")+":"+os.Getenv("PATH"))
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH"} { // they lie below the real home
		env = append(env, name+"="+strings.TrimSpace(output(p.T, "go", "env", name)))
	}
	return append(env, "TOOLBUS_URL=", "TOOLBUS_CONTEXT=", "TOOLBUS_CREDENTIALS=", "XDG_CONFIG_HOME=", "XDG_STATE_HOME=")
}

var (
	prints   = regexp.MustCompile(`# prints (.+)`)
	duration = regexp.MustCompile(`\b[0-9.]+ ?m?s\b`)
)

// plain replaces the durations in a text, which differ from run to run.
func plain(text string) string { return duration.ReplaceAllString(text, "N ms") }

// shows compares the output of the commands with what the page shows of it.
func (p *page) shows(output map[int]string) {
	for i, b := range p.blocks {
		if said, ran := output[i-1]; b.kind == "text" && ran && !strings.Contains(plain(said), plain(b.text)) {
			p.Errorf("%s:%d: the page shows\n%s\nthe commands print\n%s", p.name, b.line, b.text, said)
		}
		if m := prints.FindStringSubmatch(b.text); m != nil && output[i] != "" && !strings.Contains(output[i], m[1]) {
			p.Errorf("%s:%d: the page says that a command prints %s, the commands print\n%s", p.name, b.line, m[1], output[i])
		}
	}
}

func (p *page) ok(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *page) write(name, text string) {
	p.Helper()
	p.ok(os.MkdirAll(filepath.Dir(name), 0o700))
	p.ok(os.WriteFile(name, []byte(text), 0o600))
}
