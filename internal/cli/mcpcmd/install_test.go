package mcpcmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/importer"
)

// shell runs command lines in a home and in the folder of a project.
type shell struct {
	*testing.T
	env      cli.Env
	home     string
	out, err string // of the last command line
	all      string // both, in the order in which a terminal shows them
}

func newShell(t *testing.T) *shell {
	t.Helper()
	home := t.TempDir()
	t.Chdir(t.TempDir())
	return &shell{T: t, home: home, env: cli.Env{
		Environ: []string{"HOME=" + home}, Config: filepath.Join(home, ".config"), URL: "nats://bus:4222",
	}}
}

// runs runs a command line of toolbus mcp.
func (s *shell) runs(args ...string) error {
	s.Helper()
	var out, err, all bytes.Buffer
	s.env.Stdout, s.env.Stderr = io.MultiWriter(&out, &all), io.MultiWriter(&err, &all)
	cmd := Serve(s.env, strings.NewReader(""), nil)
	cmd.PersistentFlags().String("server", "", "")
	cmd.PersistentFlags().String("context", "", "")
	cmd.PersistentFlags().String("credentials", "", "")
	cmd.PersistentFlags().Bool("json", false, "")
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	bad := cmd.ExecuteContext(s.Context())
	s.out, s.err, s.all = out.String(), err.String(), all.String()
	return bad
}

// ok fails unless a command line succeeds.
func (s *shell) ok(args ...string) {
	s.Helper()
	if err := s.runs(args...); err != nil {
		s.Fatalf("%q: %v\n%s%s", args, err, s.out, s.err)
	}
}

func (s *shell) writes(file, text string) string {
	s.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	return file
}

func (s *shell) reads(file string) string {
	s.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		s.Fatal(err)
	}
	return string(text)
}

// shows fails unless the last command line printed all parts.
func (s *shell) shows(parts ...string) {
	s.Helper()
	for _, part := range parts {
		if said := strings.Join(strings.Fields(s.out+s.err), " "); !strings.Contains(said, part) {
			s.Errorf("it does not print %q:\n%s%s", part, s.out, s.err)
		}
	}
}

// imported writes a folder of tools with servers. Each server that is named has one tool.
func (s *shell) imported(dir string, servers map[string]client.Server, tools ...string) {
	s.Helper()
	for name, one := range servers {
		if err := importer.Hide(dir, name, &one); err != nil {
			s.Fatal(err)
		}
		servers[name] = one
	}
	raw, err := json.Marshal(map[string]any{"servers": servers})
	if err != nil {
		s.Fatal(err)
	}
	s.writes(filepath.Join(dir, "servers.json"), string(raw))
	for _, one := range tools {
		server, name, _ := strings.Cut(one, " ")
		s.writes(filepath.Join(dir, server+"_2e"+name, "request.json"), `{"type": "object"}`)
		s.writes(filepath.Join(dir, server+"_2e"+name, "tool.yaml"), `tool_id: `+server+"."+name+`
semver: 1.0.0
owner: "@test"
title: a tool
description: A tool.
determinism: pure
transport: mcp
endpoint: {server: `+server+`, tool: `+name+`, output: whole}
functions: {run: {description: It runs., request: request.json, response: request.json}}
`)
	}
}

// cursor has servers of each kind: imported, changed since, never imported, without tools, not for executors, and off.
const cursor = `{"mcpServers": {
	"files": {"command": "files", "args": ["a"]},
	"tokens": {"command": "tokens", "env": {"TOKEN": "canary-1"}},
	"changed": {"command": "changed", "env": {"TOKEN": "canary-2"}},
	"renamed": {"url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer canary-3"}},
	"never": {"command": "never"},
	"twin": {"command": "files", "args": ["b"]},
	"empty": {"command": "empty"},
	"shut": {"command": "shut", "disabledTools": ["drop"]},
	"signs": {"url": "https://oauth.example.com/mcp", "auth": {"CLIENT_SECRET": "canary-4"}},
	"asks": {"command": "asks", "env": {"KEY": "${input:key}"}},
	"off": {"command": "files", "args": ["a"], "disabled": true}
}, "more": 1}
`

func (s *shell) cursorImported(dir string) {
	s.Helper()
	s.imported(dir, map[string]client.Server{
		"files":  {Command: "files", Args: []string{"a"}, Env: map[string]string{"HOME": "${env:HOME:-/}"}},
		"tokens": {Command: "tokens", Env: map[string]string{"TOKEN": "canary-1"}}, "empty": {Command: "empty"},
		"changed": {Command: "changed", Env: map[string]string{"TOKEN": "canary-0"}}, "shut": {Command: "shut"},
		"web": {URL: "https://mcp.example.com/mcp", Headers: map[string]string{"Authorization": "Bearer canary-3"}},
	}, "files read", "files write", "tokens use", "changed use", "web look", "shut drop")
}

