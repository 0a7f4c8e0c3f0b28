package mcpservers

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/cli/mcpcmd"
)

// runs executes a command line, and returns what it prints.
func runs(t *testing.T, command func(cli.Env) *cobra.Command, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := command(cli.Env{Stdout: &out, Stderr: &out, Environ: append(os.Environ(), "GOODS=bread")})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// TestCommands imports a server with a command line, and approves what it has changed with another.
func TestCommands(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tools, sold := filepath.Join(t.TempDir(), "tools"), filepath.Join(t.TempDir(), "sold")
	out, err := runs(t, mcpcmd.Import, "--tools", tools, "--name", "shop", "--env", "GOODS", "--env", "A=b",
		self, "shop", sold)
	if err != nil || !strings.Contains(out, "mcp::shop::sell  added  side_effectful") {
		t.Fatalf("%v\n%s", err, out)
	}
	servers, err := os.ReadFile(filepath.Join(tools, "servers.json"))
	if err != nil || !strings.Contains(string(servers), `"GOODS": "${env:GOODS}"`) ||
		strings.Contains(string(servers), "bread") {
		t.Errorf("%v\n%s", err, servers)
	}
	if out, err := runs(t, mcpcmd.Approve, "--tools", tools); err != nil || out != "1 tools are what was approved\n" {
		t.Errorf("%v\n%s", err, out)
	}
	for file, change := range map[string][2]string{
		"definition.json": {`"description": ""`, `"description": "another"`},
		"tool.yaml":       {"definition: sha256:", "definition: sha256:" + strings.Repeat("0", 64) + " # "},
	} {
		file = filepath.Join(tools, "mcp_3a_3ashop_3a_3asell", file)
		text, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(text), change[0]) {
			t.Fatalf("%v\n%s", err, text)
		}
		text = []byte(strings.Replace(string(text), change[0], change[1], 1))
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err = runs(t, mcpcmd.Approve, "--tools", tools)
	if err == nil || !strings.Contains(err.Error(), "1 of 1 tools wait") ||
		!strings.Contains(out, `-   "description": "another"`) {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = runs(t, mcpcmd.Approve, "--tools", tools, "mcp::shop::sell")
	if err != nil || !strings.Contains(out, "mcp::shop::sell: approved; `toolbus dev` sees it at once, ") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := runs(t, mcpcmd.Approve, "--tools", tools, "--all"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = runs(t, mcpcmd.Approve, "--tools", t.TempDir())
	if err != nil || !strings.HasPrefix(out, "no tools are imported here: ") {
		t.Errorf("without imports: %v\n%s", err, out)
	}
}

// TestApproveNamesOffers runs the command after a server has got a tool: it is named, with what adds it, and nothing
// waits for approval.
func TestApproveNamesOffers(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tools, file := filepath.Join(t.TempDir(), "tools"), filepath.Join(t.TempDir(), "goods.json")
	sells := func(more string) {
		text := `[{"name": "sell", "inputSchema": {"type": "object"}}` + more + `]`
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	imports := func() (string, error) {
		return runs(t, mcpcmd.Import, "--tools", tools, "--name", "shop", self, "raw", file)
	}
	sells("")
	if out, err := imports(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sells(`, {"name": "lend", "inputSchema": {"type": "object"}}`)
	const offers = "server shop offers lend, which was not imported: import the server again to add it\n"
	out, err := runs(t, mcpcmd.Approve, "--tools", tools)
	if err != nil || out != offers+"1 tools are what was approved\n" {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := imports(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := runs(t, mcpcmd.Approve, "--tools", tools); err != nil || out != "2 tools are what was approved\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestConfig imports the servers of an agent: each whatever becomes of the others.
func TestConfig(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config, tools := filepath.Join(dir, "mcp.json"), filepath.Join(dir, "tools")
	t.Chdir(dir)
	if err := os.Mkdir("work", 0o700); err != nil {
		t.Fatal(err)
	}
	text := `{"mcpServers": {"Shop": {"command": "` + self + `", "args": ["shop", "x"], "env": {"TOKEN": "swordfish"},
			"cwd": "work"},
		"gone": {"command": "/nonexistent/server"}, "asks": {"command": "x", "args": ["${input:key}"]}}}`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := runs(t, mcpcmd.Import, "--tools", tools, "--config", config)
	if err == nil || !strings.Contains(err.Error(), "2 of 3 servers") || !strings.Contains(out, "mcp::shop::sell  added") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, said := range []string{"server gone of", "/nonexistent/server", "only the client knows ${input:key}"} {
		if !strings.Contains(out, said) {
			t.Errorf("it does not say %q:\n%s", said, out)
		}
	}
	servers, err := os.ReadFile(filepath.Join(tools, "servers.json"))
	if err != nil || strings.Contains(string(servers), "swordfish") ||
		!strings.Contains(string(servers), `"cwd": "`+filepath.Join(dir, "work")+`"`) {
		t.Errorf("%v\n%s", err, servers)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{
		{}, {"--config", "x", "y"}, {"--name", "x", "--config", "y"}, {"--pool", "NO", "x"}, {"--owner", " ", "x"},
		{"http://x", "y"}, {"--header", "A=b", "x"}, {"--env", "=", "x"}, {"--header", "A", "http://x"},
	} {
		out, err := runs(t, mcpcmd.Import, append([]string{"--tools", t.TempDir()}, args...)...)
		if !errors.Is(err, cli.ErrUsage) {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
	if out, err := runs(t, mcpcmd.Approve, "--all", "x"); !errors.Is(err, cli.ErrUsage) {
		t.Errorf("%v\n%s", err, out)
	}
}
