package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/deployment/processtest"
)

// setting says what a page takes for granted, and which of its commands the test replaces or leaves out.
type setting struct {
	before  string    // commands of what the page takes for granted
	enter   string    // commands before those that follow a Go program
	instead []replace // texts of commands
	left    []left    // blocks that are not run; TestCommands checks their programs, subcommands and flags all the same
	port    string    // a free one for the server
}

// replace replaces a text of commands.
type replace struct{ is, becomes, why string }

// left is a block that is not run. It begins with a text, which is empty for all blocks of the page.
type left struct{ begins, why string }

// reason returns why a block is not run, or "".
func (s setting) reason(b block) string {
	for _, l := range s.left {
		if strings.HasPrefix(b.text, l.begins) {
			return l.why
		}
	}
	return ""
}

// settings returns those of the pages that need any. in is the folder of the page, and port a free port.
func settings(in string, port int) map[string]setting {
	hello, free := filepath.Join(in, "hello"), strconv.Itoa(port)
	return map[string]setting{
		"README.md": {
			enter: fmt.Sprintf("cd %q\n", hello),
		},
		"docs/mcp.md": {
			before:  "toolbus dev",
			instead: []replace{{"127.0.0.1:4281", "127.0.0.1:" + free, "others may use the port"}},
			left: []left{
				{"toolbus tools import-mcp npx", "needs npm: TestQuickStart in test/mcpservers calls the same server"},
				{"toolbus tools import-mcp --name docs", "needs a server of MCP on another host"},
				{"toolbus tools import-mcp --login", "needs a server of MCP on another host"},
				{"toolbus call mcp::docs", "needs the server before"},
				{"toolbus tools approve", "needs a server of npm"},
			},
		},
		"docs/operations.md": {
			before: "mkdir /etc/toolbus\ncp -r tools /etc/toolbus/tools",
			instead: append([]replace{
				{"systemctl stop toolbus-executor", "end executor", "needs systemd"},
				{"systemctl stop toolbus-dispatcher", "end dispatcher", "needs systemd"},
				{"systemctl stop toolbus-nats@nats-1", "end nats", "needs systemd"},
				{"/var/lib/toolbus", filepath.Join(in, "store"), "belongs to root"},
				{"127.0.0.1:9464", "127.0.0.1:0", "others may use the port"},
				{"127.0.0.1:9465", "127.0.0.1:0", "others may use the port"},
				{"127.0.0.1:9466", "127.0.0.1:0", "others may use the port"},
				{"REF", "$REF", "the reference that the call has printed"},
				{`'{"pattern":"x"}'`, `'{"pattern":"x"}' 2>&1 | tee said
REF=$(sed -n 's/^accepted: \([^ ]*\).*/\1/p' said)`, "keeps that reference"},
			}, services(in, free)...),
			left: []left{
				{"dispatcher --secrets-dir /etc/toolbus/keys --server nats://bus", "needs another host"},
				{"toolbus policy push ./deployment", "needs another host"},
				{"dispatcher --secrets-dir /etc/toolbus/keys --server nats://a", "needs three other hosts"},
				{"toolbus repair", "needs a damaged disk"},
			},
			port: free,
		},
		"docs/policy.md": {
			instead: []replace{{
				"toolbus runs show nightly-42", "until toolbus runs show nightly-42; do sleep 0.2; done",
				"the record comes some milliseconds after the call, and a reader types more slowly",
			}},
		},
		"docs/release.md": {
			left: []left{
				{"sha256sum", "needs the files of a release: TestRelease makes and checks them"},
				{"git checkout", "needs a clone with tags: TestRelease runs the same build"},
				{"skopeo", "needs a container engine"},
				{"toolbus keys init deployment", "needs a container engine: TestRelease starts the same services"},
				{"docker compose run", "needs a container engine: TestRelease starts the same services"},
			},
		},
		"docs/runbook.md": {
			left: []left{{"", "each needs its fault: TestRehearsal in test/observability makes it"}},
		},
		"docs/tasks.md": {
			before: `mkdir /etc/toolbus
cp -r tools /etc/toolbus/tools
toolbus keys init /etc/toolbus --profile single-durable --tools /etc/toolbus/tools
systemctl start toolbus-nats@nats-1
systemctl start toolbus-dispatcher
export TOOLBUS_CREDENTIALS=/etc/toolbus/operator.token
toolbus policy push /etc/toolbus --server nats://127.0.0.1:4222
export TOOLBUS_URL=nats://127.0.0.1:4222
toolbus credentials issue --role executor --actor executor://1 --pool default --out executor.token
systemctl start toolbus-executor
unset TOOLBUS_CREDENTIALS TOOLBUS_URL`,
			instead: append([]replace{
				{"systemctl restart toolbus-nats@nats-1", "systemctl start toolbus-nats@nats-1\n" +
					"until toolbus doctor > said; do sleep 0.2; done", "a reader types more slowly than processes reconnect"},
				{"systemctl restart", "systemctl start", "ends what it starts again"},
				{"REVISION", "5", "the first revision, which the history has"},
			}, services(in, free)...),
			port: free,
		},
		"docs/writing-tools.md": {
			left: []left{{"", "needs Python: TestLanguages runs the same in each language"}},
		},
		"docs/quickstart.md": {
			left: []left{{"", "needs npm, and systemd at its end: TestQuickStart in test/mcpservers runs the rest"}},
		},
	}
}

