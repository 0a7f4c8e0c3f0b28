//go:build linux

package importer_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/importer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// odd are tools with definitions that Toolbus cannot check completely, or that use an older dialect of JSON Schema.
var odd = `[
	{"name": "pattern", "inputSchema": {"type": "object", "properties": {
		"ahead": {"type": "string", "pattern": "^(?!x).*$", "maxLength": 3}, "open": {"type": "string", "pattern": "("}},
		"patternProperties": {"^(?=a)": {"type": "integer"}, "^b": {"type": "integer"}}, "additionalProperties": false}},
	{"name": "int64", "inputSchema": {"type": "object", "properties": {
		"n": {"type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807,
			"default": 9007199254740993},
		"of": {"enum": [1, 9007199254740993]}, "any": {"x-limit": 9007199254740993}}}},
	{"name": "four", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object", "properties": {
		"n": {"$ref": "#/definitions/n"}}, "definitions": {"n": {"minimum": 1, "exclusiveMinimum": true}}}},
	{"name": "scheme", "inputSchema": {"$schema": "https://json-schema.org/draft-07/schema#", "type": "object"}},
	{"name": "tuple", "inputSchema": {"type": "object", "properties": {
		"pair": {"type": "array", "items": [{"type": "string"}, {"type": "number"}], "additionalItems": false}}}},
	{"name": "dialect", "inputSchema": {"$schema": "https://example.com/dialect", "type": "object", "required": ["a"]}},
	{"name": "address", "inputSchema": {"$id": "https://example.com/a", "type": "object",
		"properties": {"a": {"$ref": "https://example.com/b"}}, "$defs": {"b": {"$id": "b", "type": "string"}}}},
	{"name": "Größe: ~/x y", "inputSchema": {"type": "object"}, "icons": [{"src": "data:,x"}], "_meta": {"a/b": [1]},
		"annotations": {"openWorldHint": false}, "title": "T"},
	{"name": "` + long + `", "inputSchema": {"type": "object"}}
]`

var long = strings.Repeat("veryLong", 16)

// Tools that Toolbus cannot check completely are imported, checked as far as possible, and shown as their server lists
// them.
func TestImportOdd(t *testing.T) {
	s := newShop(t, odd)
	got := map[string]importer.Tool{}
	for _, one := range s.imports().Tools {
		if got[one.Name] = one; one.State != importer.Added || !envelope.IsFunctionName(one.Shown) {
			t.Errorf("%s is %s under the name %q: %s", one.Name, one.State, one.Shown, one.Why)
		}
	}
	notes := map[string][]string{}
	for name, one := range got {
		notes[name] = one.Notes
	}
	want := map[string][]string{
		"pattern": {
			"input schema/patternProperties is not checked: the pattern uses what RE2 does not have",
			"input schema/properties/ahead/pattern is not checked: the pattern uses what RE2 does not have",
			"input schema/properties/open/pattern is not checked: the pattern uses what RE2 does not have",
		},
		"int64": {
			"input schema/properties/n/maximum is not checked: its number is beyond 2^53",
			"input schema/properties/n/minimum is not checked: its number is beyond 2^53",
			"input schema/properties/of/enum is not checked: its number is beyond 2^53",
		},
		"dialect": {
			`input schema: its $schema "https://example.com/dialect" is not shown, it names no dialect of JSON Schema`,
		},
		"four": nil, "scheme": nil, "tuple": nil, "address": nil, "Größe: ~/x y": nil, long: nil,
	}
	if diff := cmp.Diff(want, notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	for name, values := range map[string]map[string]bool{
		"pattern": {`{"ahead":"xx"}`: true, `{"ahead":"long"}`: false, `{"c":1}`: true, `{"b":"x"}`: false},
		"int64":   {`{"n":9007199254740991,"of":7}`: true, `{"n":"x"}`: false},
		"tuple":   {`{"pair":["a",1]}`: true, `{"pair":[1,"a"]}`: false, `{"pair":["a",1,1]}`: false},
		"dialect": {`{"a":1}`: true, `{}`: false},
		"address": {`{"a":"x"}`: true, `{"a":1}`: false},
	} {
		request := s.loaded(got[name].ID).Functions["run"].Request
		for text, valid := range values {
			if bad := request.Validate([]byte(text)); (bad == nil) != valid {
				t.Errorf("%s of %s: %v", text, name, bad)
			}
		}
	}
	response := s.loaded(got["four"].ID).Functions["run"].Response
	for text, valid := range map[string]bool{`{"n":2}`: true, `{"n":1}`: false} {
		if bad := response.Validate([]byte(`{"content":[],"structuredContent":` + text + `}`)); (bad == nil) != valid {
			t.Errorf("%s of four: %v", text, bad)
		}
	}
	var defined []*sdk.Tool
	if err := json.Unmarshal([]byte(odd), &defined); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(defined) // as the library of the server writes them
	if err != nil {
		t.Fatal(err)
	}
	var sold []map[string]json.RawMessage
	if err := json.Unmarshal(raw, &sold); err != nil {
		t.Fatal(err)
	}
	for _, is := range sold {
		var name string
		if err := json.Unmarshal(is["name"], &name); err != nil {
			t.Fatal(err)
		}
		var listed map[string]json.RawMessage
		if err := json.Unmarshal(s.loaded(got[name].ID).Listed.Tool, &listed); err != nil {
			t.Fatal(err)
		}
		switch name {
		case "pattern", "tuple", "dialect", "address", "int64", "four", "scheme":
			// See below; the library writes large numbers otherwise.
			for _, schema := range []string{"inputSchema", "outputSchema"} {
				delete(listed, schema)
				delete(is, schema)
			}
		}
		if diff := cmp.Diff(values(t, is), values(t, listed)); diff != "" {
			t.Errorf("%s is shown otherwise (-want +got):\n%s", name, diff)
		}
	}
	for name, text := range map[string]string{
		"pattern": `"pattern":"^(?!x).*$"`, "tuple": `"$schema":"http://json-schema.org/draft-07/schema#"`,
		"four":    `"$schema":"http://json-schema.org/draft-04/schema#"`,
		"scheme":  `"$schema":"http://json-schema.org/draft-07`,
		"address": `"$ref":"#/$defs/b"`, "int64": `"maximum":9223372036854776000`,
	} {
		if is := string(s.loaded(got[name].ID).Listed.Tool); !strings.Contains(strings.ReplaceAll(is, " ", ""), text) {
			t.Errorf("%s is shown as %s, without %s", name, is, text)
		}
	}
	if is := string(s.loaded(got["pattern"].ID).Listed.Tool); strings.Contains(is, `"("`) {
		t.Errorf("a pattern that nobody can read is shown: %s", is)
	}
}

// values are members with their numbers as they are written.
func values(t *testing.T, members map[string]json.RawMessage) map[string]any {
	t.Helper()
	all := map[string]any{}
	for name, raw := range members {
		d := json.NewDecoder(strings.NewReader(string(raw)))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			t.Fatal(err)
		}
		all[name] = v
	}
	return all
}

