//go:build linux

package importer_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/importer"
)

// tell serves the tools of a file as they are written there, which the library would not.
func tell(file string) int {
	tools, err := os.ReadFile(file)
	if err != nil {
		return 2
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return 3
		}
		switch answer := `{"jsonrpc":"2.0","id":%s,"result":%s}` + "\n"; m.Method {
		case "initialize":
			fmt.Printf(answer, m.ID, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},`+
				`"serverInfo":{"name":"shop","version":"1"}}`)
		case "tools/list":
			fmt.Printf(answer, m.ID, `{"tools":`+strings.ReplaceAll(string(tools), "\n", " ")+`}`)
		case "server/discover":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`+"\n", m.ID)
		}
	}
	return 0
}

func newTeller(t *testing.T, tools string) *shop {
	s := newShop(t, tools)
	s.server.Args[0] = "tell"
	return s
}

// A number that no double holds costs its tool the part that has it, and neither the tool nor its server.
func TestImportHugeNumbers(t *testing.T) {
	s := newTeller(t, `[
		{"name":"far","inputSchema":{"type":"object","properties":{"n":{"type":"number","maximum":1e400,"minimum":1}}}},
		{"name":"of","inputSchema":{"type":"object","properties":{"n":{"enum":[1,-1e999]}}},
			"outputSchema":{"type":"object","properties":{"n":{"default":1e400}}}},
		{"name":"meta","inputSchema":{"type":"object"},"_meta":{"a/b":1e400,"c":1},"annotations":{"x":[[1e400]]}},
		{"name":"plain","inputSchema":{"type":"object"}}]`)
	want := map[string][]string{
		"far": {
			"input schema/properties/n/maximum is not checked: its number is beyond 2^53",
			"/inputSchema/properties/n/maximum is not shown: no double holds its number",
		},
		"of": {
			"input schema/properties/n/enum is not checked: its number is beyond 2^53",
			"/inputSchema/properties/n/enum is not shown: no double holds its number",
			"/outputSchema/properties/n/default is not shown: no double holds its number",
		},
		"meta": {
			"/_meta/a~1b is not shown: no double holds its number",
			"/annotations/x is not shown: no double holds its number",
		},
		"plain": nil,
	}
	for _, one := range s.imports().Tools {
		if one.State != importer.Added || !slices.Equal(one.Notes, want[one.Name]) {
			t.Errorf("%s is %s: %s\n%s", one.Name, one.State, one.Why, strings.Join(one.Notes, "\n"))
			continue
		}
		m := s.loaded(one.ID)
		if err := json.Unmarshal(m.Listed.Tool, new(any)); err != nil {
			t.Errorf("%s is shown as %s: %v", one.Name, m.Listed.Tool, err)
		}
		if bad := m.Functions["run"].Request.Validate([]byte(`{"n":0.5}`)); (bad == nil) != (one.Name != "far") {
			t.Errorf("%s: %v", one.Name, bad)
		}
	}
	for _, c := range s.changes() {
		if c.State != importer.Same {
			t.Errorf("%s is %s: %s", c.ID, c.State, c.Why)
		}
	}
}

// A tool that is listed twice is taken once, the first one.
func TestImportTwice(t *testing.T) {
	s := newTeller(t, `[{"name":"a","inputSchema":{"type":"object"}},{"name":"b","inputSchema":{"type":"object"}},
		{"name":"a","inputSchema":{ "type": "object" }},{"name":"b","description":"other","inputSchema":{"type":"object"}},
		{"name":"a","inputSchema":{"type":"object"}}]`)
	r := s.imports()
	notes := map[string][]string{
		"a": nil, "b": {"the server lists it twice, differently: the first one is taken"},
	}
	for _, one := range r.Tools {
		if one.State != importer.Added || !slices.Equal(one.Notes, notes[one.Name]) {
			t.Errorf("%s is %s, %q", one.Name, one.State, one.Notes)
		}
	}
	if len(r.Tools) != 2 || r.LeftOut() > 0 || s.loaded("mcp::shop::b").Description == "other" {
		t.Errorf("the report is %+v", r)
	}
	for _, c := range s.changes() {
		if c.State != importer.Same {
			t.Errorf("%s is %s: %s", c.ID, c.State, c.Why)
		}
	}
}

