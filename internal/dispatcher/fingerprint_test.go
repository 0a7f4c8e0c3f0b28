package dispatcher_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/kv"
)

// lingers is longer than joins are gathered for.
const lingers = 100 * time.Millisecond

// opened makes the log of the key be one that a build opened which knew the former kind of fingerprint only, or be
// what this build has opened. A dispatcher that knows nothing of it runs afterwards.
func (w *world) opened(former bool) {
	w.t.Helper()
	in := w.ask(1)
	first := w.log.Entries()[0]
	s := first.State
	s.Seq, s.Attempts[0].Admitted = 0, 0
	if opens := format.Event.Current() == format.EventFormer; envelope.IsFormer(s.Fingerprint) != opens {
		w.t.Errorf("logs are opened with %s", s.Fingerprint)
	}
	req, fault := envelope.DecodeRequest("", in.Body)
	if fault != nil {
		w.t.Fatal(fault)
	}
	number, err := "3;", error(nil)
	if s.Fingerprint, err = envelope.Fingerprint(req); former {
		number = "2;"
		s.Fingerprint, err = envelope.FormerFingerprint(req, req.Input)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	e := call.Event{Kind: call.Requested, Attempt: 1, Nonce: s.Attempts[0].Nonce, State: s}
	raw := kv.EncodeEvent(e)
	if !strings.HasPrefix(raw, number) {
		w.t.Fatalf("stored as %s", raw)
	}
	e, err = kv.ParseEvent(kv.EventSubject(e), raw)
	if err != nil {
		w.t.Fatal(err)
	}
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

// The log of a key may have been opened by a build of either kind of fingerprint: repeats join, are told the outcome,
// and open the next attempt, and another input is refused.
func TestLogsOfBothForms(t *testing.T) {
	for _, former := range []bool{false, true} {
		for _, large := range []bool{false, true} {
			t.Run(fmt.Sprintf("former %t, large %t", former, large), func(t *testing.T) {
				bubble(t, call.Idempotent, func(t *testing.T, w *world) {
					w.opened(former)
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
					if s := w.state(); !s.Last().Has(uuid(2)) || envelope.IsFormer(s.Fingerprint) != former {
						t.Fatalf("not joined: %+v", s)
					}
					reused(3, `{"n":2}`)
					reused(4, `{"n":1}`, `"env":"dev"`, `"env":"prod"`)
					reused(5, `{"n":1}`, `"env":"dev"`, `"env":"dev","scope":{"a":"b"}`)
					w.decide(envelope.CodeUnavailable)
					ask(6, `{"n":1}`)
					if s := w.state(); len(s.Attempts) != 2 || envelope.IsFormer(s.Fingerprint) != former {
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
}

// A large input is read once more for a log of the former kind, and no more often for all who ask with it.
func TestLargeInputOfFormerLog(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.opened(true)
		for n := range 5 {
			w.askLarge(n+2, `{"n":1}`)
			pass(lingers)
		}
		if n := w.fetched.Load(); n != 2 || len(w.refusals()) != 0 {
			t.Errorf("it was read %d times, refused %v", n, w.refusals())
		}
		w.silent = true
		w.askLarge(7, `{"n":1}`) // is remembered
		if n := len(w.state().Last().Joined); n != 5 && !w.state().Last().Has(uuid(7)) {
			t.Errorf("%d have joined", n)
		}
	})
}

// Where a large input that has to be compared cannot be read, nothing is told, and the caller asks again.
func TestLargeInputNotCompared(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.opened(true)
		w.askLarge(9, `{"n":1}`, "key-0123456789abcdef", "key-of-another-call0") // the input is known from here on
		delete(w.payloads, envelope.ArgumentsHash([]byte(`{"n":1}`)))
		in := w.request(2, `{"n":1}`, `null`)
		in.InputRef = fmt.Sprintf("sha256:%s;7", envelope.ArgumentsHash([]byte(`{"n":1}`)))
		w.d.Handle(t.Context(), in)
		pass(lingers)
		if len(w.refusals())+w.acceptedBy(2) != 0 {
			t.Fatalf("refused %v", w.refusals())
		}
		w.askLarge(2, `{"n":1}`)
		pass(lingers)
		if !w.state().Last().Has(uuid(2)) {
			t.Errorf("not joined: %+v", w.state())
		}
	})
}

// What a denial says of the effect depends on whether the call has the input of its log, of either kind.
func TestDenialOfEitherInput(t *testing.T) {
	for _, former := range []bool{false, true} {
		for input, want := range map[string]envelope.Effect{
			`{"n":1}`: envelope.EffectUnknown, `{"n":2}`: envelope.EffectNone,
		} {
			bubble(t, call.Idempotent, func(t *testing.T, w *world) {
				w.opened(former)
				w.ask(2, `{"n":1}`, input, `"1.x"`, `"2.x"`)
				if got := w.outcome(2).Error.Details.Effect; got != want {
					t.Errorf("former %t, %s: the effect is said to be %s", former, input, got)
				}
			})
		}
	}
}