// services returns what the test has instead of units of systemd, of files of root, and of the port of a server.
func services(in, port string) []replace {
	const bus = "--server nats://127.0.0.1:4222 --tools /etc/toolbus/tools --sync always"
	return []replace{
		{"systemctl start toolbus-nats@nats-1", "nats-server -c /etc/toolbus/nats-1.conf", "needs systemd"},
		{"systemctl start toolbus-dispatcher", "dispatcher --secrets-dir /etc/toolbus/keys " + bus, "needs systemd"},
		{"systemctl start toolbus-executor", "executor --credentials executor.token " + bus, "needs systemd"},
		{"/etc/toolbus", filepath.Join(in, "etc"), "belongs to root"},
		{"127.0.0.1:4222", "127.0.0.1:" + port, "others may use the port"},
		{"--profile single-durable", "--profile single-durable --host 127.0.0.1:" + port, "others may use the port"},
	}
}

// TestReader runs the command blocks of the README and of docs, as a reader would: each page on a bus of its own, its
// blocks in their order in one shell. It compares their output with the output that the page shows.
func TestReader(t *testing.T) {
	made := processtest.Build(t, root, "fs_2ewrite", "text_2esearch")
	server := filepath.Join(made.Dir, "transcript-clean")
	goIn(t, root, "go", "build", "-o", server, "./tools/mcp/internal/transcript-clean")
	for _, name := range append(pagesOf(t), "README.md") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPage(t, name)
			if p.isLeft() {
				return
			}
			p.install(made, fmt.Sprintf(`{"mcpServers": {"clean": {"command": %q}}}`, server))
			p.shows(p.run())
		})
	}
}

// pagesOf returns the pages of docs that have commands.
func pagesOf(t *testing.T) (names []string) {
	for _, name := range files(t, ".md") {
		if strings.HasPrefix(name, "docs/") && slices.ContainsFunc(blocksOf(read(t, name)), block.command) {
			names = append(names, name)
		}
	}
	return names
}

func newPage(t *testing.T, name string) *page {
	t.Helper()
	dir := t.TempDir()
	p := &page{
		T: t, name: name, home: filepath.Join(dir, "home"), clone: filepath.Join(dir, "clone"),
		blocks: blocksOf(read(t, name)), given: settings(dir, processtest.FreePort(t))[name],
	}
	p.upToDate()
	return p
}

// upToDate fails if the page has nothing that a row of its setting is about.
func (p *page) upToDate() {
	commands := ""
	for _, b := range p.blocks {
		if b.command() && p.given.reason(b) == "" {
			commands += b.text
		}
	}
	for _, r := range p.given.instead {
		if !strings.Contains(p.given.before+commands, r.is) {
			p.Errorf("%s: the test replaces %q, which no block has", p.name, r.is)
		}
	}
	for _, l := range p.given.left {
		if !slices.ContainsFunc(p.blocks, func(b block) bool { return b.command() && strings.HasPrefix(b.text, l.begins) }) {
			p.Errorf("%s: the test leaves out %q, with which no block begins", p.name, l.begins)
		}
	}
}

// isLeft reports whether none of the page's commands are run.
func (p *page) isLeft() bool {
	return !slices.ContainsFunc(p.blocks, func(b block) bool { return b.command() && p.given.reason(b) == "" })
}

// install makes the folders of the page: programs and tools, the servers of an agent, and the Go programs of the page.
func (p *page) install(made processtest.Programs, servers string) {
	hello := filepath.Join(filepath.Dir(p.clone), "hello")
	p.ok(os.CopyFS(filepath.Join(p.clone, "tools"), os.DirFS(made.Tools)))
	p.ok(os.RemoveAll(filepath.Join(p.clone, "tools", "fs_2ewrite", "data"))) // files of earlier calls
	p.ok(os.Symlink(made.Dir, filepath.Join(p.clone, "bin")))
	p.write(filepath.Join(p.home, ".cursor", "mcp.json"), servers)
	p.write(filepath.Join(hello, "mcp.json"), servers)
	p.write(filepath.Join(hello, "go.sum"), read(p.T, "go.sum"))
	for _, b := range p.blocks {
		if file := mainFile.FindStringSubmatch(b.before); b.kind == "go" && file != nil {
			p.write(filepath.Join(hello, file[1]), b.text)
		}
	}
}

var mainFile = regexp.MustCompile("`([a-z]+/main\\.go)`")
