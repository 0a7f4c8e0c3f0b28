package dispatcher_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// The server has lost the admission. Whoever asks again is admitted anew, whether it is the owner,
// somebody who had joined or somebody new, and the deadline of the new admission is kept.
func TestLostAdmission(t *testing.T) {
	for name, asks := range map[string][]int{"owner": {1}, "joiner": {2}, "new": {3}, "all": {3, 2, 1}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, call.Pure, func(t *testing.T, w *world) {
				w.ask(1)
				w.ask(2)
				pass(time.Second)
				w.log.LoseTail(0)
				pass(time.Second)
				for _, n := range asks {
					w.ask(n)
				}
				pass(time.Second)
				if s := w.state(); s.Empty() || len(s.Attempts) != 1 || !s.Last().Open() {
					t.Fatalf("after the loss: %+v", s)
				}
				pass(20 * time.Second)
				for _, n := range asks {
					if r := w.outcome(n); r.Error.Code != envelope.CodeTimeout {
						t.Errorf("%d was told %s", n, r.Error)
					}
				}
			})
		})
	}
}

// Where nobody asks again there is nothing to tell, and nothing is kept in memory.
func TestLostForGood(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		w.ask(2)
		pass(time.Second)
		w.log.LoseTail(0)
		pass(20 * time.Second)
		if open := w.d.Watching(); open != 0 || w.answers() != 0 || w.d.Lines() != 0 {
			t.Errorf("%d attempts are watched, %d answers, %d lines", open, w.answers(), w.d.Lines())
		}
	})
}

// The key was admitted anew while its first admission was still watched: what counts is the
// deadline of the admission that is in the log.
func TestReadmissionIsGuarded(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		other := w.dispatcher("d2", true)
		w.ask(1)
		w.log.LoseTail(0)
		w.log.Write(t.Context(), call.Event{Kind: call.Joined, State: call.State{Pinned: call.Pinned{Tool: "x",
			ID: "y"}}}, nil)
		pass(5 * time.Second)
		other.Handle(t.Context(), w.request(2)) // it does not run: only w.d keeps deadlines
		synctest.Wait()
		pass(6 * time.Second)
		if !w.state().Last().Open() {
			t.Fatal("decided at the deadline of an admission that is gone")
		}
		pass(5 * time.Second)
		if w.state().Last().Open() {
			t.Error("the new admission is not guarded")
		}
	})
}

// All dispatchers were down for so long that the admission has expired, and only a claim is left
// of the attempt. One that starts then finds it, and so does one that is asked.
func TestOnlyClaimLeft(t *testing.T) {
	for _, how := range []string{"started", "asked"} {
		t.Run(how, func(t *testing.T) {
			bubble(t, call.Idempotent, func(t *testing.T, w *world) {
				w.ask(1)
				s := w.state()
				_, claim := call.Take(s, call.WorkDelivery{
					Attempt: 1, Admitted: s.Last().Admitted, Deliveries: 2, Now: call.At(time.Now()), By: "e", Nonce: "n",
				})
				after, err := w.log.Write(t.Context(), claim, nil)
				if err != nil {
					t.Fatal(err)
				}
				w.stop()
				w.log.DropUntil(s.Seq)
				pass(30 * time.Minute)
				w.run("d2")
				if how == "started" {
					w.d.Observe(t.Context(), call.Claimed, 1, after)
				} else {
					w.ask(1)
				}
				pass(100 * time.Millisecond)
				if d := w.state().Last().Decision; d == nil || d.Code != envelope.CodeTimeout ||
					d.Effect != envelope.EffectUnknown {
					t.Errorf("decided %+v", d)
				}
			})
		})
	}
}
