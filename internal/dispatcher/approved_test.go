package dispatcher_test

import (
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// defined is the endpoint of a tool that the server "srv" defines.
type defined struct{ definition string }

func (defined) Files() []tool.File                 { return nil }
func (defined) Name() string                       { return "srv" }
func (d defined) Approved() (_, definition string) { return "srv", d.definition }

// Changed implements [dispatcher.Definitions]: the definition d1 is not the server's any more.
func (w *world) Changed(pool, server, tool, definition string) (all, some bool) {
	return pool == "default" && server == "srv" && tool == "echo" && definition == w.changed, false
}

// TestChangedTool holds that a call of a tool that its server has changed is refused, on record and with words for a
// model, that it opens no log, and that it is admitted as soon as the tool is approved.
func TestChangedTool(t *testing.T) {
	bubble(t, call.Idempotent, func(t *testing.T, w *world) {
		w.manifest.Endpoint = defined{"d1"}
		w.ask(1)
		if w.acceptedBy(1) != 1 {
			t.Fatal("not accepted as it was approved")
		}
		w.changed = "d1"
		w.ask(2, "key-", "another-")
		r := w.outcome(2)
		if e := r.Error; e.Code != envelope.CodeToolChanged || e.Details.Effect != envelope.EffectNone || e.Retryable ||
			!strings.Contains(e.Fix, "operator") || strings.Contains(e.Message+e.Fix+e.Cause, "toolbus ") {
			t.Errorf("%+v", e)
		}
		if p := r.Provenance; !p.Final || p.Attempt != 0 || !p.NotStarted || p.AuditEventID == "" {
			t.Errorf("%+v", p)
		}
		if got := w.refusals(); len(got) != 1 || len(w.log.Entries()) != 1 {
			t.Errorf("denied %v, %d events", got, len(w.log.Entries()))
		}
		w.decide("")
		if w.ask(1); w.outcome(1).Status != envelope.Success {
			t.Errorf("the call that was admitted before: %+v", w.outcome(1))
		}
		w.manifest.Endpoint = defined{"d2"} // approved
		w.ask(3, "key-", "another-")
		w.changed = ""
		w.manifest.Endpoint = defined{"d1"} // taken back
		w.ask(4, "key-", "a-third-")
		if w.acceptedBy(3) != 1 || w.acceptedBy(4) != 1 {
			t.Errorf("accepted %d, %d times", w.acceptedBy(3), w.acceptedBy(4))
		}
	})
}

// TestAnyDefinition holds that a tool whose definition nobody has approved is not refused.
func TestAnyDefinition(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.manifest.Endpoint = defined{""}
		if w.ask(1); w.acceptedBy(1) != 1 {
			t.Errorf("refused: %v", w.refusals())
		}
	})
}
