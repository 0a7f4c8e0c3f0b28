package mcpservers

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// TestOneEffect sells under keys that are asked for again, by a server that dies with some calls in its hands: each key
// has one outcome, and nothing is sold twice.
func TestOneEffect(t *testing.T) {
	i := newImporter(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sold := filepath.Join(t.TempDir(), "sold")
	i.adds("shop", client.Server{Command: self, Args: []string{"shop", sold}})
	b := i.bus()
	sell := func(goods, key string) *envelope.Response {
		return b.asks(toolbus.Call{Tool: "mcp::shop::sell", Key: key, Input: jsontext.Value(`{"goods":"` + goods + `"}`)})
	}
	first, again := sell("bread", "key-of-the-bread-1"), sell("bread", "key-of-the-bread-1")
	if first.Status != envelope.Success || !again.Provenance.Replayed || textOf(t, again) != "sold bread" {
		t.Errorf("%v, and again %v: %s", first.Status, again.Status, again.Output)
	}
	for range 2 {
		r := sell("poison", "key-of-the-poison-1")
		if r.Error == nil || r.Error.Code != envelope.CodeToolUnknownState ||
			r.Error.Details.Effect != envelope.EffectUnknown {
			t.Errorf("of a server that died: %v", r.Error)
		}
	}
	if got := b.recorded(first.CallID, audit.ToolExecuted).ServerVersion; got != "1.0.0" {
		t.Errorf("the record has %q as the version of the server", got)
	}
	if r := sell("milk", "key-of-the-milk-1"); r.Status != envelope.Success {
		t.Errorf("after its restart: %v", r.Error)
	}
	lines, err := os.ReadFile(sold)
	if err != nil || string(lines) != "bread\npoison\nmilk\n" {
		t.Errorf("sold %q, %v", lines, err)
	}
}

// TestQuarantine calls a tool whose definition is not the one that was approved: its server is not asked.
func TestQuarantine(t *testing.T) {
	i := newImporter(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sold := filepath.Join(t.TempDir(), "sold")
	i.adds("shop", client.Server{Command: self, Args: []string{"shop", sold}})
	i.edit("mcp_3a_3ashop_3a_3asell", "definition: sha256:", "definition: sha256:"+strings.Repeat("0", 64)+" # ")
	refused := i.bus().fails("mcp::shop::sell", `{"goods":"bread"}`, envelope.CodeToolChanged, envelope.EffectNone)
	if !strings.Contains(refused.Fix, "operator") || strings.Contains(refused.Fix, "toolbus") {
		t.Errorf("fix: %s", refused.Fix)
	}
	if _, err := os.Stat(sold); !os.IsNotExist(err) {
		t.Errorf("it was called: %v", err)
	}
}
