package executor_test

import (
	"context"
	"log/slog"
	"strings"
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

// What a side-effectful tool says of its effect at the end counts, if that is none: nobody else can know it. A tool
// that says nothing leaves the call to the next executor, and the log says what becomes of it.
func TestNoEffectWhileDraining(t *testing.T) {
	none := envelope.EffectNone
	for name, c := range map[string]struct {
		err  error
		code envelope.Code // "" if the executor decides nothing
	}{
		"stopped":  {&tool.StoppedError{Cause: context.Canceled, Effect: none}, envelope.CodeUnavailable},
		"answered": {&tool.Error{Code: "busy", Message: "busy", Effect: none}, "S-TOOL-BUSY"},
		"silent":   {&tool.StoppedError{Cause: context.Canceled}, ""},
	} {
		each(t, func(t *testing.T, w *world) {
			var log strings.Builder
			w.ex.Logger = slog.New(slog.NewTextHandler(&log, nil))
			ctx, stop := context.WithCancel(t.Context())
			w.execute = func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
				stop()
				return tool.Result{}, c.err
			}
			m := w.admit(callA, time.Minute)
			w.ex.Handle(ctx, m)
			once := w.manifest.Class == call.SideEffectful
			if decides := once && c.code != ""; decides {
				if d := w.decided(1); d.Code != c.code || d.Effect != none {
					t.Errorf("%s: decision %+v", name, d)
				}
				return
			}
			w.wantAcked(m, false)
			says := "msg=\"a call is handed back, to be tried again\" ref=" + w.state().Ref()
			if once {
				says = "msg=\"a call that runs once was cut off: its lookup is asked, or its effect is " +
					"unknown\" ref=" + w.state().Ref()
			}
			if !w.state().Last().Open() || !strings.Contains(log.String(), says) {
				t.Errorf("%s: %+v, logged %s", name, w.state().Last(), &log)
			}
		})
	}
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
