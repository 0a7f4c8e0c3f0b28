package clientconfig_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/clientconfig"
)

// TestRead reads configurations of clients that are not known.
func TestRead(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want map[string]client.Server
		bad  map[string]string // part of the error, by name
	}{
		"a mark, comments and references": {
			"\ufeff" + `{
				// those of the project
				"servers": {
					"web": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${env:T}"},},
					/* not now
					"x": {}, */
					"asks": {"command": "x", "env": {"K": "${input:key:-canary}"}},
					"here": {"command": "${workspaceFolder}/x"},
					"old": {"type": "sse", "url": "https://example.com/sse"},
				},
				"inputs": [],
			}`,
			map[string]client.Server{
				"web": {URL: "https://example.com/mcp", Headers: map[string]string{"Authorization": "Bearer ${env:T}"}},
			},
			map[string]string{"asks": "knows ${input:key}:", "here": "${workspaceFolder}", "old": "sse"},
		},
		"a terminal agent": {
			`{"mcpServers": {"a": {"command": "${HOME}/a", "args": ["${PORT:-80}"], "env": {"N": 7, "B": true, "X": null}},
				"bus": {"command": "/usr/bin/toolbus", "args": ["mcp"]}}, "projects": {}}`,
			map[string]client.Server{"a": {Command: "${env:HOME}/a", Args: []string{"${env:PORT:-80}"}, CWD: "/work",
				Env: map[string]string{"N": "7", "B": "true"}}},
			map[string]string{"bus": "Toolbus itself"},
		},
		"commands in other forms": {
			`{"mcp": {"servers": {"o": {"command": ["o", "1"], "args": ["2"], "cwd": "below"}}}}`,
			map[string]client.Server{"o": {Command: "o", Args: []string{"1", "2"}, CWD: "/work/below"}}, nil,
		},
		"of opencode": {
			`{"mcp": {"o": {"type": "local", "command": ["o"]}}}`,
			map[string]client.Server{"o": {Command: "o", Args: []string{}, CWD: "/work"}}, nil,
		},
		"some of one name": {
			`{"mcpServers": {"off": {"command": 7, "disabled": true}, "a/db": {"command": "db", "enabled": true},
				"b/db": {"command": "db", "env": {"TOKEN": "canary"}}}}`,
			map[string]client.Server{"db": {Command: "db", CWD: "/work"}},
			map[string]string{"off": "disabled there", "db": `"a/db" has that name`},
		},
		"wrong types": {
			`{"mcpServers": {"n": {}, "t": "canary", "c": {"command": "canary", "args": "canary"},
				"e": {"command": "x", "env": {"TOKEN": ["canary"]}}, "h": {"url": "https://x", "headers": "canary"},
				"u": {"url": "canary://u:canary@x"}, "s": {"command": "x", "timeout": "canary"},
				"k": {"command": "x", "type": "carrier"}, "f": {"command": "x", "envFile": "gone"}}}`,
			map[string]client.Server{},
			map[string]string{"n": "either a command or a url", "t": "no object", "c": "args", "e": "TOKEN of its env",
				"h": "headers", "u": "no http or https URL", "s": "timeout", "k": `type "carrier"`, "f": "/work/gone is not there"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.json")
			write(t, file, test.text)
			p := clientconfig.Places{Home: "/home/ada", Project: "/work"}
			l, err := clientconfig.At(file, p)
			if err != nil {
				t.Fatal(err)
			}
			c, err := clientconfig.Read(l, p)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]client.Server{}
			for _, s := range c.Servers {
				why := s.Off
				if s.Err != nil && why == "" {
					why = s.Err.Error()
				}
				if why == "" {
					got[s.Name] = s.Server
				} else if part := test.bad[s.Name]; part == "" || !strings.Contains(why, part) || strings.Contains(why, "canary") {
					t.Errorf("%s: %s; want %s", s.Name, why, part)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" || len(c.Servers) != len(test.want)+len(test.bad) {
				t.Errorf("%d servers (-want +got):\n%s", len(c.Servers), diff)
			}
		})
	}
}

