package workqueue_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/executor/workqueue"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
)

// Workers hold no message without a slot, and low priority does not starve.
func TestWorkers(t *testing.T) {
	f := setup(t)
	const slots, high, low = 8, 300, 20
	for n := range high {
		f.Admit(n, envelope.PriorityHigh)
	}
	for n := range low {
		f.Admit(high+n, envelope.PriorityLow)
	}
	var mu sync.Mutex
	held, most, highDone, lowDone, highWhenLowDone := 0, 0, 0, 0, 0
	all := make(chan struct{})
	w, err := workqueue.New(t.Context(), workqueue.Keep(f.JS, "default", 1, 3*time.Minute), "default", 1, slots,
		3*time.Minute,
		func(_ context.Context, w *workqueue.Message) {
			mu.Lock()
			held++
			most = max(most, held)
			mu.Unlock()
			<-time.After(time.Millisecond)
			w.Ack()
			mu.Lock()
			defer mu.Unlock()
			held--
			if w.Entry.State.Last().Priority == envelope.PriorityLow {
				if lowDone++; lowDone == low {
					highWhenLowDone = highDone
				}
			} else {
				highDone++
			}
			if highDone+lowDone == high+low {
				close(all)
			}
		})
	if err != nil {
		t.Fatal(err)
	}
	bustest.Run(t, func(ctx context.Context) { w.Run(ctx, ctx, f.NC) })
	select {
	case <-all:
	case <-time.After(2 * time.Minute):
		t.Fatalf("%d high and %d low done", highDone, lowDone)
	}
	if most > slots {
		t.Errorf("%d messages held with %d slots", most, slots)
	}
	if highWhenLowDone == high {
		t.Error("low waited for all of high")
	}
}

// Work goes on after the server was restarted.
func TestWorkersSurviveRestart(t *testing.T) {
	f := setup(t)
	got := make(chan string, 10)
	w, err := workqueue.New(t.Context(), workqueue.Keep(f.JS, "default", 1, time.Second), "default", 1, 4, time.Second,
		func(_ context.Context, w *workqueue.Message) {
			w.Ack()
			got <- w.Entry.State.ID
		})
	if err != nil {
		t.Fatal(err)
	}
	bustest.Run(t, func(ctx context.Context) { w.Run(ctx, ctx, f.NC) })
	f.Admit(1, envelope.PriorityNormal)
	<-got
	f.Srv.Restart()
	f.Admit(2, envelope.PriorityNormal)
	select {
	case <-got:
	case <-time.After(time.Minute):
		t.Fatal("no work after the restart")
	}
}

// Nothing is lost with a connection that is made anew after a pause, where it would come again after a lease.
func TestPause(t *testing.T) {
	f := setup(t)
	const calls = 400
	for n := range calls {
		f.Admit(n, envelope.PriorityNormal)
	}
	got := make(chan string, 2*calls)
	w, err := workqueue.New(t.Context(), workqueue.Keep(f.JS, "default", 1, 3*time.Minute), "default", 1, 8, 3*time.Minute,
		func(_ context.Context, w *workqueue.Message) {
			w.Ack()
			got <- w.Entry.State.ID
		})
	if err != nil {
		t.Fatal(err)
	}
	nc := f.Srv.Connect(t, nats.MaxReconnects(-1))
	bustest.Run(t, func(ctx context.Context) { w.Run(ctx, ctx, nc) })
	late := time.After(time.Minute)
	for seen := map[string]bool{}; len(seen) < calls; {
		select {
		case id := <-got:
			if seen[id] = true; len(seen)%50 == 0 {
				w.Pause()
				if err := nc.ForceReconnect(); err != nil {
					t.Fatal(err)
				}
			}
		case <-late:
			t.Fatalf("%d of %d calls came", len(seen), calls)
		}
	}
}

// 1,000 planned reconnects lose no call of those that are admitted at the same time. A lost one would come again after
// the lease only.
func TestReconnectsLoseNothing(t *testing.T) {
	const reconnects, lease = 1000, time.Hour
	f := setup(t)
	got := make(chan struct{}, 1)
	var mu sync.Mutex
	seen := map[string]bool{}
	w, err := workqueue.New(t.Context(), workqueue.Keep(f.JS, "default", 1, lease), "default", 1, 8, lease,
		func(_ context.Context, w *workqueue.Message) {
			w.Ack()
			mu.Lock()
			seen[w.Entry.State.ID] = true
			mu.Unlock()
			select {
			case got <- struct{}{}:
			default:
			}
		})
	if err != nil {
		t.Fatal(err)
	}
	nc := f.Srv.Connect(t, nats.MaxReconnects(-1))
	bustest.Run(t, func(ctx context.Context) { w.Run(ctx, ctx, nc) })
	calls := 0
	stop := bustest.Run(t, func(ctx context.Context) {
		for ; ctx.Err() == nil; calls++ {
			f.Admit(calls, envelope.PriorityNormal)
		}
	})
	for range reconnects {
		w.Pause()
		if err := nc.ForceReconnect(); err != nil {
			t.Fatal(err)
		}
		next(t, got)
	}
	stop()
	t.Logf("%d calls", calls)
	for late := time.After(time.Minute); ; {
		mu.Lock()
		n := len(seen)
		mu.Unlock()
		if n == calls {
			return
		}
		select {
		case <-got:
		case <-late:
			t.Fatalf("%d of %d calls came", n, calls)
		}
	}
}
