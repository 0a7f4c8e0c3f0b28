package mcpimport_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/mcpimport"
	"github.com/seed-018f16cc/toolbus/tool/mcp/upstream"
)

func TestReadConfig(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want map[string]upstream.Server
		bad  map[string]string // part of the error, by name
	}{
		"a desktop agent": {
			`{"mcpServers": {"Files": {"command": "npx", "args": ["-y", "files", "//host/a"], "env": {"TOKEN": "t, }"}}}}`,
			map[string]upstream.Server{
				"files": {Command: "npx", Args: []string{"-y", "files", "//host/a"}, Env: map[string]string{"TOKEN": "t, }"}},
			}, nil,
		},
		"an editor, with comments": {
			`{
				// those of the project
				"servers": {
					"web": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${env:T}"},},
					/* not now
					"x": {}, */
					"asks": {"command": "x", "env": {"K": "${input:key}"}},
					"old": {"type": "sse", "url": "https://example.com/sse"},
				},
				"inputs": [],
			}`,
			map[string]upstream.Server{
				"web": {URL: "https://example.com/mcp", Headers: map[string]string{"Authorization": "Bearer ${env:T}"}},
			},
			map[string]string{"asks": "${input:key}", "old": "sse"},
		},
		"a terminal agent": {
			`{"mcpServers": {"a": {"command": "${HOME}/a", "args": ["${PORT:-80}"]}, "off": {"command": "x", "disabled": true},
				"bus": {"command": "/usr/bin/toolbus", "args": ["mcp"]}}, "projects": {}}`,
			map[string]upstream.Server{"a": {Command: "${env:HOME}/a", Args: []string{"${env:PORT:-80}"}}},
			map[string]string{"bus": "Toolbus itself"},
		},
		"commands in other forms": {
			`{"context_servers": {"z": {"command": {"path": "z", "args": ["1"], "env": {"A": "b"}}}},
				"mcp": {"servers": {"o": {"command": ["o", "1"], "args": ["2"]}}}}`,
			map[string]upstream.Server{
				"z": {Command: "z", Args: []string{"1"}, Env: map[string]string{"A": "b"}},
				"o": {Command: "o", Args: []string{"1", "2"}},
			}, nil,
		},
		"servers that are not used, and some of one name": {
			`{"mcpServers": {"off": {"command": 7, "disabled": true}, "off2": {"command": "x", "enabled": false},
				"a/db": {"command": "db", "enabled": true}, "b/db": {"command": "db", "env": {"TOKEN": "of another"}}}}`,
			map[string]upstream.Server{"db": {Command: "db"}}, map[string]string{"db": `"a/db" has that name`},
		},
		"nothing that is reached": {
			`{"mcpServers": {"n": {}, "t": 7}}`, map[string]upstream.Server{},
			map[string]string{"n": "either a command or a url", "t": "7"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.json")
			if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			all, err := mcpimport.ReadConfig(file)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]upstream.Server{}
			for _, c := range all {
				if c.Err == nil {
					got[c.Name] = c.Server
				} else if part := test.bad[c.Name]; part == "" || !strings.Contains(c.Err.Error(), part) && part != "7" {
					t.Errorf("%s: %v", c.Name, c.Err)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" || len(all) != len(test.want)+len(test.bad) {
				t.Errorf("%d servers (-want +got):\n%s", len(all), diff)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "other.json")
	if err := os.WriteFile(file, []byte(`{"theme": "dark"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := mcpimport.ReadConfig(file); err == nil || !strings.Contains(err.Error(), "mcpServers") {
		t.Errorf("a configuration without servers: %v", err)
	}
}

// TestHide moves what may be a credential out of what executors are shown.
func TestHide(t *testing.T) {
	dir := t.TempDir()
	s := upstream.Server{Command: "x", Env: map[string]string{"TOKEN": "swordfish", "HOME": "${env:HOME}"}}
	if err := mcpimport.Hide(dir, "shop", &s); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"TOKEN": "${file:.secrets/shop/TOKEN}", "HOME": "${env:HOME}"}
	if diff := cmp.Diff(want, s.Env); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	resolved, err := s.Resolve(dir, func(string) (string, bool) { return "/home", true })
	if err != nil || resolved.Env["TOKEN"] != "swordfish" {
		t.Errorf("%v, %v", resolved.Env, err)
	}
	info, err := os.Stat(filepath.Join(dir, ".secrets", "shop", "TOKEN"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
