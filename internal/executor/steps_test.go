package executor_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/observe"
)

// Whoever observes an executor is told every step of a call.
func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, call.SideEffectful)
		var steps []observe.Point
		w.ex.Observer.Step = func(_ context.Context, s observe.Step) { steps = append(steps, s.At) }
		w.ex.Handle(t.Context(), w.admit(callA, time.Minute))
		want := []observe.Point{
			"taken", "before-claim", "after-claim", "before-effect", "after-effect", "before-decide", "after-decide",
			"before-reply", "before-ack",
		}
		if !slices.Equal(steps, want) {
			t.Errorf("%q, want %q", steps, want)
		}
		steps = nil
		w = newWorld(t, call.Pure)
		w.ex.Observer.Step = func(_ context.Context, s observe.Step) { steps = append(steps, s.At) }
		m := w.admit(callB, time.Minute)
		w.manifest = nil
		w.ex.Handle(t.Context(), m)
		if !slices.Equal(steps, []observe.Point{"handed-back"}) {
			t.Errorf("without the tool: %q", steps)
		}
	})
}
