package dispatcher_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// askPatiently asks as a caller that can do without an acceptance.
func (w *world) askPatiently(n int, edit ...string) {
	in := w.request(n, edit...)
	in.Patient = true
	w.d.Handle(w.t.Context(), in)
	synctest.Wait()
}

// A patient caller is not told of its acceptance when the outcome is there soon.
func TestPatientCallerGetsOnlyTheOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, call.Idempotent)
		w.askPatiently(1)
		pass(50 * time.Millisecond)
		if n := w.acceptedBy(1); n != 0 {
			t.Errorf("accepted %d times at once", n)
		}
		w.decide("")
		pass(time.Second)
		if n := w.acceptedBy(1); n != 0 {
			t.Errorf("accepted %d times after the outcome", n)
		}
	})
}

// It is told when the call takes longer, joiners too, and the impatient at once.
func TestPatientCallerIsAcceptedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, call.Idempotent)
		w.askPatiently(1)
		w.askPatiently(2)
		w.ask(3)
		for n, want := range map[int]int{1: 0, 2: 0, 3: 1} {
			if got := w.acceptedBy(n); got != want {
				t.Errorf("caller %d accepted %d times at first, want %d", n, got, want)
			}
		}
		pass(200 * time.Millisecond)
		for n := 1; n <= 3; n++ {
			if got := w.acceptedBy(n); got != 1 {
				t.Errorf("caller %d accepted %d times, want once", n, got)
			}
		}
	})
}

// The acceptance of a joiner says the proof of the chunks, if they come to it: the caller who opened the call computes
// it, and another actor would only learn how to forge them.
func TestJoinersLearnTheProofOfChunks(t *testing.T) {
	bubble(t, call.Idempotent, func(t *testing.T, w *world) {
		global := []string{`"key-0123456789abcdef"`, `"key-0123456789abcdef","idempotency_scope":"global"`}
		w.ask(1, global...)
		w.ask(2, global...)
		other := w.request(3, append(global, `"actor_id":"agent"`, `"actor_id":"other"`)...)
		other.Subject, other.From.Actor = "tb.call.t.other.echo", "other"
		w.d.Handle(t.Context(), other)
		pass(time.Second)
		for n, want := range map[int]string{1: "", 2: subjects.ChunkProof("inbox1", w.state().ID), 3: ""} {
			if got := w.accepted[fmt.Sprint("inbox", n)]; len(got) != 1 || got[0].ChunkProof != want {
				t.Errorf("caller %d: %+v, want the proof %q", n, got, want)
			}
		}
	})
}
