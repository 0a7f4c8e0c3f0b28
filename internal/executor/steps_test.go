package executor_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/call"
)

// Whoever observes an executor is told every step of a call.
func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, call.SideEffectful)
		var steps []call.TracePoint
		w.ex.Trace.Event = func(_ context.Context, s call.TraceEvent) { steps = append(steps, s.At) }
		w.ex.Handle(t.Context(), w.admit(callA, time.Minute))
		want := []call.TracePoint{
			"taken", "before-claim", "after-claim", "before-effect", "after-effect", "before-decide", "after-decide",
			"before-reply", "before-ack",
		}
		if !slices.Equal(steps, want) {
			t.Errorf("%q, want %q", steps, want)
		}
		steps = nil
		w = newWorld(t, call.Pure)
		w.ex.Trace.Event = func(_ context.Context, s call.TraceEvent) { steps = append(steps, s.At) }
		m := w.admit(callB, time.Minute)
		w.manifest = nil
		w.ex.Handle(t.Context(), m)
		if !slices.Equal(steps, []call.TracePoint{"taken", "handed-back"}) {
			t.Errorf("without the tool: %q", steps)
		}
	})
}
