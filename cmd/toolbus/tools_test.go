package main

import (
	"strings"
	"testing"

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
	if err := showTool(&out, tools[1]); err != nil || !strings.Contains(out.String(), "toolbus tools approve a.y") {
		t.Errorf("shown:\n%s, %v", out.String(), err)
	}
}
