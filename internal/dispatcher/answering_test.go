package dispatcher_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// An answer reaches the executor that runs the call, by claim or because it says so. One of another actor does not, and
// neither does one that is too large, or that comes when no executor runs the call.
func TestAnswer(t *testing.T) {
	const question = "q1"
	runs := func(w *world) { w.finds = &pool{runner: "default/e2"} }
	for name, c := range map[string]struct {
		setup  func(w *world)
		by     string // actor
		result string
		to     string // executor; "": refused
		code   envelope.Code
	}{
		"claimed":         {(*world).claim, "agent", `{"action":"accept"}`, "default/e1", ""},
		"says so":         {runs, "agent", `{"action":"decline"}`, "default/e2", ""},
		"no answer":       {runs, "agent", "", "default/e2", ""},
		"not the newest":  {(*world).openedByOther, "agent", `{}`, "", envelope.CodeInputState},
		"a stranger":      {(*world).claim, "stranger", `{}`, "", envelope.CodeNotFound},
		"waits":           {func(*world) {}, "agent", `{}`, "", envelope.CodeInputState},
		"decided":         {func(w *world) { w.decide("") }, "agent", `{}`, "", envelope.CodeInputState},
		"too large":       {(*world).claim, "agent", strings.Repeat("1", envelope.MaxOpenAnswer+1), "", envelope.CodeLimit},
		"no such subject": {func(w *world) { w.claim(); w.unasked = true }, "agent", `{}`, "", envelope.CodeInputState},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, call.Idempotent, func(t *testing.T, w *world) {
				w.ask(1, global()...)
				c.setup(w)
				_, refusal := w.d.Answer(t.Context(), from(c.by), envelope.AnswerRequest{
					Ref: w.state().Ref(), Question: question, Result: jsontext.Value(c.result),
				})
				if got := w.answered; c.to == "" {
					if refusal == nil || refusal.Code != c.code || len(got) > 0 {
						t.Errorf("%v, sent %v", refusal, got)
					}
				} else if refusal != nil || len(got) != 1 || got[0].executor != c.to || got[0].question != question ||
					got[0].answer.ID != w.state().ID || string(got[0].answer.Result) != c.result {
					t.Errorf("%v, sent %+v", refusal, got)
				}
			})
		})
	}
}

// openedByOther ends the attempt of the call, lets another actor open the next one, and claims that.
func (w *world) openedByOther() {
	w.t.Helper()
	w.decide(envelope.CodeUpstream)
	in := w.request(2, global(`"actor_id":"agent"`, `"actor_id":"other"`)...)
	in.Subject, in.From = "tb.call.t.other.echo", from("other")
	w.d.Handle(w.t.Context(), in)
	synctest.Wait()
	if w.acceptedBy(2) != 1 {
		w.t.Fatal("the other actor has no attempt")
	}
	w.claim()
}

// answered is an answer that was sent to an executor.
type answered struct {
	executor, question string
	answer             call.Answer
}

func (w *world) Answer(by, question string, a call.Answer) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unasked {
		return errors.New("no executor has the question")
	}
	w.answered = append(w.answered, answered{by, question, a})
	return nil
}
