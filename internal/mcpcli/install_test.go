package mcpcli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/cli"
)

func TestReplaced(t *testing.T) {
	entry := []byte(`{"toolbus": {}}`)
	for name, c := range map[string]struct{ text, want string }{
		"nothing": {"", "{\n  \"mcpServers\": {\"toolbus\": {}}\n}\n"},
		"empty":   {"{ }", "{\n  \"mcpServers\": {\"toolbus\": {}}\n}\n"},
		"other":   {`{"a": 1}`, "{\n  \"mcpServers\": {\"toolbus\": {}},\"a\": 1}"},
		"servers": {
			`{"a": 1, "mcpServers": {"x": {"command": "y"}}, "b": 2}`,
			`{"a": 1, "mcpServers": {"toolbus": {}}, "b": 2}`,
		},
		"of an editor": {
			"{\n  // mine: {\"a\": 1},\n  \"servers\": {\"x\": 1, /* } */},\n  \"inputs\": [1,],\n}\n",
			"{\n  // mine: {\"a\": 1},\n  \"servers\": {\"toolbus\": {}},\n  \"inputs\": [1,],\n}\n",
		},
		"in a text": {
			`{"a": "\"mcpServers\": {", "mcpServers" : {}}`, `{"a": "\"mcpServers\": {", "mcpServers" : {"toolbus": {}}}`,
		},
		"below": {
			`{"p": {"mcpServers": {"x": 1}}}`, "{\n  \"mcpServers\": {\"toolbus\": {}},\"p\": {\"mcpServers\": {\"x\": 1}}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := replaced([]byte(c.text), "mcpServers", entry)
			if err != nil || string(got) != c.want {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
	for _, wrong := range []string{"[]", `{"a": }`, `{"a": 1} 2`, `{"mcpServers": {}, "servers": {}}`, `{`, `"a"`} {
		if got, err := replaced([]byte(wrong), "mcpServers", entry); err == nil {
			t.Errorf("%s became %s", wrong, got)
		}
	}
}

func FuzzBlanked(f *testing.F) {
	for _, seed := range []string{`{"a": [1, 2,], /* x */ "b": "//"} // y`, `"\`, `/`, `/*`, `,]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		plain := blanked(text)
		if len(plain) != len(text) {
			t.Errorf("%q became %q", text, plain)
		}
		if json.Valid(text) && !bytes.Equal(plain, text) {
			t.Errorf("the JSON %q became %q", text, plain)
		}
	})
}

// play runs a command line, and returns what it said.
func play(t *testing.T, env cli.Env, args ...string) (said string, err error) {
	t.Helper()
	var out bytes.Buffer
	env.Stdout, env.Stderr = &out, &out
	cmd := Serve(env, strings.NewReader(""), nil)
	cmd.PersistentFlags().String("server", "", "")
	cmd.PersistentFlags().String("context", "", "")
	cmd.PersistentFlags().String("credentials", "", "")
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestInstall(t *testing.T) {
	dir := t.TempDir()
	env := cli.Env{Environ: []string{"HOME=" + dir}, Config: filepath.Join(dir, ".config"), URL: "nats://bus:4222"}
	said, err := play(t, env, "install", "--credentials", "a.token")
	var shown struct {
		Servers map[string]server `json:"mcpServers"`
	}
	if err != nil || json.Unmarshal([]byte(said), &shown) != nil {
		t.Fatalf("%s, %v", said, err)
	}
	here, err := filepath.Abs("a.token")
	if err != nil {
		t.Fatal(err)
	}
	want := "mcp --credentials " + here + " --server nats://bus:4222"
	if got := strings.Join(shown.Servers["toolbus"].Args, " "); got != want || shown.Servers["toolbus"].Command == "" {
		t.Errorf("%s, want %s", got, want)
	}
	if _, err := play(t, env, "install", "--write"); err == nil {
		t.Error("written nowhere")
	}
	if _, err := play(t, env, "install", "--client", "nobody"); err == nil || !strings.Contains(err.Error(), "cursor") {
		t.Error(err)
	}

	file := filepath.Join(dir, ".cursor", "mcp.json")
	former := `{"mcpServers": {"files": {"command": "files"}}, "more": 1}`
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(former), 0o640); err != nil {
		t.Fatal(err)
	}
	if said, err := play(t, env, "install", "--client", "cursor", "--write"); err != nil {
		t.Fatal(said, err)
	}
	now := holds(t, file)
	if !strings.Contains(now, `"toolbus"`) || strings.Contains(now, "files") || !strings.Contains(now, `"more": 1`) {
		t.Error(now)
	}
	if _, err := play(t, env, "install", "--client", "cursor", "--write"); err == nil {
		t.Error("installed twice: the former configuration would be lost")
	}
	more := strings.Replace(now, `"toolbus"`, `"another": 1, "toolbus"`, 1)
	if err := os.WriteFile(file, []byte(more), 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := play(t, env, "uninstall", "--client", "cursor"); err == nil {
		t.Error("what was changed since is gone")
	}
	if err := os.WriteFile(file, []byte(now), 0o640); err != nil {
		t.Fatal(err)
	}
	if said, err := play(t, env, "uninstall", "--config", file); err != nil {
		t.Fatal(said, err)
	}
	if info, err := os.Stat(file); err != nil || holds(t, file) != former || info.Mode().Perm() != 0o640 {
		t.Errorf("%s, %v", holds(t, file), err)
	}
	if _, err := play(t, env, "uninstall", "--config", file); err == nil {
		t.Error("put back twice")
	}

	// A client without a configuration gets one, and has none afterwards.
	if said, err := play(t, env, "install", "--client", "vscode", "--write"); err != nil {
		t.Fatal(said, err)
	}
	vscode, err := clientOf("vscode")
	if err != nil {
		t.Fatal(err)
	}
	made := vscode.path(env)
	if text := holds(t, made); !strings.Contains(text, `"servers"`) {
		t.Error(text)
	}
	if said, err := play(t, env, "uninstall", "--client", "vscode"); err != nil {
		t.Fatal(said, err)
	}
	if _, err := os.Stat(made); !os.IsNotExist(err) {
		t.Error(err)
	}
}

func holds(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What an agent has changed beside its servers stays when they are put back.
func TestUninstallChanged(t *testing.T) {
	for name, c := range map[string]struct{ former, change, to, want string }{
		"settings": {
			`{"n": 1, "mcpServers": {"files": {"command": "files"}}}`, `"n": 1`, `"n": 2`,
			`{"n": 2, "mcpServers": {"files": {"command": "files"}}}`,
		},
		"written anew": {
			"{\n  // mine\n  \"mcpServers\": {\"a\": {},},\n}", "// mine\n", "\"x\": 1,\n",
			"{\n  \"x\": 1,\n  \"mcpServers\": {\"a\": {},},\n}",
		},
		"no servers": {`{"n": 1}`, `"n": 1`, `"n": 2`, "{\n  \"mcpServers\": {},\"n\": 2}"},
		"nothing":    {"", "{\n", "{\"n\": 2,\n", "{\"n\": 2,\n  \"mcpServers\": {}\n}\n"},
		"not yet":    {`{"n": 1}`, "", "", `{"n": 1}`},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "mcp.json")
			if err := os.WriteFile(file, []byte(c.former), 0o600); err != nil {
				t.Fatal(err)
			}
			if said, err := play(t, cli.Env{}, "install", "--config", file, "--write"); err != nil {
				t.Fatal(said, err)
			}
			now := strings.Replace(holds(t, file), c.change, c.to, 1)
			if c.change == "" { // it was interrupted before the file was written
				now = c.former
			}
			if err := os.WriteFile(file, []byte(now), 0o600); err != nil {
				t.Fatal(err)
			}
			if said, err := play(t, cli.Env{}, "uninstall", "--config", file); err != nil {
				t.Fatal(said, err)
			}
			if got := holds(t, file); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// What is no file of an agent's own is neither replaced nor moved.
func TestInstallOdd(t *testing.T) {
	dir := t.TempDir()
	pipe, link, locked := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "locked")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(locked, []byte("{}"), 0o400); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{pipe, link, locked, dir} {
		was, err := os.Lstat(file)
		if err != nil {
			t.Fatal(err)
		}
		if said, err := play(t, cli.Env{}, "install", "--config", file, "--write"); err == nil {
			t.Errorf("%s: %s", file, said)
		}
		if is, err := os.Lstat(file); err != nil || !os.SameFile(was, is) || is.Mode() != was.Mode() {
			t.Errorf("%s is %v, %v", file, is, err)
		}
		if _, err := os.Lstat(file + suffix); err == nil {
			t.Errorf("%s was kept", file)
		}
	}
}