// TestInstall replaces the servers that were imported, and no other.
func TestInstall(t *testing.T) {
	s := newShell(t)
	file := s.writes(filepath.Join(s.home, ".cursor", "mcp.json"), cursor)
	s.cursorImported("tools")
	fates := []string{
		"files replaced by 2 tools of server files", "tokens replaced by 1 tools of server tokens",
		"renamed replaced by 1 tools of server web", "changed kept: it was not imported as it is now: TOKEN differ",
		"never kept: it was not imported", "twin kept: it was not imported", "empty kept: none of its tools was imported",
		"shut kept: shut.drop is switched off there, and not on the bus: write `status: disabled`",
		"signs kept: it cannot be imported: the client signs in there (auth)",
		"asks kept: it cannot be imported: only the client knows ${input:key}", "off kept: it is disabled there",
	}
	s.ok("install", "--client", "cursor")
	s.shows(append(fates, "for "+file+"; --write writes it there")...)
	if s.reads(file) != cursor || !json.Valid([]byte(s.out)) || !strings.HasPrefix(s.all, "the entry for "+file) {
		t.Errorf("a preview wrote, or printed: %s", s.out)
	}
	s.ok("install", "--client", "cursor", "--write")
	s.shows(append(fates, file+" has the tools of the bus; what was there is in "+file+".before-toolbus")...)
	if strings.Contains(s.out+s.err, "canary") {
		t.Errorf("it prints a value:\n%s%s", s.out, s.err)
	}
	var now struct {
		Servers map[string]json.RawMessage `json:"mcpServers"`
		More    int                        `json:"more"`
	}
	if err := json.Unmarshal([]byte(s.reads(file)), &now); err != nil || now.More != 1 || len(now.Servers) != 9 {
		t.Errorf("%v\n%s", err, s.reads(file))
	}
	for _, kept := range []string{"changed", "never", "twin", "empty", "shut", "signs", "asks", "off", "toolbus"} {
		if now.Servers[kept] == nil {
			t.Errorf("%s is gone", kept)
		}
	}
	if err := s.runs("install", "--client", "cursor", "--write"); err == nil {
		t.Error("installed twice")
	}
	s.ok("uninstall", "--client", "cursor")
	s.shows(file + " is as it was")
	if s.reads(file) != cursor {
		t.Error(s.reads(file))
	}
}

