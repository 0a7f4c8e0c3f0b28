package executor_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/executor"
)

// strict is each for attempts that wait for the record. The test gets a message that an executor has in hand, and what
// ends when it is done with that.
func strict(t *testing.T, deliveries int, test func(w *world, m executor.Message, stop func(), done *sync.WaitGroup)) {
	each(t, func(t *testing.T, w *world) {
		w.covered = make(chan struct{})
		m := w.admit(callA, time.Minute)
		m.Deliveries = deliveries
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var done sync.WaitGroup
		done.Go(func() { w.ex.Handle(ctx, m) })
		synctest.Wait()
		if len(w.runs) > 0 || w.state().Last().Claim != nil {
			t.Errorf("%d runs, claim %v, and the record does not hold the request", len(w.runs), w.state().Last().Claim)
		}
		test(w, m, stop, &done)
	})
}

func TestStrictStartsOnceOnRecord(t *testing.T) {
	for _, deliveries := range []int{1, 2} {
		strict(t, deliveries, func(w *world, m executor.Message, _ func(), done *sync.WaitGroup) {
			close(w.covered)
			done.Wait()
			if d := w.decided(1); d.Status != envelope.Success || len(w.runs) != 1 {
				w.t.Errorf("%d runs, decision %+v", len(w.runs), d)
			}
			w.wantAcked(m, true)
		})
	}
}

// A request that does not come on record by its deadline was taken by nobody.
func TestStrictNeverOnRecord(t *testing.T) {
	strict(t, 1, func(w *world, m executor.Message, _ func(), done *sync.WaitGroup) {
		done.Wait()
		d := w.decided(1)
		if !d.NotTaken || d.Effect != envelope.EffectNone || d.Status != envelope.RetryableError || len(w.runs) > 0 {
			w.t.Errorf("%d runs, decision %+v", len(w.runs), d)
		}
		w.wantAcked(m, true)
	})
}

func TestStrictCancelled(t *testing.T) {
	strict(t, 1, func(w *world, m executor.Message, _ func(), done *sync.WaitGroup) {
		s := w.state()
		end := call.Completion{Cause: call.Cancelled, By: call.ByCanceller, Nonce: "k", Now: call.At(time.Now())}
		r := call.Decide(s, 1, s.Seq, end)
		if _, err := w.log.Write(w.t.Context(), r.Event, []byte(`{"response":{}}`)); err != nil {
			w.t.Fatal(err)
		}
		if w.ex.Kill("id1", 1, time.Now().Add(time.Minute)) {
			w.t.Error("its tool is said to run")
		}
		done.Wait()
		if d := w.decided(1); d.By != call.ByCanceller || len(w.runs) > 0 {
			w.t.Errorf("%d runs, decision %+v", len(w.runs), d)
		}
		w.wantAcked(m, true) // the stored response is none that could be delivered, and there is nothing else to do
	})
}

// A kill of which the log knows nothing changes nothing.
func TestStrictKilledInVain(t *testing.T) {
	strict(t, 1, func(w *world, m executor.Message, _ func(), done *sync.WaitGroup) {
		w.ex.Kill("id1", 1, time.Now().Add(time.Minute))
		synctest.Wait()
		close(w.covered)
		done.Wait()
		if d := w.decided(1); d.Status != envelope.Success || len(w.runs) != 1 {
			w.t.Errorf("%d runs, decision %+v", len(w.runs), d)
		}
		w.wantAcked(m, true)
	})
}

// Another executor finds the message as if it had been handed to nobody.
func TestStrictShutDown(t *testing.T) {
	strict(t, 1, func(w *world, m executor.Message, stop func(), done *sync.WaitGroup) {
		stop()
		done.Wait()
		if h := m.Lease.(*holding); h.declined != 1 || !w.state().Last().Open() || len(w.runs) > 0 {
			w.t.Errorf("declined %d times, %d runs, %+v", h.declined, len(w.runs), w.state().Last())
		}
	})
}

// A record that a newer build goes on with is one for executors of that build.
func TestStrictRecordOfNewerBuild(t *testing.T) {
	strict(t, 1, func(w *world, m executor.Message, _ func(), done *sync.WaitGroup) {
		w.unread = &format.Error{Kind: format.Segment, Version: 99}
		close(w.covered)
		done.Wait()
		w.wantAcked(m, false)
	})
}
