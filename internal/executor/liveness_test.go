package executor_test

import (
	"context"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/executor"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// What was stored before the heartbeats of its executor, or while they were interrupted, is claimed before it
// runs: dispatchers may be about to say that nobody took it.
func TestClaimsWhatItsHeartbeatsDoNotCover(t *testing.T) {
	for name, c := range map[string]struct {
		live    func(w *world, admit func())
		claimed bool
	}{
		"covered":          {func(w *world, admit func()) { w.beat(); pass(time.Second); admit(); w.beat() }, false},
		"before the first": {func(w *world, admit func()) { admit(); pass(time.Second); w.beat() }, true},
		"no new ones":      {func(w *world, admit func()) { w.beat(); pass(10 * time.Second); admit() }, true},
		"before they go on": {func(w *world, admit func()) {
			w.beat()
			pass(10 * time.Second)
			admit()
			pass(time.Second)
			w.beat()
		}, true},
		"after they go on": {func(w *world, admit func()) {
			w.beat()
			pass(10 * time.Second)
			w.beat()
			pass(time.Second)
			admit()
		}, false},
		"after the server's clock was set back": {func(w *world, admit func()) {
			w.ex.HeartbeatStored(time.Now().Add(time.Hour))
			pass(time.Second)
			admit()
			w.beat()
		}, true},
		"one that took long": {func(w *world, admit func()) {
			w.beat()
			sent := time.Now()
			pass(10 * time.Second)
			admit()
			w.ex.HeartbeatStored(sent)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				w.ex.ControlReady()
				pass(time.Second)
				var m executor.Message
				c.live(w, func() { m = w.admit(callA, time.Minute) })
				w.ex.Handle(t.Context(), m)
				want := c.claimed || w.manifest.Class == call.SideEffectful
				if got := w.state().Last().Claim != nil; got != want {
					t.Errorf("claimed: %t, want %t", got, want)
				}
				if d := w.decided(1); d.Status != envelope.Success {
					t.Errorf("decision %+v", d)
				}
			})
		})
	}
}

func (w *world) beat() { w.ex.HeartbeatStored(time.Now()) }

// What the server stored at its deadline or later is started by nobody, whatever the clock of an executor says.
func TestStoredTooLate(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.admit(callA, time.Second)
		m.Entry.Time = m.Entry.Time.Add(time.Second)
		w.ex.Handle(t.Context(), m)
		d := w.decided(1)
		if len(w.runs) != 0 || d.Code != envelope.CodeTimeout || d.Effect != envelope.EffectNone || !d.NotTaken {
			t.Errorf("%d runs, decision %+v", len(w.runs), d)
		}
	})
}

// Executors say since when they run a call, to whoever wants to know what it waits for.
func TestSeek(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m, end := w.busy()
		id := m.Entry.State.ID
		began := time.Now()
		pass(time.Second)
		if since, ok := w.ex.Locate(id, 1); !ok || !since.Equal(began) {
			t.Errorf("it runs since %s: %t, want %s", since, ok, began)
		}
		if _, ok := w.ex.Locate(id, 2); ok {
			t.Error("another attempt is said to run")
		}
		end()
		if _, ok := w.ex.Locate(id, 1); ok {
			t.Error("it is said to run after its end")
		}
	})
}

// The duration of a run is measured by the monotonic clock: bus time may be set back during the run, R5.
func TestDurationWhileBusTimeIsSetBack(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		var back time.Duration
		w.ex.Now = func() time.Time { return time.Now().Add(-back) }
		w.execute = func(_ context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
			pass(2 * time.Second)
			back = 10 * time.Second
			return tool.Result{Output: inv.Input}, nil
		}
		w.ex.Handle(t.Context(), w.admit(callA, time.Minute))
		if len(w.replies) != 1 || w.replies[0].Metrics.DurationMS != 2000 {
			t.Errorf("replies %+v", w.replies)
		}
	})
}
