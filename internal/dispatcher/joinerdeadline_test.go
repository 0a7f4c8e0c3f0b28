package dispatcher_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// told returns what was told to inbox n, in order.
func (w *world) told(n int) []*envelope.Response {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*envelope.Response(nil), w.outcomes[w.request(n).Reply]...)
}

// A joiner with a shorter deadline than its attempt is told so, and has an answer at its own; the call goes on.
func TestJoinerWithAShorterDeadline(t *testing.T) {
	for class, effect := range map[call.EffectClass]envelope.Effect{
		call.Pure: envelope.EffectNone, call.Idempotent: envelope.EffectUnknown,
	} {
		bubble(t, class, func(t *testing.T, w *world) {
			w.ask(1)
			due := time.Now().Add(time.Second).UnixMilli()
			w.ask(2, short...)
			w.ask(3) // with more time than the attempt has
			pass(500 * time.Millisecond)
			w.ask(2, short...) // again: its deadline remains what it was
			for n, want := range map[int]int64{2: due, 3: int64(w.state().Last().Deadline)} {
				for _, a := range w.accepted[w.request(n).Reply] {
					if !a.Joined || a.DeadlineUnixMS != want || a.Attempt != 1 {
						t.Errorf("%d was accepted as %+v, want deadline %d", n, a, want)
					}
				}
			}
			if w.acceptedBy(2) != 2 || w.answers() != 0 {
				t.Fatalf("accepted %d times, %d answers", w.acceptedBy(2), w.answers())
			}
			pass(510 * time.Millisecond)
			r := w.outcome(2)
			if r.Error.Code != envelope.CodeTimeout || r.Provenance.Final || r.Provenance.Attempt != 1 ||
				r.Error.Details.Effect != effect {
				t.Errorf("%s: %+v, %+v", class, r.Error, r.Provenance)
			}
			if !strings.Contains(r.Error.Message, "goes on") || !w.state().Last().Open() {
				t.Errorf("%s: %s", class, r.Error.Message)
			}
			w.ask(2, `"deadline_unix_ms":9`, `"deadline_unix_ms":1`) // once more, after its deadline
			if got := w.told(2); len(got) != 2 || got[1].Provenance.Final || w.acceptedBy(2) != 2 {
				t.Errorf("asked again, it was told %+v", got)
			}
			w.decide("")
			if r := w.outcome(3); r.Status != envelope.Success || len(w.told(2)) != 2 {
				t.Errorf("%+v, and %d answers to the one that had left", r, len(w.told(2)))
			}
		})
	}
}

// A joiner that has its outcome is not told later that its deadline has passed. The owner has no deadline but that
// of the attempt.
func TestNoDeadlineAfterTheOutcome(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		w.ask(2, short...)
		w.ask(1, short...) // asked again with less time
		if a := w.accepted["inbox1"]; len(a) != 2 || a[1].Joined || a[1].DeadlineUnixMS != a[0].DeadlineUnixMS {
			t.Errorf("the owner was accepted as %+v", a)
		}
		w.decide("")
		pass(2 * time.Second)
		if r := w.outcome(2); r.Status != envelope.Success {
			t.Errorf("%+v", r)
		}
	})
}

// Deadlines of joiners are kept nearest first, in whatever order they come.
func TestJoinersLeaveInOrder(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		for n, ms := range map[int]string{2: "3000", 3: "1000", 4: "2000"} {
			w.ask(n, `"timeout_ms":10000`, `"timeout_ms":`+ms)
		}
		for _, n := range []int{3, 4, 2} {
			pass(time.Second + call.MaxJoined*time.Microsecond) // joins linger
			w.outcome(n)
		}
		if w.answers() != 3 {
			t.Errorf("%d answers", w.answers())
		}
	})
}
