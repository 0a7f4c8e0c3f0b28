package dispatcher_test

import (
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// Whoever misspells a name without a client of ours is told which one was meant, too.
func TestUnknownNames(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		in := w.request(1, `"tool_id":"echo"`, `"tool_id":"ecoh"`)
		in.Tool, in.Subject = "ecoh", "tb.call.t.agent.ecoh"
		w.d.Handle(w.t.Context(), in)
		e := w.outcome(1).Error
		if e.Code != envelope.CodeToolUnknown || !strings.Contains(e.Message, `did you mean "echo"?`) {
			t.Errorf("%s", e)
		}
		w.ask(2, `"fn":"say"`, `"fn":"sya"`)
		if e = w.outcome(2).Error; e.Code != envelope.CodeFnUnknown || !strings.Contains(e.Message, `did you mean "say"?`) {
			t.Errorf("%s", e)
		}
	})
}
