package importer

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// sanitize declares the formats of paths, addresses and commands in the schema that inputs are checked with, and adds a
// note about each. Servers declare none, and then dispatchers check none.
func (s *shared) sanitize(what string) error {
	compiled, err := jsonschema.Compile(what, s.checked, nil)
	if err != nil {
		return err
	}
	found, err := (&tool.Function{Request: compiled}).Unsanitized()
	if err != nil || len(found) == 0 {
		return err
	}
	v, err := jsonschema.Decode(s.checked)
	if err != nil {
		return err
	}
	pointers := slices.Sorted(maps.Keys(found))
	for _, at := range slices.Backward(pointers) { // a member after those in it, which may move
		if declare(v, jsontext.Pointer(at), found[at]) {
			s.notes = append(s.notes, checkedAs(what, at, found[at]))
		}
	}
	slices.Sort(s.notes)
	s.checked = compact(v)
	return nil
}

// declare adds a format to the schema at a pointer in v. It returns false if nothing is there.
func declare(v any, at jsontext.Pointer, format string) bool {
	for token := range at.Parent().Tokens() {
		switch of := v.(type) {
		case map[string]any:
			v = of[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(of) {
				return false
			}
			v = of[i]
		}
	}
	parent, _ := v.(map[string]any)
	switch of := parent[at.LastToken()].(type) {
	case bool:
		parent[at.LastToken()] = map[string]any{"format": format}
	case map[string]any:
		if of["format"] == nil && of["$ref"] == nil { // before 2019-09, a $ref hides what is beside it
			of["format"] = format
			break
		}
		parent[at.LastToken()] = map[string]any{"allOf": []any{of}, "format": format}
	default:
		return false
	}
	return true
}

// folders returns the folders that a server is started with. They are those that its tools may open.
func (o Options) folders(s client.Server) (all []string) {
	resolved, err := s.Resolve(o.Dir, o.getenv)
	if err != nil {
		return nil // dial reports it
	}
	for _, arg := range resolved.Args {
		info, err := os.Stat(arg)
		if err == nil && info.IsDir() && filepath.IsAbs(arg) {
			all = append(all, filepath.Clean(arg))
		}
	}
	return all
}
