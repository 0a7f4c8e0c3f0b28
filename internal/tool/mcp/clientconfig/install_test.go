package clientconfig_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/clientconfig"
)

// TestInstallFixtures replaces the first and the last server of each client's configuration, and undoes that.
func TestInstallFixtures(t *testing.T) {
	p := places(t)
	for n, f := range fixtures(p) {
		t.Run(fmt.Sprint(f.name, f.scope), func(t *testing.T) {
			p := places(t)
			f := fixtures(p)[n]
			l := f.placed(t, p)
			former := read(t, l.File)
			before, err := clientconfig.Read(l, p)
			if err != nil {
				t.Fatal(err)
			}
			taken := []string{before.Servers[0].Called}
			if last := before.Servers[len(before.Servers)-1].Called; last != taken[0] {
				taken = append(taken, last)
			}
			if err := clientconfig.Install(l, taken, "/opt/toolbus", []string{"mcp", "--server", "nats://a"}); err != nil {
				t.Fatal(err)
			}
			hasInstalled(t, l, p, before, taken)
			if lines := lost(former, read(t, l.File)); len(lines) > 0 && f.name == "vscode.json" {
				t.Errorf("comments are gone: %q", lines)
			}
			undone, err := clientconfig.Uninstall(l, false)
			if err != nil || undone.Changed || undone.Removed || read(t, l.File) != former {
				t.Errorf("%+v, %v\n%s", undone, err, read(t, l.File))
			}
			if left, err := filepath.Glob(l.File + "?*"); err != nil || len(left) > 0 {
				t.Errorf("%q, %v", left, err)
			}
		})
	}
}

// hasInstalled fails unless a configuration has the entry for the bus and all servers but those that are taken.
func hasInstalled(t *testing.T, l clientconfig.Location, p clientconfig.Places, before clientconfig.Config,
	taken []string) {
	t.Helper()
	after, err := clientconfig.Read(l, p)
	if err != nil {
		t.Fatalf("%v\n%s", err, read(t, l.File))
	}
	var names, want []string
	for _, s := range after.Servers {
		names = append(names, s.Called)
		if s.Self != (s.Called == "toolbus") || s.Self && s.Off != "" {
			t.Errorf("%+v", s)
		}
		if s.Self && (s.Server.Command != "/opt/toolbus" || strings.Join(s.Server.Args, " ") != "mcp --server nats://a" ||
			len(s.Unknown) > 0) {
			t.Errorf("the entry is %+v", s)
		}
	}
	for _, s := range before.Servers {
		if !slices.Contains(taken, s.Called) {
			want = append(want, s.Called)
		}
	}
	want = append(want, "toolbus")
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("servers %q, want %q\n%s", names, want, read(t, l.File))
	}
}

// lost returns the comments of a text that another one has not.
func lost(former, now string) (all []string) {
	for line := range strings.Lines(former) {
		if _, comment, ok := strings.Cut(line, " // "); ok && !strings.Contains(now, strings.TrimSpace(comment)) {
			all = append(all, comment)
		}
	}
	return all
}

