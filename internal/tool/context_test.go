package tool_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// A manifest may list every member of the context that requests have, and no other. mcp_meta and mcp_input cannot be
// listed: servers of MCP tools get them in any case, and other tools never.
func TestContext(t *testing.T) {
	var request struct {
		Properties struct {
			Context struct {
				Properties map[string]any `json:"properties"`
			} `json:"context"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(envelope.RequestSchema().Raw(), &request); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mcp_meta", "mcp_input"} {
		delete(request.Properties.Context.Properties, name)
	}
	all := slices.Sorted(maps.Keys(request.Properties.Context.Properties))
	m := mustLoad(t, folder("web.fetch", minimal+"context: ["+strings.Join(all, ", ")+"]\n", nil))
	if len(all) < 10 || !slices.Equal(m.Context, all) {
		t.Errorf("%q, want %q", m.Context, all)
	}
	_, err := tool.LoadFS(folder("web.fetch", minimal+"context: [actor_id, actor]\n", nil), transports()...)
	if err == nil || !strings.Contains(err.Error(), "web_2efetch/tool.yaml:11:21: ") ||
		!strings.Contains(err.Error(), "actor_id") {
		t.Errorf("%v", err)
	}
}
