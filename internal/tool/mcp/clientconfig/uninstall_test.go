package clientconfig_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/clientconfig"
)

// TestUninstallChanged puts servers back into files that were changed since. Changes stay.
func TestUninstallChanged(t *testing.T) {
	const two = `{"n": 1, "mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}`
	for name, c := range map[string]struct {
		former     string
		taken      []string
		change, to string // of the installed text; "" is all of it
		want       string
		again      string
	}{
		"a setting": {two, []string{"a", "b"}, `"n": 1`, `"n": 2`, strings.Replace(two, `"n": 1`, `"n": 2`, 1), ""},
		"a kept server": {
			two, []string{"a"}, `"command": "b"`, `"command": "c"`,
			`{"n": 1, "mcpServers": {"a": {"command": "a"}, "b": {"command": "c"}}}`, "",
		},
		"a kept server that is gone": {
			two, []string{"a"}, `, "b": {"command": "b"}`, ``, `{"n": 1, "mcpServers": {"a": {"command": "a"}}}`, "",
		},
		"a new server": {
			two, []string{"a", "b"}, `"toolbus"`, `"c": {}, "toolbus"`,
			`{"n": 1, "mcpServers": {"c": {}, "a": {"command": "a"}, "b": {"command": "b"}}}`, "",
		},
		"a server added again": {
			two, []string{"a", "b"}, `"toolbus"`, `"a": {"command": "mine"}, "toolbus"`,
			`{"n": 1, "mcpServers": {"a": {"command": "mine"}, "b": {"command": "b"}}}`, "a",
		},
		"written by a program": {
			two, []string{"a"}, "", `{"mcpServers":{"b":{"command":"b"},"toolbus":{"command":"/opt/toolbus"}},"n":1}`,
			`{"mcpServers":{"b":{"command":"b"},"a": {"command": "a"}},"n":1}`, "",
		},
		"without the entry": {
			two, []string{"a"}, "", `{"n": 1, "mcpServers": {"b": {"command": "b"}}}`,
			`{"n": 1, "mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}`, "",
		},
		"without servers": {
			two, []string{"a"}, "", `{"n": 1}`, "{\"mcpServers\": {\n  \"a\": {\"command\": \"a\"}\n}, \"n\": 1}", "",
		},
		"another entry of that name": {
			two, []string{"a"}, `"/opt/toolbus"`, `"/opt/another"`,
			`{"n": 1, "mcpServers": {"a": {"command": "a"}, "toolbus": ENTRY, "b": {"command": "b"}}}`, "",
		},
		"one of its own before": {
			`{"mcpServers": {"toolbus": {"command": "/old/toolbus"}}}`, []string{"toolbus"}, `{"mcp`, `{"n": 1, "mcp`,
			`{"n": 1, "mcpServers": {"toolbus": {"command": "/old/toolbus"}}}`, "",
		},
		"nothing before": {"{}", nil, "{\n", "{\"n\": 2,\n", "{\"n\": 2\n}", ""},
		"comments": {
			"{\n  // mine\n  \"mcpServers\": {\n    // a\n    \"a\": {},\n  },\n}", []string{"a"}, "  // mine\n",
			"  \"n\": 2,\n",
			"{\n  \"n\": 2,\n  \"mcpServers\": {\n    // a\n    \"a\": {},\n  },\n}", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "mcp.json")
			write(t, file, c.former)
			l, err := clientconfig.At(file, clientconfig.Places{})
			if err != nil {
				t.Fatal(err)
			}
			if err := clientconfig.Install(l, c.taken, "/opt/toolbus", []string{"mcp"}); err != nil {
				t.Fatal(err)
			}
			now := c.to
			if c.change != "" {
				now = strings.Replace(read(t, file), c.change, c.to, 1)
			}
			write(t, file, now)
			u, err := clientconfig.Uninstall(l, false)
			if err != nil || !u.Changed || strings.Join(u.Again, " ") != c.again {
				t.Errorf("%+v, %v", u, err)
			}
			got := read(t, file)
			if strings.Contains(c.want, "ENTRY") {
				got = entryOf(t, strings.Replace(got, "/opt/another", "/opt/toolbus", 1))
			}
			if got != c.want {
				t.Errorf("%q\nwant %q\nfrom %q", got, c.want, now)
			}
		})
	}
}

// TestUninstallForce restores a file that is not a configuration any more.
func TestUninstallForce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcp.json")
	const former = `{"mcpServers": {"a": {}}}`
	write(t, file, former)
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	l, err := clientconfig.At(file, clientconfig.Places{})
	if err != nil {
		t.Fatal(err)
	}
	if err := clientconfig.Install(l, []string{"a"}, "/opt/toolbus", nil); err != nil {
		t.Fatal(err)
	}
	for _, kept := range []string{l.Copy(), l.Copy() + ".json"} {
		if info, err := os.Stat(kept); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", kept, info, err)
		}
	}
	if err := clientconfig.Install(l, nil, "/opt/toolbus", nil); err == nil {
		t.Error("installed twice: the former configuration would be lost")
	}
	write(t, file, "{canary")
	if _, err := clientconfig.Uninstall(l, false); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("restored: %v", err)
	}
	if u, err := clientconfig.Uninstall(l, true); err != nil || u.Changed || read(t, file) != former {
		t.Errorf("%+v, %v: %s", u, err, read(t, file))
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := clientconfig.Uninstall(l, false); err == nil {
		t.Error("put back twice")
	}
}

// TestUninstallScopes undoes installations into two objects of one file, in either order.
func TestUninstallScopes(t *testing.T) {
	for _, first := range []clientconfig.Scope{clientconfig.User, clientconfig.Local} {
		t.Run(string(first), func(t *testing.T) {
			p := places(t)
			f := fixtures(p)[0]
			l := map[clientconfig.Scope]clientconfig.Location{clientconfig.User: f.placed(t, p)}
			former := read(t, l[clientconfig.User].File)
			var err error
			if l[clientconfig.Local], err = clientconfig.Locate("claude-code", clientconfig.Local, p); err != nil {
				t.Fatal(err)
			}
			for scope, taken := range map[clientconfig.Scope]string{clientconfig.User: "files", clientconfig.Local: "memory"} {
				if err := clientconfig.Install(l[scope], []string{taken}, "/opt/toolbus", nil); err != nil {
					t.Fatal(err)
				}
			}
			second := map[clientconfig.Scope]clientconfig.Scope{
				clientconfig.User: clientconfig.Local, clientconfig.Local: clientconfig.User,
			}[first]
			for _, scope := range []clientconfig.Scope{first, second} {
				if _, err := clientconfig.Uninstall(l[scope], false); err != nil {
					t.Fatal(err)
				}
			}
			if now := read(t, l[first].File); now != former {
				t.Errorf("%s\nwant %s", now, former)
			}
		})
	}
}

// TestInstallOdd neither replaces nor moves a file that is not a client's own.
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
		l, err := clientconfig.At(file, clientconfig.Places{})
		if err != nil {
			t.Fatal(err)
		}
		if err := clientconfig.Install(l, nil, "/opt/toolbus", nil); err == nil {
			t.Errorf("%s was replaced", file)
		}
		if is, err := os.Lstat(file); err != nil || !os.SameFile(was, is) || is.Mode() != was.Mode() {
			t.Errorf("%s is %v, %v", file, is, err)
		}
		if _, err := os.Lstat(l.Copy()); err == nil {
			t.Errorf("%s was kept", file)
		}
	}
}
