package clientconfig_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/clientconfig"
)

// fixture is a configuration of a client, in the file where the client looks for it.
type fixture struct {
	name   string // of the file in testdata
	client string
	scope  clientconfig.Scope
	at     string // below the home, or below the project for scope project
	member []string
	by     string // how the location is found: "" by name, else by the path
}

// fixtures has one for each file that is known. The documentation of a client is at [clientconfig.Client.Docs].
func fixtures(p clientconfig.Places) []fixture {
	user, project, local := clientconfig.User, clientconfig.Project, clientconfig.Local
	servers := []string{"mcpServers"}
	return []fixture{
		{"claude-code.json", "claude-code", user, ".claude.json", servers, ""},
		{"claude-code.json", "claude-code", local, ".claude.json", []string{"projects", p.Project, "mcpServers"}, ""},
		{"claude-code-project.json", "claude-code", project, ".mcp.json", servers, ""},
		{"claude-desktop.json", "claude-desktop", user, settings("Claude/claude_desktop_config.json"), servers, ""},
		{"cursor.json", "cursor", user, ".cursor/mcp.json", servers, ""},
		{"cursor-project.json", "cursor", project, ".cursor/mcp.json", servers, ""},
		{"vscode.json", "vscode", user, settings("Code/User/mcp.json"), []string{"servers"}, ""},
		{"vscode-project.json", "vscode", project, ".vscode/mcp.json", []string{"servers"}, ""},
		{"vscode-settings.json", "vscode", user, settings("Code/User/settings.json"), []string{"mcp", "servers"}, "path"},
		{"windsurf.json", "windsurf", user, ".codeium/windsurf/mcp_config.json", servers, ""},
		{"zed.json", "zed", user, ".config/zed/settings.json", []string{"context_servers"}, ""},
		{"gemini-cli.json", "gemini-cli", user, ".gemini/settings.json", servers, ""},
		{"gemini-cli.json", "gemini-cli", project, ".gemini/settings.json", servers, ""},
		{"opencode.jsonc", "opencode", user, ".config/opencode/opencode.json", []string{"mcp"}, ""},
		{"opencode.jsonc", "opencode", project, "opencode.jsonc", []string{"mcp"}, ""},
		{"opencode-2.jsonc", "opencode", user, ".config/opencode/opencode.jsonc", []string{"mcp", "servers"}, ""},
	}
}

// placed writes a fixture, and returns its location.
func (f fixture) placed(t *testing.T, p clientconfig.Places) clientconfig.Location {
	t.Helper()
	text := strings.ReplaceAll(read(t, filepath.Join("testdata", f.name)), "PROJECT", p.Project)
	root := p.Home
	if f.scope == clientconfig.Project {
		root = p.Project
	}
	file := filepath.Join(root, f.at)
	write(t, file, text)
	write(t, filepath.Join(p.Project, ".env"), read(t, "testdata/project.env"))
	l, err := clientconfig.Locate(f.client, f.scope, p)
	if f.by != "" {
		l, err = clientconfig.At(file, p)
	}
	if err != nil || l.File != file || l.Client.Name != f.client || !strings.HasPrefix(l.Client.Docs, "https://") {
		t.Fatalf("%+v, %v; want %s", l, err, file)
	}
	byPath, err := clientconfig.At(file, p)
	if err != nil || byPath.Client.Name != f.client || f.scope != clientconfig.Local && byPath.Scope != f.scope {
		t.Errorf("the path is that of %s %s, %v", byPath.Client.Name, byPath.Scope, err)
	}
	return l
}

func places(t *testing.T) clientconfig.Places {
	home := t.TempDir()
	return clientconfig.Places{Home: home, Config: filepath.Join(home, ".config"), Project: t.TempDir()}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// told is a server as tests compare it, with the texts of its error and its reason for being off.
type told struct {
	Server  client.Server
	Timeout time.Duration
	Unknown []string
	Off     []string // tools that are switched off
	Why     string   // of an error, or why the client does not use it
}

// TestFixtures reads a configuration of each client as in the client's documentation.
func TestFixtures(t *testing.T) {
	p := places(t)
	for _, f := range fixtures(p) {
		t.Run(fmt.Sprint(f.name, f.scope), func(t *testing.T) {
			p := places(t)
			for _, own := range fixtures(p) {
				if own.name == f.name && own.scope == f.scope {
					f = own
				}
			}
			c, err := clientconfig.Read(f.placed(t, p), p)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(f.member, c.Member); diff != "" {
				t.Error(diff)
			}
			want := expected(f, p)
			got := map[string]told{}
			for _, s := range c.Servers {
				one := told{Server: s.Server, Timeout: s.Timeout, Unknown: s.Unknown}
				for _, tool := range strings.Fields("delete_repository get_me safe_tool read list_a list_secrets delete_x") {
					if s.Tools.Off(tool) {
						one.Off = append(one.Off, tool)
					}
				}
				switch {
				case s.Off != "":
					one = told{Why: s.Off}
				case s.Err != nil:
					one = told{Why: s.Err.Error(), Unknown: s.Unknown}
				}
				if w, there := want[s.Called]; there && w.Why != "" && strings.Contains(one.Why, w.Why) {
					one.Why = w.Why
				}
				got[s.Called] = one
			}
			if diff := cmp.Diff(want, got, cmp.Transformer("nil", func(m map[string]string) map[string]string {
				if len(m) == 0 {
					return nil
				}
				return m
			})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
