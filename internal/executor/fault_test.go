package executor_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/executor"
)

// A call that panics its executor outside of its tool takes nobody with it. It is handed back, and ends as one whose
// executor has died.
func TestPanicOutsideOfTheTool(t *testing.T) {
	for class, want := range map[call.EffectClass]envelope.Code{
		call.Idempotent: envelope.CodeLost, call.SideEffectful: envelope.CodeToolUnknownState,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, class)
			var log bytes.Buffer
			w.ex.Logger = slog.New(slog.NewTextHandler(&log, nil))
			w.ex.Trace.Begin = func(context.Context, call.TraceEvent) (context.Context, string, func(call.TraceEvent)) {
				panic("boom")
			}
			m := w.admit(callA, time.Hour)
			w.ex.Handle(t.Context(), m)
			w.wantAcked(m, false)
			if w.ex.Running() != 0 || !strings.Contains(log.String(), "boom") ||
				!strings.Contains(log.String(), "fault_test.go") {
				t.Errorf("%d in hand, logged %s", w.ex.Running(), log.String())
			}
			for n := 0; w.state().Last().Open() && n < 2*call.MaxDeaths; n++ {
				w.ex.Handle(t.Context(), executor.Message{Entry: m.Entry, Deliveries: 2, Lease: &holding{}})
			}
			if d := w.decided(1); d.Code != want || d.Effect != envelope.EffectUnknown {
				t.Errorf("%s: %+v", class, d)
			}
		})
	}
}

// An executor gives up a call whose log is damaged, because a new outcome could contradict the lost one. Dispatchers
// answer the callers.
func TestDamagedLog(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.admit(callA, time.Minute)
		damage := &call.DamagedError{Ref: "echo.id1"}
		w.log.Before(func(call.Event) error { return fmt.Errorf("%w: %w", call.ErrUnsure, damage) })
		w.log.BeforeRead(func() error { return damage })
		began := time.Now()
		w.ex.Handle(t.Context(), m)
		w.wantAcked(m, true)
		if took := time.Since(began); took > 5*time.Second || len(w.replies) > 0 {
			t.Errorf("given up after %s, replies %+v", took, w.replies)
		}
	})
}
