package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// TestListOfChangedTools checks that the list shows which tools need an approval, with the command, and only those.
func TestListOfChangedTools(t *testing.T) {
	tools := []envelope.ToolInfo{
		{ToolID: "a.x", Status: "active"}, {ToolID: "a.y", Status: "active", Changed: true}, {ToolID: "b.z", Changed: true},
		{ToolID: "c.x", Differs: true},
	}
	offered := map[string][]string{"shop": {"new", "\x1b[2Jodd"}}
	var out strings.Builder
	if err := listTools(&out, envelope.DescribeResponse{Tools: tools}); err != nil {
		t.Fatal(err)
	}
	got := out.String()
	if strings.Count(got, waiting) != 2 || !strings.HasSuffix(got, "\n  toolbus tools approve a.y b.z c.x\n") ||
		strings.Count(got, differing) != 1 {
		t.Errorf("listed:\n%s", got)
	}
	out.Reset()
	one := envelope.DescribeResponse{Tools: tools[:1], Offered: offered}
	if err := listTools(&out, one); err != nil || strings.Contains(out.String(), "approve") ||
		!strings.HasSuffix(out.String(), "import a server again to add its tools:\n  shop: new, ·[2Jodd\n") {
		t.Errorf("listed:\n%s, %v", out.String(), err)
	}
	out.Reset()
	if err := showTool(&out, tools[1], ""); err != nil || !strings.Contains(out.String(), "toolbus tools approve a.y") {
		t.Errorf("shown:\n%s, %v", out.String(), err)
	}
}

// Nothing that is said about a tool is wider than a terminal, but for its schemas, and nothing of it controls one.
func TestShownToolFitsTerminal(t *testing.T) {
	long := strings.Repeat("many words ", 100)
	info := envelope.ToolInfo{
		ToolID: "a.x", Version: "1.0.0", Title: "evil\u202etitle " + long, Description: long + "\n" + long, Owner: long,
		Digest: "sha256:" + strings.Repeat("0", 64), Manifest: jsontext.Value(`{"tool_id":"a.x","tags":["` +
			strings.Repeat("tag", 300) + `"],"determinism":"pure","errors":[{"code":"bad"}],` +
			`"functions":{"x":{"request":"r.json","examples":[{"input":"one example"}]}}}`),
		Functions: map[string]envelope.FunctionInfo{"x": {Description: long}},
		Errors:    []envelope.DeclaredError{{Code: "bad", HTTPStatus: 422, Message: long, Fix: long}},
	}
	var out strings.Builder
	if err := showTool(&out, info, ""); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > shownWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{"evil·title", "\n  determinism  enforced       \"pure\"\n", "\n    fix: many words",
		"\n    sha256:0000", "\nexamples:\n", `"one example"`} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("not one %q in\n%s", want, out.String())
		}
	}
	for _, twice := range []string{"r.json", `"code"`} {
		if strings.Contains(out.String(), twice) {
			t.Errorf("functions or errors are shown twice:\n%s", out.String())
		}
	}
}
