package policy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// taking returns a tool whose function run takes an input of this schema.
func taking(t *testing.T, id, version, schema string) *tool.Manifest {
	t.Helper()
	s, err := jsonschema.Compile("request.json", []byte(schema), nil)
	if err != nil {
		t.Fatal(err)
	}
	m := manifest(id, version, call.Pure, nil)
	m.Functions = map[string]*tool.Function{"run": {Name: "run", Request: s}}
	return m
}

// sanitized checks a set with these entries.
func sanitized(t *testing.T, entries []policy.Entry, tools ...*tool.Manifest) error {
	t.Helper()
	roles := []policy.Role{{ID: "agent", AllowedLanes: []string{"default"}}}
	lanes := []policy.Lane{{ID: "default", AllowedTools: []string{"*"}}}
	set, err := policy.Parse(policy.Write(roles, lanes, entries))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := policy.Compile(set, tools); err != nil {
		t.Fatalf("such a set does not stay in force: %v", err)
	}
	return policy.Sanitized(set, tools)
}

// Each path, address and command in the input of a registered tool has a format, or is named by the entry.
func TestSanitized(t *testing.T) {
	a := taking(t, "a", "1.0.0", `{"properties":{
		"path":{"type":"string"},"q":{"type":"string","description":"Command."}}}`)
	newer := taking(t, "a", "1.1.0", `{"properties":{"path":{"format":"path"},"url/x":{"type":"string"}}}`)
	b := taking(t, "b", "1.0.0", `{"properties":{"path":{"type":"string","format":"path"}}}`)
	stranger := taking(t, "c", "1.0.0", `{"properties":{"path":{"type":"string"}}}`)
	tools := []*tool.Manifest{a, newer, b, stranger}

	naming := func(pointers ...string) error {
		e := entry("a", "default")
		e.Unsanitized = pointers
		return sanitized(t, []policy.Entry{entry("b", "default"), e}, tools...)
	}
	problems, _ := errors.AsType[tool.Problems](naming())
	if len(problems) != 3 || !problems.Failed() {
		t.Fatalf("without unsanitized: %v", problems)
	}
	for i, words := range []string{`"/properties/path"`, `"/properties/q"`, `"/properties/url~1x"`} {
		p := problems[i]
		if p.File != policy.ToolRegistryFile || p.Line != 11 || !strings.Contains(p.Message, words) ||
			!strings.Contains(p.Hint, "unsanitized: ["+words+"]") {
			t.Errorf("%+v does not name the entry and %s", p, words)
		}
	}
	if problems, _ = errors.AsType[tool.Problems](naming("/properties/q", "/properties/path")); len(problems) != 1 {
		t.Errorf("with two of three pointers: %v", problems)
	}
	if err := naming("/properties/path", "/properties/q", "/properties/url~1x"); err != nil {
		t.Errorf("with all pointers: %v", err)
	}
}

// A generated set names what has no format, in any version.
func TestGenerateSanitized(t *testing.T) {
	tools := []*tool.Manifest{
		taking(t, "a", "1.0.0", `{"properties":{"path":{"type":"string"}}}`),
		taking(t, "a", "1.1.0", `{"properties":{"url":{"type":"string"}}}`),
		taking(t, "b", "1.0.0", `{"properties":{"path":{"type":"string","format":"path"}}}`),
	}
	d, err := policy.Generate(tools)
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.Parse(d)
	if err != nil {
		t.Fatal(err)
	}
	if err := policy.Sanitized(set, tools); err != nil {
		t.Error(err)
	}
	if got := set.Entries; len(got[0].Unsanitized) != 2 || got[1].Unsanitized != nil {
		t.Errorf("%q and %q", got[0].Unsanitized, got[1].Unsanitized)
	}
	all, err := policy.Lint(d, tools)
	if err != nil {
		t.Fatal(err)
	}
	warned := 0
	for _, p := range all {
		if strings.Contains(p.Message, "any text") && p.Line > 0 {
			warned++
		}
	}
	if warned != 2 {
		t.Errorf("lint warns of %d items", warned)
	}
}
