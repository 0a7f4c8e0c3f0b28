package executor_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/native"
)

const grace = 200 * time.Millisecond // of package native

// stuck has the world run a native tool, which ignores its context: it does not return before release is closed.
func (w *world) stuck() (release chan struct{}) {
	release = make(chan struct{})
	w.manifest.Endpoint, w.manifest.Limits.Concurrency = native.Endpoint{Native: "echo"}, 1
	wait := func(tool.Invocation) (tool.Result, error) {
		<-release
		return tool.Result{Output: []byte(`{}`)}, nil
	}
	w.native = native.New(map[string]native.Func{
		"echo": func(_ context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) { return wait(inv) },
	}, native.WithLookup("echo", func(_ context.Context, inv tool.Invocation) (tool.Result, bool, error) {
		res, err := wait(inv)
		return res, true, err
	}))
	return release
}

// A tool that ignores the end of its context delays no call by more than the grace after its deadline, a kill or
// the end of the executor. Its run goes on: the tool is not started again while stray runs take all of its
// concurrency. What a stray run returns changes nothing.
func TestAbandonedTool(t *testing.T) {
	unknown := map[envelope.Code]envelope.Code{
		envelope.CodeTimeout: envelope.CodeTimeoutUnknown, envelope.CodeCancelled: envelope.CodeCancelledUnknown,
	}
	for name, c := range map[string]struct {
		end  func(w *world, stop func()) // after a second
		took time.Duration
		code envelope.Code // "" where nothing is decided here
	}{
		"deadline": {func(*world, func()) {}, 10*time.Second + grace, envelope.CodeTimeout},
		"kill": {func(w *world, _ func()) {
			w.cancel()
			w.ex.Kill("id1", 1, time.Now().Add(time.Minute))
		}, time.Second + grace, envelope.CodeCancelled},
		"drain": {func(_ *world, stop func()) { stop() }, time.Second + grace, ""},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				release := w.stuck()
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				m, began := w.admit(callA, 10*time.Second), time.Now()
				returned := make(chan struct{})
				go func() {
					defer close(returned)
					w.ex.Handle(ctx, m)
				}()
				pass(time.Second)
				c.end(w, stop)
				lease := m.Lease.(*holding)
				<-lease.over
				if took := time.Since(began); took != c.took {
					t.Errorf("taken over after %s, want %s", took, c.took)
				}
				w.wantAcked(m, c.code != "")
				if c.code != "" {
					want, d := c.code, w.decided(1)
					if d.Status == envelope.TerminalError { // of a side-effectful tool
						want = unknown[want]
					}
					if d.Code != want {
						t.Errorf("decision %+v, want %s", d, want)
					}
				}
				next := w.admitAs("id2", callB, time.Minute)
				w.ex.Handle(t.Context(), next) // which its slot does not keep from being tried
				w.wantAcked(next, true)
				if last := w.replies[len(w.replies)-1]; last.Error == nil || last.Error.Code != envelope.CodeUnavailable {
					t.Errorf("another call beside the stray run: %+v", last)
				}
				decided, replies := w.state().Seq, len(w.replies)
				close(release)
				<-returned
				if w.state().Seq != decided || len(w.replies) != replies || len(lease.over) > 0 ||
					len(lease.handedBack)+lease.acked != 1 {
					t.Errorf("what returned late changed something: %+v", lease)
				}
				last := w.admitAs("id3", callB, time.Minute)
				w.ex.Handle(t.Context(), last)
				if r := w.replies[len(w.replies)-1]; r.Status != envelope.Success {
					t.Errorf("after the stray run: %+v", r)
				}
			})
		})
	}
}

// A lookup that ignores its context keeps no call, either: the effect is unknown.
func TestAbandonedLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, call.SideEffectful)
		release := w.stuck()
		defer synctest.Wait()
		defer close(release)
		w.manifest.Capability.Lookup = true
		second := w.claimed("default/other")
		w.gone["default/other"] = true
		go w.ex.Handle(t.Context(), second)
		<-second.Lease.(*holding).over
		w.wantAcked(second, true)
		if d := w.decided(1); d.Effect != envelope.EffectUnknown || len(w.runs) != 0 {
			t.Errorf("decision %+v", d)
		}
	})
}

// A tool that ends its goroutine ends its call at once.
func TestToolEndsItsGoroutine(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.manifest.Endpoint = native.Endpoint{Native: "echo"}
		exits := func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
			runtime.Goexit()
			return tool.Result{}, nil
		}
		w.native = native.New(map[string]native.Func{"echo": exits})
		m, began := w.admit(callA, time.Minute), time.Now()
		go w.ex.Handle(t.Context(), m)
		<-m.Lease.(*holding).over
		w.wantAcked(m, true)
		if d := w.decided(1); d.Status == envelope.Success || time.Since(began) != 0 {
			t.Errorf("decision %+v after %s", d, time.Since(began))
		}
	})
}
