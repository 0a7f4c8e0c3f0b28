package mcpservers

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/cli/mcpcmd"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
)

// secretive is a configuration with a canary in each place that may hold a credential, and with servers that print
// theirs when they fail.
const secretive = `{"mcpServers": {
	"shop": {"command": "SELF", "args": ["shop", "SOLD", "--token", "canary-arg"], "env": {"TOKEN": "canary-env"},
		"envFile": ".env", "timeout": 45, "novelty": "canary-member"},
	"off": {"command": "SELF", "args": ["shop", "SOLD"], "disabledTools": ["sell"], "env": {"TOKEN": "canary-env"}},
	"fails": {"command": "/bin/sh", "args": ["-c", "echo refused: $TOKEN $FROM_FILE >&2; exit 3"],
		"env": {"TOKEN": "canary-env"}, "envFile": ".env"},
	"away": {"url": "http://user:canary-user@127.0.0.1:1/canary-path/mcp?key=canary-query",
		"headers": {"Authorization": "Bearer canary-header", "X-Key": "canary-header"}},
	"wrong": {"command": "SELF", "env": {"TOKEN": ["canary-type"]}, "timeout": "canary-type"},
	"bus": {"command": "/opt/toolbus", "args": ["mcp"]},
	"signs": {"url": "https://mcp.example.com/mcp?key=canary-query", "oauth": {"clientSecret": "canary-oauth"}}
}}`

// TestSecrets imports, installs and uninstalls: no value of a variable or header is printed, or is in a file that
// others may read.
func TestSecrets(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	config := strings.NewReplacer("SELF", self, "SOLD", filepath.Join(t.TempDir(), "sold")).Replace(secretive)
	for name, text := range map[string]string{"mcp.json": config, ".env": "FROM_FILE=canary-file\nTOKEN=canary-file\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var said bytes.Buffer
	run := func(command func(cli.Env) *cobra.Command, args ...string) error {
		cmd := command(cli.Env{Stdout: &said, Stderr: &said, Environ: append(os.Environ(), "TOKEN=canary-own")})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(args)
		err := cmd.ExecuteContext(t.Context())
		if err != nil {
			said.WriteString(err.Error() + "\n")
		}
		private(t)
		return err
	}
	serve := func(env cli.Env) *cobra.Command { return mcpcmd.Serve(env, strings.NewReader(""), nil) }
	if err := run(mcpcmd.Import, "--config", "mcp.json"); err == nil || !strings.Contains(err.Error(), "4 of 7 servers") {
		t.Errorf("%v\n%s", err, said.String())
	}
	if err := run(serve, "install", "--config", "mcp.json", "--write"); err != nil {
		t.Error(err)
	}
	now, err := os.ReadFile("mcp.json")
	if err != nil || strings.Contains(string(now), `"shop":`) || !strings.Contains(string(now), `"off":`) {
		t.Errorf("%v\n%s", err, now)
	}
	if err := os.WriteFile("mcp.json", append(now, ' '), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(serve, "uninstall", "--config", "mcp.json"); err != nil {
		t.Error(err)
	}
	if strings.Contains(said.String(), "canary") {
		t.Errorf("a value is printed:\n%s", said.String())
	}
	for _, part := range []string{
		`not understood: ["novelty"]`, "server fails of mcp.json: ", "refused: [hidden] [hidden]", "dial tcp 127.0.0.1:1",
		"server bus of mcp.json: left out: it is Toolbus itself", "TOKEN of its env is no text; its timeout",
		"signs in there (oauth)", `"sell" switched off`,
	} {
		if text := strings.Join(strings.Fields(said.String()), " "); !strings.Contains(text, part) {
			t.Errorf("it does not print %q:\n%s", part, said.String())
		}
	}
	all, err := tool.Load("tools", mcp.Describe())
	if err != nil || len(all.List()) != 1 {
		t.Fatalf("%d tools, %v", len(all.List()), err)
	}
	if l := all.List()[0].Limits; l.TimeoutDefaultMS != 45_000 || l.TimeoutMaxMS != 45_000 {
		t.Errorf("%+v", l)
	}
}

// private fails if a file below the folder has a canary and may be read by others.
func private(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && strings.Contains(string(text), "canary") && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has a value and is %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if info, err := os.Stat("tools/.secrets"); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder of secrets: %v, %v", info, err)
	}
	if _, err := os.Stat("tools/.secrets/shop/FROM_FILE"); err != nil {
		t.Error(err)
	}
}
