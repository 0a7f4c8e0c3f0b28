package workqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/executor/workqueue"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// No message is lost when pull requests end just as messages come: it would come again only
// after the lease, which is longer here than the test may take.
func TestWorkersLoseNothingBetweenPulls(t *testing.T) {
	f := setup(t)
	const calls = 60
	got := make(chan int, calls)
	w, err := workqueue.New(t.Context(), workqueue.Keep(f.JS, "default", 1, time.Minute), "default", 1, 64, time.Minute,
		func(_ context.Context, w *workqueue.Message) {
			w.Ack()
			got <- w.Deliveries
		})
	if err != nil {
		t.Fatal(err)
	}
	bustest.Run(t, func(ctx context.Context) { w.Run(ctx, ctx, f.NC) })
	tick := time.NewTicker(29 * time.Millisecond) // drifts over the ends of the pulls
	defer tick.Stop()
	for n := range calls {
		f.Admit(n, envelope.PriorityNormal)
		select {
		case deliveries := <-got:
			if deliveries != 1 {
				t.Errorf("call %d came at delivery %d", n, deliveries)
			}
		case <-time.After(50 * time.Second): // the lease is a minute
			t.Fatalf("call %d did not come", n)
		}
		<-tick.C
	}
}

// A consumer that is made anew delivers everything as if for the first time, also what somebody has
// in hand. That is not believed of what is older than it.
func TestWorkersOfANewConsumer(t *testing.T) {
	f := setup(t)
	got := make(chan int, 10)
	// The server may read a file of the deleted consumer before that is gone: the new one then delivers after a lease.
	const lease = 30 * time.Second
	work := func() (stop func()) {
		open := func() (*workqueue.Puller, error) {
			return workqueue.New(t.Context(), workqueue.Keep(f.JS, "default", 1, lease), "default", 1, 8, lease,
				func(_ context.Context, w *workqueue.Message) {
					got <- w.Deliveries // and no ack
				})
		}
		w, err := open()
		for bus.HasErrorCode(err, bus.CodeConsumerCreate) { // the server still removes the files of the deleted one
			w, err = open()
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.Run(ctx, ctx, f.NC) }()
		return func() { cancel(); <-done }
	}
	stop := work()
	f.Admit(1, envelope.PriorityNormal)
	if n := next(t, got); n != 1 {
		t.Errorf("delivery %d, want the first", n)
	}
	stop()
	if err := f.JS.DeleteConsumer(t.Context(), subjects.Partition(0).Stream(),
		subjects.Worker("default", "normal")); err != nil {
		t.Fatal(err)
	}
	defer work()()
	if n := next(t, got); n == 1 {
		t.Error("a new consumer was believed to have counted what is older than it")
	}
	f.Admit(2, envelope.PriorityNormal)
	if n := next(t, got); n != 1 {
		t.Errorf("delivery %d of what is younger than the consumer, want the first", n)
	}
}

// Somebody deletes the consumer under running workers: they make it anew.
func TestWorkersOfADeletedConsumer(t *testing.T) {
	f := setup(t)
	got := make(chan int, 10)
	w, err := workqueue.New(t.Context(), workqueue.Keep(f.JS, "default", 1, time.Minute), "default", 1, 8, time.Minute,
		func(_ context.Context, w *workqueue.Message) {
			w.Ack()
			got <- w.Deliveries
		})
	if err != nil {
		t.Fatal(err)
	}
	bustest.Run(t, func(ctx context.Context) { w.Run(ctx, ctx, f.NC) })
	if err := f.JS.DeleteConsumer(t.Context(), subjects.Partition(0).Stream(),
		subjects.Worker("default", "normal")); err != nil {
		t.Fatal(err)
	}
	f.Admit(1, envelope.PriorityNormal)
	next(t, got)
}

func next[T any](t *testing.T, got <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-got:
	case <-time.After(50 * time.Second):
		t.Fatal("no work")
	}
	return v
}