// TestInstallNothing changes nothing if the client uses servers and none was imported.
func TestInstallNothing(t *testing.T) {
	s := newShell(t)
	file := s.writes("mcp.json", cursor)
	err := s.runs("install", "--config", "mcp.json", "--tools", "other", "--write")
	if err == nil || errors.Is(err, cli.ErrUsage) ||
		!strings.Contains(err.Error(), "none of the 10 servers in mcp.json has tools in the folder other") ||
		!strings.Contains(err.Error(), "`toolbus tools import-mcp --tools other --config mcp.json`") {
		t.Error(err)
	}
	s.shows("files kept: it was not imported", "off kept: it is disabled there")
	if all, err := filepath.Glob("*"); err != nil || len(all) != 1 || s.reads(file) != cursor {
		t.Errorf("%q, %v: %s", all, err, s.reads(file))
	}
	// If the client uses no servers, install keeps all of them.
	s.writes("mcp.json", `{"mcpServers": {"off": {"command": "x", "disabled": true}}}`)
	s.ok("install", "--config", "mcp.json", "--write")
	s.shows("off kept")
	s.ok("install", "--client", "vscode", "--write")
	made := strings.Fields(s.out)[0]
	if text := s.reads(made); !strings.Contains(text, `"servers"`) {
		t.Error(text)
	}
	s.ok("uninstall", "--client", "vscode")
	s.shows(made + " is removed: there was none before")
	if _, err := os.Stat(made); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestInstallEntry prints an entry that reaches the bus as the command line does.
func TestInstallEntry(t *testing.T) {
	s := newShell(t)
	s.ok("install", "--credentials", "a.token")
	var shown struct {
		Servers map[string]struct {
			Command string
			Args    []string
		} `json:"mcpServers"`
	}
	here, err := filepath.Abs("a.token")
	if err != nil || json.Unmarshal([]byte(s.out), &shown) != nil {
		t.Fatalf("%v: %s", err, s.out)
	}
	entry, want := shown.Servers["toolbus"], "mcp --credentials "+here+" --server nats://bus:4222"
	if got := strings.Join(entry.Args, " "); got != want || !filepath.IsAbs(entry.Command) {
		t.Errorf("%s %s, want %s", entry.Command, got, want)
	}
	s.ok("install", "--client", "claude-code", "--scope", "local", "--tools", "x")
	if strings.Contains(s.out, "scope") || strings.Contains(s.out, "tools") || !strings.Contains(s.out, `"projects"`) {
		t.Error(s.out)
	}
}

// TestInstallTOML prints lines for Codex, and changes nothing.
func TestInstallTOML(t *testing.T) {
	s := newShell(t)
	const text = "model = \"x\"\n\n[mcp_servers.a]\ncommand = \"a\"\nenv = { TOKEN = \"canary\" }\n"
	file := s.writes(filepath.Join(s.home, ".codex", "config.toml"), text)
	lines := func() {
		t.Helper()
		if !strings.HasPrefix(s.out, "[mcp_servers.toolbus]\ncommand = \"/") ||
			!strings.Contains(s.out, "\nargs = [\"mcp\",\"--server\",\"nats://bus:4222\"]\ntool_timeout_sec = 600\n") {
			t.Error(s.out)
		}
		if now := s.reads(file); now != text {
			t.Error(now)
		}
	}
	s.ok("install", "--client", "codex")
	lines()
	s.shows("paste these lines into " + file)
	err := s.runs("install", "--config", file, "--write")
	lines()
	if err == nil || !strings.Contains(err.Error(), "was not changed: paste these lines") {
		t.Error(err)
	}
	if err := s.runs("uninstall", "--client", "codex"); err == nil {
		t.Error("put back")
	}
}

// TestInstallJSON prints what becomes of each server as JSON.
func TestInstallJSON(t *testing.T) {
	s := newShell(t)
	s.writes("mcp.json", cursor)
	s.cursorImported("tools")
	type answer struct {
		File, Copy     string
		Replaced, Kept []struct{ Name, Server, Reason string }
		Written        bool
	}
	for args, written := range map[string]bool{"install": false, "install --write": true} {
		s.ok(append(strings.Fields(args), "--json", "--config", "mcp.json")...)
		var a answer
		if err := json.Unmarshal([]byte(s.out), &a); err != nil || a.Written != written || a.File != "mcp.json" ||
			len(a.Replaced) != 3 || len(a.Kept) != 8 || a.Replaced[2].Server != "web" || a.Kept[1].Reason == "" {
			t.Errorf("%s: %+v, %v\n%s", args, a, err, s.out)
		}
		if written {
			s.ok("uninstall", "--config", "mcp.json")
		}
	}
	if err := s.runs("install", "--json", "--write", "--config", "mcp.json", "--tools", "none"); err == nil {
		t.Error("replaced")
	}
	var a answer
	if err := json.Unmarshal([]byte(s.out), &a); err != nil || a.Written || len(a.Kept) != 11 || s.err != "" {
		t.Errorf("%+v, %v\n%s%s", a, err, s.out, s.err)
	}
}

// TestUninstallTold checks that the output says whether a configuration was changed after the installation, and what
// stays.
func TestUninstallTold(t *testing.T) {
	s := newShell(t)
	s.writes("mcp.json", cursor)
	s.cursorImported("tools")
	s.ok("install", "--config", "mcp.json", "--write")
	s.writes("mcp.json", strings.Replace(s.reads("mcp.json"), `"never"`, `"files": {"command": "mine"}, "never"`, 1))
	s.ok("uninstall", "--config", "mcp.json")
	s.shows("mcp.json was changed since: it has its servers back, and the changes stay",
		"files was added again since: it stays as it is now")
	var now struct {
		Servers map[string]struct{ Command string } `json:"mcpServers"`
	}
	if err := json.Unmarshal([]byte(s.reads("mcp.json")), &now); err != nil || len(now.Servers) != 11 ||
		now.Servers["files"].Command != "mine" || now.Servers["tokens"].Command != "tokens" {
		t.Errorf("%v: %s", err, s.reads("mcp.json"))
	}
}

// TestInstallUsage refuses command lines that name no configuration, or two.
func TestInstallUsage(t *testing.T) {
	s := newShell(t)
	for _, args := range [][]string{
		{"install", "--write"}, {"uninstall"}, {"install", "--client", "nobody"},
		{"install", "--client", "zed", "--scope", "local"},
		{"install", "--config", "x", "--client", "zed"}, {"install", "--config", "x", "--scope", "project"},
		{"install", "--scope", "project", "--write"},
	} {
		if err := s.runs(args...); !errors.Is(err, cli.ErrUsage) {
			t.Errorf("%q: %v", args, err)
		}
	}
	s.imported("tools", map[string]client.Server{})
	s.writes("tools/broken/tool.yaml", "canary")
	s.writes("mcp.json", cursor)
	if err := s.runs("install", "--config", "mcp.json", "--write"); err == nil ||
		!strings.Contains(err.Error(), "find out what was imported") || s.reads("mcp.json") != cursor {
		t.Errorf("of a broken folder of tools: %v", err)
	}
}
