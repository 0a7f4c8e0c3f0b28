package executor_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// An executor that shuts down while it asks concludes nothing: another one can ask.
func TestLookupWhileDraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, call.SideEffectful)
		w.manifest.Capability.Lookup = true
		ctx, stop := context.WithCancel(t.Context())
		w.lookup = func(tool.Invocation) (tool.Result, bool, error) {
			stop()
			return tool.Result{}, false, ctx.Err()
		}
		m := w.claimed("default/dead")
		w.gone["default/dead"] = true
		w.ex.Handle(ctx, m)
		w.wantAcked(m, false)
		if !w.state().Last().Open() {
			t.Error("decided by an executor that shut down")
		}
	})
}

// So it is where it shuts down between the claim and the start.
func TestDrainAfterClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, call.SideEffectful)
		ctx, stop := context.WithCancel(t.Context())
		w.ex.Trace.Event = func(_ context.Context, s call.TraceEvent) {
			if s.At == call.TraceAfterClaim {
				stop()
			}
		}
		w.ex.Handle(ctx, w.admit(callA, time.Minute))
		if d := w.decided(1); d.Code != envelope.CodeUnavailable || d.Effect != envelope.EffectNone || len(w.runs) != 0 {
			t.Errorf("%d runs, decision %+v", len(w.runs), d)
		}
	})
}

// An executor that shuts down in the middle of a lookup has no answer: another one asks again.
func TestDrainDuringLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, call.SideEffectful)
		w.manifest.Capability.Lookup = true
		ctx, stop := context.WithCancel(t.Context())
		w.lookup = func(tool.Invocation) (tool.Result, bool, error) {
			stop()
			return tool.Result{}, false, context.Canceled
		}
		m := w.claimed("default/dead")
		w.gone["default/dead"] = true
		w.ex.Handle(ctx, m)
		w.wantAcked(m, false)
		if !w.state().Last().Open() {
			t.Errorf("decision %+v", w.decided(1))
		}
	})
}

// An executor that shuts down under a run decides nothing: the message goes to another.
func TestDrain(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx, stop := context.WithCancel(t.Context())
		w.execute = func(ctx context.Context, _ tool.Invocation, _ tool.Sink) (tool.Result, error) {
			stop()
			<-ctx.Done()
			return tool.Result{}, ctx.Err()
		}
		m := w.admit(callA, time.Minute)
		w.ex.Handle(ctx, m)
		w.wantAcked(m, false)
		if !w.state().Last().Open() {
			t.Error("decided by an executor that shut down")
		}
	})
}

// A result in hand is recorded even while the executor shuts down.
func TestResultWhileDraining(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		ctx, stop := context.WithCancel(t.Context())
		w.execute = func(_ context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
			stop()
			return tool.Result{Output: inv.Input}, nil
		}
		w.ex.Handle(ctx, w.admit(callA, time.Minute))
		if d := w.decided(1); d.Status != envelope.Success {
			t.Errorf("decision %+v", d)
		}
	})
}
