package mcpserver

import (
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
)

func TestToolsLoad(t *testing.T) {
	dir := t.TempDir()
	if err := WriteTools(dir, "/bin/true", "x"); err != nil {
		t.Fatal(err)
	}
	r, err := tool.Load(dir, app.Transports()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range Specs() {
		m, missed := r.Get(s.ID, "")
		if missed != nil {
			t.Fatal(missed)
		}
		if m.Class != s.Class || m.Capability.Lookup != s.Lookup || m.Capability.Streaming != s.Streaming {
			t.Errorf("%s is %s, %+v", s.ID, m.Class, m.Capability)
		}
		if e := m.Endpoint.(mcp.Endpoint); e.Server != "ledger" || e.Tool != s.ID {
			t.Errorf("%s is at %+v", s.ID, e)
		}
	}
	servers, err := mcp.ReadServers(dir)
	if err != nil || servers["ledger"].Command != "/bin/true" || len(servers["ledger"].Args) != 2 {
		t.Errorf("%+v, %v", servers, err)
	}
}
