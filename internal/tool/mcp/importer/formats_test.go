//go:build linux

package importer_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// paths has paths, addresses and commands of all shapes; with draft-07, a $ref hides what is beside it.
const paths = `[{"name": "look", "inputSchema": {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
	"properties": {
		"path": {"type": "string"}, "files": {"type": "array", "items": {"type": "string"}},
		"url": {"$ref": "#/definitions/t"},
		"at": {"type": "object", "properties": {"command": {"type": ["string", "null"]}}}, "folder": true,
		"uri": {"type": "string", "format": "uri-reference"}, "safe_url": {"type": "string", "format": "uri"},
		"directory": {"anyOf": [{"properties": {"path": {"type": "string"}}}]}, "text": {"type": "string"}},
	"definitions": {"t": {"type": "string"}}}}]`

// The schema that inputs are checked with declares what a string is meant as, and the import says so. Clients are shown
// the schema of the server.
func TestImportDeclaresFormats(t *testing.T) {
	s := newShop(t, paths)
	notes := s.imports().Tools[0].Notes
	want := []string{
		"/properties/at/properties/command is checked as format command",
		"/properties/directory is checked as format path",
		"/properties/directory/anyOf/0/properties/path is checked as format path",
		"/properties/files is checked as format path", "/properties/folder is checked as format path",
		"/properties/path is checked as format path",
		"/properties/safe_url is checked as format uri: http and https alone",
		"/properties/uri is checked as format uri: http and https alone",
		"/properties/url is checked as format uri: http and https alone",
	}
	for i := range want {
		want[i] = "input schema" + want[i]
	}
	if !slices.Equal(notes, want) {
		t.Errorf("the notes are\n%s\nwant\n%s", strings.Join(notes, "\n"), strings.Join(want, "\n"))
	}
	m := s.loaded("mcp::shop::look")
	if strings.Contains(string(m.Listed.Tool), `"format":"path"`) {
		t.Errorf("clients are shown %s", m.Listed.Tool)
	}
	f := m.Functions["run"]
	if left, err := f.Unsanitized(); err != nil || len(left) > 0 {
		t.Errorf("without a format: %v, %v", left, err)
	}
	for input, safe := range map[string]bool{
		`{"path":"a/b","files":["a"],"url":"https://a.example/","at":{"command":null},"text":"../x"}`: true,
		`{"path":"../a"}`: false, `{"files":["a","~/b"]}`: false, `{"url":"file:///etc/passwd"}`: false,
		`{"at":{"command":"a; b"}}`: false, `{"folder":"file:x"}`: false, `{"uri":"/x"}`: false,
		`{"directory":"../x"}`: false, `{"directory":{"path":"../x"}}`: false,
	} {
		bad := f.Unsafe(t.Context(), jsontext.Value(input), nil)
		if (len(bad) == 0) != safe {
			t.Errorf("%s: %v", input, bad)
		}
		if input == `{"path":"../a"}` && f.Request.Validate(jsontext.Value(input)) != nil {
			t.Errorf("%s is invalid", input)
		}
	}
}

// The tools of a server may open the folders that it is started with.
func TestImportFolders(t *testing.T) {
	s := newShop(t, paths)
	dir := t.TempDir()
	s.server.Args = append(s.server.Args, dir+"/", "relative", "/no/such/folder")
	s.imports()
	if m := s.loaded("mcp::shop::look"); !strings.Contains(string(m.Whole), `"fs":["`+dir+`"]`) {
		t.Errorf("the tool may open %s", m.Whole)
	}
}
