package mcp

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// Names of prompts that two servers have get a prefix, whatever else there is; of resources the first one stays.
func TestUnique(t *testing.T) {
	a := &Definition{Tool: "mcp::a::protocol", server: &envelope.ServerInfo{Name: "a"}}
	b := &Definition{Tool: "mcp::b::protocol", server: &envelope.ServerInfo{Name: "b"}}
	long := strings.Repeat("x", maxPromptName)
	all := func() (all []item) {
		for _, d := range []*Definition{a, b} {
			for _, id := range []string{"same", "same", d.server.Name, "a_same", long} {
				all = append(all, item{of: d, id: id, shown: id, raw: jsontext.Value(`{"x":1,"name":"` + id + `"}`)})
			}
		}
		return all
	}
	names := map[string]bool{}
	for _, i := range unique(methodPrompts, all()) {
		if names[i.shown] || len(i.shown) > maxPromptName || !strings.Contains(string(i.raw), `"`+i.shown+`"`) {
			t.Errorf("%s of %s is shown as %s, %s", i.id, i.of.Tool, i.shown, i.raw)
		}
		names[i.shown] = true
	}
	if len(names) != 8 || !names["b_same"] || !names["a"] || !names["b"] || names["same"] {
		t.Error(names)
	}
	kept := unique(methodResources, all())
	if len(kept) != 5 || kept[0].of != a || kept[4].of != b || kept[4].id != "b" {
		t.Errorf("%+v", kept)
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		template, uri string
		want          bool
	}{
		{"a://b", "a://b", true}, {"a://b", "a://c", false},
		{"a://{x}", "a://b", true}, {"a://{x}", "b://b", false}, {"a://{x}/e", "a:///e", true},
		{"a://{x}/of/{y}.md", "a://b/of/c.md", true}, {"a://{x}/of/{y}.md", "a://b/c.md", false},
		{"a://{x}/of/{y}.md", "a://of.md", false}, {"a://b{?q,r}", "a://b?q=1", true}, {"{+x}", "any", true},
		{"ab{x}ba", "aba", false},
	} {
		if got := matches(c.template, c.uri); got != c.want {
			t.Errorf("%s and %s: %t", c.template, c.uri, got)
		}
	}
}

// A cursor is a place in the newest list. A page ends at its size, or at pageBytes.
func TestPageOfLists(t *testing.T) {
	m := &merged{}
	for _, id := range []string{"a", "b", "c", "d"} {
		m.items = append(m.items, item{shown: id, raw: jsontext.Value(strings.Repeat(id, 100))})
	}
	m.items = append(m.items, item{shown: "e", raw: jsontext.Value(strings.Repeat("e", pageBytes+1))}, item{shown: "f"})
	for after, want := range map[string]string{"": "ab b", "b": "cd d", "c": "d d", "d": "e e", "e": "f ", "f": " "} {
		page, next, ok := m.page(after, 2)
		got := ""
		for _, i := range page {
			got += i.shown
		}
		cursor, err := base64.RawURLEncoding.DecodeString(next)
		if got += " " + string(cursor); !ok || err != nil || got != want {
			t.Errorf("after %q: %s, %v", after, got, err)
		}
	}
	if _, _, ok := m.page("x", 2); ok {
		t.Error("a page after an entry that is not listed")
	}
}