// TestInstallText shows the text of configurations before and after.
func TestInstallText(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		taken []string
		want  string
	}{
		"nothing":      {"", nil, "{\n  \"mcpServers\": {\n    \"toolbus\": ENTRY\n  }\n}\n"},
		"empty":        {"{ }", nil, "{\n  \"mcpServers\": {\n    \"toolbus\": ENTRY\n  }\n}"},
		"a mark alone": {"\ufeff", nil, "\ufeff{\n  \"mcpServers\": {\n    \"toolbus\": ENTRY\n  }\n}\n"},
		"no servers":   {`{"mcpServers": {}}`, nil, "{\"mcpServers\": {\n  \"toolbus\": ENTRY\n}}"},
		"all": {
			`{"a": 1, "mcpServers": {"x": {}}, "b": 2}`, []string{"x"},
			`{"a": 1, "mcpServers": {"toolbus": ENTRY}, "b": 2}`,
		},
		"none": {
			"{\n\t\"mcpServers\": {\n\t\t\"x\": {}\n\t}\n}\n", nil,
			"{\n\t\"mcpServers\": {\n\t\t\"toolbus\": ENTRY,\n\t\t\"x\": {}\n\t}\n}\n",
		},
		"the first of three": {
			`{"mcpServers": {"x": {}, "y": {}, "z": {}}}`, []string{"x"}, `{"mcpServers": {"toolbus": ENTRY, "y": {}, "z": {}}}`,
		},
		"the first and the last": {
			`{"mcpServers": {"x": {}, "y": {}, "z": {}}}`, []string{"x", "z"}, `{"mcpServers": {"toolbus": ENTRY, "y": {}}}`,
		},
		"the last two": {
			`{"mcpServers": {"x": {}, "y": {}, "z": {}}}`, []string{"y", "z"}, `{"mcpServers": {"x": {}, "toolbus": ENTRY}}`,
		},
		"comments, and commas behind the last": {
			"\ufeff{\n  \"mcpServers\": {\n    // of x\n    \"x\": {}, // x, too\n" +
				"    /* of y */ \"y\": {/* } */},\n    \"z\": {},\n  },\n}\n",
			[]string{"x", "z"},
			"\ufeff{\n  \"mcpServers\": {\n    // of x\n    \"toolbus\": ENTRY, // x, too\n" +
				"    /* of y */ \"y\": {/* } */},\n  },\n}\n",
		},
		"a comment behind the last": {
			"{\"mcpServers\": {\n  \"x\": {}, // x\n  \"y\": {} // y\n}}", []string{"x", "y"},
			"{\"mcpServers\": {\n  \"toolbus\": ENTRY // x\n  // y\n}}",
		},
		"in a text": {
			`{"a": "\"mcpServers\": {", "mcpServers" : {"}": {}}}`, []string{"}"},
			`{"a": "\"mcpServers\": {", "mcpServers" : {"toolbus": ENTRY}}`,
		},
		"the entry of an earlier build": {
			`{"mcpServers": {"x": {}, "toolbus": {"command": "/old/toolbus"}}}`, []string{"x", "toolbus"},
			`{"mcpServers": {"toolbus": ENTRY}}`,
		},
		"amp": {`{"amp.mcpServers": {"x": {}}}`, []string{"x"}, `{"amp.mcpServers": {"toolbus": ENTRY}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := installed(t, c.text, c.taken)
			if text := entryOf(t, got); text != c.want {
				t.Errorf("%q\nwant %q", text, c.want)
			}
		})
	}
}

// installed returns a configuration after an installation.
func installed(t *testing.T, text string, taken []string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mcp.json")
	write(t, file, text)
	l, err := clientconfig.At(file, clientconfig.Places{})
	if err != nil {
		t.Fatal(err)
	}
	if err := clientconfig.Install(l, taken, "/opt/toolbus", []string{"mcp"}); err != nil {
		t.Fatal(err)
	}
	return read(t, file)
}

// entryOf returns a text in which ENTRY stands for the entry of the bus.
func entryOf(t *testing.T, text string) string {
	t.Helper()
	head, rest, ok := strings.Cut(text, `"toolbus": {`)
	end := strings.Index(rest, "}")
	if !ok || end < 0 {
		t.Fatalf("there is no entry: %s", text)
	}
	var e struct{ Type, Command string }
	if err := json.Unmarshal([]byte("{"+rest[:end+1]), &e); err != nil || e.Type != "stdio" ||
		e.Command != "/opt/toolbus" {
		t.Errorf("%+v, %v: %s", e, err, text)
	}
	return head + `"toolbus": ENTRY` + rest[end+1:]
}

// TestInstallRefused checks that Install does not change files that it cannot edit, and that the errors contain nothing
// from the files.
func TestInstallRefused(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		taken      []string
		part       string
	}{
		"a list":               {"mcp.json", `["canary"]`, nil, "no JSON object"},
		"a text":               {"mcp.json", `"canary"`, nil, "no JSON object"},
		"half":                 {"mcp.json", `{"canary": `, nil, "no JSON"},
		"broken":               {"mcp.json", `{"canary": canary}`, nil, "no JSON, at byte"},
		"two":                  {"mcp.json", `{"a": 1} "canary"`, nil, "something follows"},
		"both":                 {"mcp.json", `{"mcpServers": {}, "servers": {}}`, nil, "both mcpServers and servers"},
		"twice":                {"mcp.json", `{"mcpServers": {"canary": 1, "canary": 2}}`, nil, "a name twice"},
		"of something else":    {"settings.json", `{"theme": "canary"}`, nil, "no member that holds servers"},
		"another of that name": {"mcp.json", `{"mcpServers": {"toolbus": {"command": "canary"}}}`, nil, "server toolbus"},
		"TOML":                 {"config.toml", "x = \"canary\"\n", nil, "TOML"},
		"not there":            {"mcp.json", `{"mcpServers": {}}`, []string{"x"}, `no server "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), c.file)
			write(t, file, c.text)
			l, err := clientconfig.At(file, clientconfig.Places{})
			if err != nil {
				t.Fatal(err)
			}
			err = clientconfig.Install(l, c.taken, "toolbus", nil)
			if err == nil || !strings.Contains(err.Error(), c.part) || strings.Contains(err.Error(), "canary") {
				t.Errorf("%v; want %s", err, c.part)
			}
			all, err := os.ReadDir(filepath.Dir(file))
			if err != nil || len(all) != 1 || read(t, file) != c.text {
				t.Errorf("%v, %v: %s", all, err, read(t, file))
			}
		})
	}
}

func FuzzInstall(f *testing.F) {
	for _, seed := range []string{
		`{"mcpServers": {"x": {}, /* x */ "y": 1,}, } // y`, `{"mcpServers": {"x": {}}}`, "\ufeff{}",
		`{"mcp": {"x": {"url": ""},},}`,
		"{\n\"servers\" : {\n\"a\":{},//\n\"b\":{}//\n}}", `"\`, `/`, `/*`, `,]`,
	} {
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, text string, change bool) {
		file := filepath.Join(t.TempDir(), "mcp.json")
		write(t, file, text)
		l, err := clientconfig.At(file, clientconfig.Places{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := clientconfig.Read(l, clientconfig.Places{})
		if err != nil {
			return
		}
		var taken []string
		for i, s := range c.Servers {
			if i%2 == 0 || s.Self {
				taken = append(taken, s.Called)
			}
		}
		if err := clientconfig.Install(l, taken, "/opt/toolbus", []string{"mcp"}); err != nil {
			return
		}
		after, err := clientconfig.Read(l, clientconfig.Places{})
		if want := len(c.Servers) - len(taken) + 1; err != nil || len(after.Servers) != want {
			t.Fatalf("%q became %q: %d servers, %v", text, read(t, file), want, err)
		}
		if change {
			write(t, file, read(t, file)+" ")
		}
		if _, err := clientconfig.Uninstall(l, false); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if !change && read(t, file) != text {
			t.Errorf("%q became %q", text, read(t, file))
		}
		if again, err := clientconfig.Read(l, clientconfig.Places{}); err != nil || len(again.Servers) != len(c.Servers) {
			t.Errorf("%q became %q: %v", text, read(t, file), err)
		}
	})
}
