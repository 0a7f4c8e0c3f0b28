package dispatcher_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/call"
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