// Formats that safety does not need are annotations. An output schema that cannot be used costs its tool the schema
// alone.
func TestImportAnnotations(t *testing.T) {
	s := newTeller(t, `[
		{"name":"at","inputSchema":{"type":"object","properties":{"when":{"type":"string","format":"date-time"},
			"to":{"type":"string","format":"email"},"format":{"type":"string","format":"uuid"}}},
			"outputSchema":{"type":"object","properties":{"when":{"type":"string","format":"date-time"}}}},
		{"name":"lost","inputSchema":{"type":"object"},
			"outputSchema":{"type":"object","properties":{"a":{"$ref":"#/$defs/nowhere"}}}},
		{"name":"far","inputSchema":{"type":"object"},"outputSchema":{"$ref":"https://example.com/other.json"}},
		{"name":"odd","inputSchema":{"type":"object"},"outputSchema":7}]`)
	for _, one := range s.imports().Tools {
		if one.State != importer.Added {
			t.Errorf("%s is %s: %s", one.Name, one.State, one.Why)
			continue
		}
		m := s.loaded(one.ID)
		f := m.Functions["run"]
		if one.Name == "at" {
			if len(one.Notes) > 0 || !strings.Contains(string(m.Listed.Tool), `"date-time"`) {
				t.Errorf("the notes are %q, and clients are shown %s", one.Notes, m.Listed.Tool)
			}
			if bad := f.Request.Validate([]byte(`{"when":"2026-11-28 12:00","to":"me","format":"x"}`)); bad != nil {
				t.Errorf("a format is checked: %v", bad)
			}
			if bad := f.Request.Validate([]byte(`{"when":7}`)); bad == nil {
				t.Error("a number is a time")
			}
			continue
		}
		if len(one.Notes) != 1 || !strings.HasSuffix(one.Notes[0], ": the tool has no output schema") ||
			strings.Contains(string(m.Listed.Tool), "outputSchema") {
			t.Errorf("%s: the notes are %q, and clients are shown %s", one.Name, one.Notes, m.Listed.Tool)
		}
		if bad := f.Response.Validate([]byte(`{"content":[],"structuredContent":{"a":[1]}}`)); bad != nil {
			t.Errorf("%s: %v", one.Name, bad)
		}
	}
	for _, c := range s.changes() {
		if c.State != importer.Same {
			t.Errorf("%s is %s: %s", c.ID, c.State, c.Why)
		}
	}
}

// An import from a server that wants a token says so, where to get one, and how to give it.
func TestImportUnauthorized(t *testing.T) {
	for name, test := range map[string]struct {
		challenge []string
		want      string
	}{
		"nothing": {nil, "the server wants credentials (HTTP status 401): give them with --header"},
		"basic":   {[]string{`Basic realm="x"`}, "wants credentials"},
		"bearer":  {[]string{`Bearer`}, "wants a token of OAuth (HTTP status 401): get one from its operator"},
		"metadata": {[]string{`Basic realm="a, b"`, `bearer realm="x", resource_metadata="https://a.example/.well-known/x"`},
			`wants a token of OAuth (HTTP status 401): "https://a.example/.well-known/x" says where to get one; then give it`},
		"malformed": {[]string{`Bearer resource_metadata="unended`}, "HTTP status 401"},
	} {
		t.Run(name, func(t *testing.T) {
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for _, c := range test.challenge {
					w.Header().Add("WWW-Authenticate", c)
				}
				w.WriteHeader(http.StatusUnauthorized)
			}))
			defer h.Close()
			_, err := importer.Import(t.Context(), "far", client.Server{URL: h.URL}, importer.Options{
				Dir: t.TempDir(), Owner: "@test", Version: "test",
			})
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), h.URL) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