// A tool that was imported before keeps its id, also one from a build that gave other ids. No later import takes its
// name.
func TestImportKeepsIDs(t *testing.T) {
	s := newShop(t, stock)
	for _, one := range s.imports().Tools {
		if one.Name != "look" {
			continue
		}
		folder := filepath.Join(s.options.Dir, token("look"))
		text, err := os.ReadFile(filepath.Join(folder, "tool.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "\nmcp_name: shop_look\n") {
			t.Errorf("its name in MCP has another key:\n%s", text)
		}
		older := strings.NewReplacer("tool_id: mcp::shop::look", "tool_id: shop.look", "mcp_name: shop_look\n", "",
			"listed: listed.json\n", "").Replace(string(text))
		if err := os.WriteFile(filepath.Join(folder, "tool.yaml"), []byte(older), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(folder, "listed.json")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(folder, filepath.Join(s.options.Dir, subjects.Token("shop.look"))); err != nil {
			t.Fatal(err)
		}
	}
	s.sells(strings.Replace(stock, `{"name": "reserve"`, `{"name": "LOOK", "inputSchema": {"type": "object"}},
		{"name": "reserve"`, 1))
	for _, one := range s.imports().Tools {
		switch one.Name {
		case "look":
			if one.ID != "shop.look" || one.State != importer.Same {
				t.Errorf("look is %s, %s", one.ID, one.State)
			}
		case "LOOK":
			if one.ID != "mcp::shop::look" || one.Shown != "shop_LOOK" || one.State != importer.Added {
				t.Errorf("LOOK is %+v", one)
			}
		}
	}
	// An approval adds the definition for clients.
	s.sells(strings.Replace(stock, "Look at goods.", "Look at all goods.", 1))
	for _, c := range s.changes("shop.look") {
		if err := c.Approve(); err != nil {
			t.Fatal(err)
		}
	}
	if m := s.loaded("shop.look"); m.Listed == nil || !strings.Contains(string(m.Listed.Tool), "Look at all goods.") {
		t.Errorf("listed is %+v", m.Listed)
	}
}
