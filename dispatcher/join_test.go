package dispatcher_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/tool"
)

// A dispatcher that has missed the outcome gathers joiners, and one who asks again lets it find
// out meanwhile: nothing is written to a call that is over, and everybody has its outcome.
func TestJoinersOfACallThatIsOver(t *testing.T) {
	bubble(t, tool.Pure, func(t *testing.T, w *world) {
		behind := w.dispatcher("d2", true) // it does not follow the log
		behind.Handle(t.Context(), w.request(1))
		behind.Handle(t.Context(), w.request(2))
		w.decide("")
		go behind.Handle(t.Context(), w.request(3))
		<-time.After(time.Millisecond) // it lingers
		behind.Handle(t.Context(), w.request(1))
		synctest.Wait()
		pass(time.Second)
		entries := w.log.Entries()
		if last := entries[len(entries)-1]; last.Kind != call.Decided {
			t.Errorf("after the outcome came %s", last.Kind)
		}
		w.outcome(1)
		w.outcome(3)
	})
}