// TestReadTimeouts reads timeouts in the unit of each client.
func TestReadTimeouts(t *testing.T) {
	for _, c := range []struct {
		file, member, entry string
		want, start         time.Duration
	}{
		{"x.json", "mcpServers", `"timeout": 60`, time.Minute, 0},
		{"x.json", "mcpServers", `"timeout": 3600`, 10 * time.Minute, 0},
		{"x.json", "mcpServers", `"timeout": 60000`, time.Minute, 0},
		{"x.json", "mcpServers", `"timeout": 1e300`, 10 * time.Minute, 0},
		{"x.json", "mcpServers", `"timeout": 0`, 0, 0},
		{"x.json", "mcpServers", `"tool_timeout_sec": 45.5, "startup_timeout_sec": 20`, 45500 * time.Millisecond,
			20 * time.Second},
		{"x.json", "mcpServers", `"startup_timeout_ms": 1500`, 0, 1500 * time.Millisecond},
		{"cline_mcp_settings.json", "mcpServers", `"timeout": 7200`, 10 * time.Minute, 0},
		{".roo/mcp.json", "mcpServers", `"timeout": 15`, 15 * time.Second, 0},
		{"zed/settings.json", "context_servers", `"timeout": 120`, 2 * time.Minute, 0},
		{".mcp.json", "mcpServers", `"timeout": 3000`, 3 * time.Second, 0},
		{".mcp.json", "mcpServers", `"timeout": 500`, 0, 0}, // which Claude Code ignores
		{"opencode.json", "mcp", `"timeout": 3000`, 3 * time.Second, 0},
	} {
		t.Run(c.file+" "+c.entry, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), c.file)
			write(t, file, `{"`+c.member+`": {"x": {"command": "x", `+c.entry+`}}}`)
			l, err := clientconfig.At(file, clientconfig.Places{})
			if err != nil {
				t.Fatal(err)
			}
			all, err := clientconfig.Read(l, clientconfig.Places{})
			if err != nil || len(all.Servers) != 1 {
				t.Fatal(all, err)
			}
			s := all.Servers[0]
			start := time.Duration(s.Server.StartMS) * time.Millisecond
			if s.Err != nil || s.Timeout != c.want || start != c.start {
				t.Errorf("%v, start %v, %v; want %v and %v", s.Timeout, start, s.Err, c.want, c.start)
			}
		})
	}
}

// TestReadFilter reads which tools a client shows.
func TestReadFilter(t *testing.T) {
	for entry, off := range map[string]string{
		``:                                 "",
		`, "disabledTools": ["b"]`:         "b",
		`, "excludeTools": ["b", "c"]`:     "b c",
		`, "disabled_tools": ["*"]`:        "a b c ab",
		`, "includeTools": ["a"]`:          "b c ab",
		`, "includeTools": ["a*", "b(x)"]`: "c",
		`, "enabled_tools": []`:            "a b c ab",
		`, "enabledTools": ["a", "b"], "disabledTools": ["b"]`: "b c ab",
	} {
		t.Run(entry, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "x.json")
			write(t, file, `{"mcpServers": {"x": {"command": "x"`+entry+`}}}`)
			l, err := clientconfig.At(file, clientconfig.Places{})
			if err != nil {
				t.Fatal(err)
			}
			all, err := clientconfig.Read(l, clientconfig.Places{})
			if err != nil || len(all.Servers) != 1 || all.Servers[0].Err != nil || len(all.Servers[0].Unknown) > 0 {
				t.Fatal(all, err)
			}
			var got []string
			for _, tool := range []string{"a", "b", "c", "ab"} {
				if all.Servers[0].Tools.Off(tool) {
					got = append(got, tool)
				}
			}
			if strings.Join(got, " ") != off {
				t.Errorf("%q are off, want %q", got, off)
			}
		})
	}
}

// TestReadNotes names servers that are elsewhere in a file, and lists that keep the entry of the bus from being used.
func TestReadNotes(t *testing.T) {
	p := places(t)
	c, err := clientconfig.Read(fixtures(p)[0].placed(t, p), p)
	alone := p.Project + " alone: --client claude-code --scope local"
	if err != nil || len(c.Notes) != 1 || !strings.Contains(c.Notes[0], alone) {
		t.Errorf("%q, %v", c.Notes, err)
	}
	write(t, filepath.Join(p.Home, ".gemini", "settings.json"),
		`{"mcp": {"allowed": ["a"]}, "mcpServers": {"a": {}, "b": {}}}`)
	l, err := clientconfig.Locate("gemini-cli", clientconfig.User, p)
	if err != nil {
		t.Fatal(err)
	}
	c, err = clientconfig.Read(l, p)
	if err != nil || len(c.Notes) != 1 || !strings.Contains(c.Notes[0], "does not start toolbus") ||
		c.Servers[0].Off != "" || c.Servers[1].Off == "" {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestLocate refuses clients and scopes that are not known.
func TestLocate(t *testing.T) {
	p := places(t)
	for _, c := range []struct {
		name  string
		scope clientconfig.Scope
		part  string
	}{
		{"nobody", clientconfig.User, "cursor, gemini-cli"}, {"zed", clientconfig.Project, "no configuration of scope"},
		{"cursor", "everywhere", "no configuration of scope"},
	} {
		if _, err := clientconfig.Locate(c.name, c.scope, p); err == nil || !strings.Contains(err.Error(), c.part) {
			t.Errorf("%s %s: %v", c.name, c.scope, err)
		}
	}
	l, err := clientconfig.Locate("opencode", clientconfig.User, p)
	if err != nil || l.File != filepath.Join(p.Config, "opencode", "opencode.json") {
		t.Errorf("%s, %v", l.File, err)
	}
	if c, err := clientconfig.Read(l, p); err != nil || len(c.Servers) != 0 {
		t.Errorf("%+v, %v", c, err)
	}
}
