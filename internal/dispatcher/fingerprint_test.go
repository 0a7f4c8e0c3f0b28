package dispatcher_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// lingers is longer than joins are gathered for.
const lingers = 100 * time.Millisecond

// opened has a dispatcher open the log of the key that knows nothing of what comes afterwards.
func (w *world) opened() {
	w.t.Helper()
	w.ask(1)
	first := w.log.Entries()[0]
	s := first.State
	s.Seq, s.Attempts[0].Admitted = 0, 0
	e := call.Event{Kind: call.Requested, Attempt: 1, Nonce: s.Attempts[0].Nonce, State: s}
	w.stop()
	w.log.LoseTail(0)
	w.run("d2")
	if _, err := w.log.Write(w.t.Context(), e, first.Body); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// askLarge asks with an input out of the payload store.
func (w *world) askLarge(n int, input string, edit ...string) {
	sum := envelope.ArgumentsHash([]byte(input)) // these are in canonical form
	w.payloads[sum] = []byte(input)
	in := w.request(n, append(edit, `{"n":1}`, `null`)...)
	in.InputRef = fmt.Sprintf("sha256:%s;%d", sum, len(input))
	w.d.Handle(w.t.Context(), in)
	synctest.Wait()
}

// Repeats of a call that another dispatcher has admitted join, are told the outcome, and open the next attempt, and
// another input is refused.
func TestLogOfAnotherDispatcher(t *testing.T) {
	for _, large := range []bool{false, true} {
		t.Run(fmt.Sprintf("large %t", large), func(t *testing.T) {
			bubble(t, call.Idempotent, func(t *testing.T, w *world) {
				w.opened()
				ask := func(n int, input string, edit ...string) {
					if large {
						w.askLarge(n, input, edit...)
					} else {
						w.ask(n, append(edit, `{"n":1}`, input)...)
					}
				}
				reused := func(n int, input string, edit ...string) {
					t.Helper()
					ask(n, input, edit...)
					pass(lingers)
					if r := w.outcome(n); r.Error == nil || r.Error.Code != envelope.CodeKeyReused {
						t.Errorf("call %d was told %+v", n, r)
					}
				}
				ask(2, `{"n":1}`)
				pass(lingers)
				if s := w.state(); !s.Last().Has(uuid(2)) {
					t.Fatalf("not joined: %+v", s)
				}
				reused(3, `{"n":2}`)
				reused(4, `{"n":1}`, `"env":"dev"`, `"env":"prod"`)
				reused(5, `{"n":1}`, `"env":"dev"`, `"env":"dev","scope":{"a":"b"}`)
				w.decide(envelope.CodeUnavailable)
				ask(6, `{"n":1}`)
				if s := w.state(); len(s.Attempts) != 2 {
					t.Fatalf("no second attempt: %+v, refused %v", s, w.refusals())
				}
				w.decide("")
				ask(7, `{"n":1}`)
				if r := w.outcome(7); r.Status != envelope.Success || r.Provenance.Attempt != 2 {
					t.Errorf("told %+v", r)
				}
				reused(8, `{"n":2}`)
			})
		})
	}
}

// What a denial says of the effect depends on whether the call has the input of its log.
func TestDenialOfEitherInput(t *testing.T) {
	for input, want := range map[string]envelope.Effect{
		`{"n":1}`: envelope.EffectUnknown, `{"n":2}`: envelope.EffectNone,
	} {
		bubble(t, call.Idempotent, func(t *testing.T, w *world) {
			w.opened()
			w.ask(2, `{"n":1}`, input, `"1.x"`, `"2.x"`)
			if got := w.outcome(2).Error.Details.Effect; got != want {
				t.Errorf("%s: the effect is said to be %s", input, got)
			}
		})
	}
}
