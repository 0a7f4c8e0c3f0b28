package dispatcher_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// global makes the key of a request one of all actors of the tenant.
func global(edit ...string) []string {
	return append(edit, `"constraints":{`, `"constraints":{"idempotency_scope":"global",`)
}

// ofOther makes a request one of another actor of the tenant, with a role that may not know the tool echo.
func ofOther(edit ...string) []string {
	return append(append(global(edit...), `"actor_id":"agent"`, `"actor_id":"other"`), ofRole("s", "none")...)
}

// askOther sends request n of the other actor for a tool.
func (w *world) askOther(n int, tool string, edit ...string) {
	in := w.request(n, ofOther(append(edit, `"tool_id":"echo"`, `"tool_id":"`+tool+`"`)...)...)
	in.Subject, in.Tool, in.From = "tb.call.t.other."+tool, tool, from("other")
	w.d.Handle(w.t.Context(), in)
	synctest.Wait()
}

// toldOther returns the answer to request n as text, as for the tool echo and without its ids.
func (w *world) toldOther(n int, tool string) string {
	w.t.Helper()
	text, err := json.Marshal(w.outcome(n), json.Deterministic(true))
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.NewReplacer(uuid(n), "ID", tool, "echo").Replace(string(text))
}

// A key that two actors share tells neither whether a tool exists that its policy hides: whatever the log of the key
// has of the call of the other one, the answer is that for a tool that does not exist.
func TestHiddenBehindSharedKey(t *testing.T) {
	for name, setup := range map[string]func(w *world){
		"an open call": func(*world) {}, "a call that runs": (*world).claim,
		"a call that was run": func(w *world) { w.claim(); w.decide("") },
		"a call that failed":  func(w *world) { w.claim(); w.decide(envelope.CodeToolUnknownState) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, call.Idempotent, func(t *testing.T, w *world) {
				w.d.Policy = rules{lanes: "l, m", tools: "echo"}.in(w)
				w.ask(1, global(ofRole("agent", "l")...)...)
				setup(w)
				other := []string{`"n":1`, `"n":2`}
				for n, edit := range [][]string{nil, other} {
					w.askOther(10+n, "ecno", edit...)
					w.askOther(20+n, "echo", edit...)
					if got, unknown := w.toldOther(20+n, "echo"), w.toldOther(10+n, "ecno"); got != unknown {
						t.Errorf("hidden:  %s\nunknown: %s", got, unknown)
					}
				}
				w.askOther(30, "echo", uuid(30), uuid(1))
				if r := w.outcome(30); r.Error == nil || r.Error.Code != envelope.CodeToolUnknown ||
					r.Error.Details.Effect != envelope.EffectNone || !r.Provenance.NotStarted {
					t.Errorf("with the call id of the other actor: %+v", r)
				}
			})
		})
	}
}

// A refusal has the effect of an earlier attempt if its sender opened that, even if the tool is now hidden from it.
func TestOwnersKnowTheEffect(t *testing.T) {
	bubble(t, call.Idempotent, func(t *testing.T, w *world) {
		w.d.Policy = rules{lanes: "l, m", tools: "echo"}.in(w)
		w.ask(1, global(ofRole("agent", "l")...)...)
		w.claim()
		w.ask(2, global(ofRole("s", "none")...)...)
		if r := w.outcome(2); r.Error == nil || r.Error.Code != envelope.CodeToolUnknown ||
			r.Error.Details.Effect != envelope.EffectUnknown || r.Provenance.NotStarted {
			t.Errorf("the owner is told %+v", r)
		}
	})
}
