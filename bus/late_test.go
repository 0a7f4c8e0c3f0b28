package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// No message is lost when pull requests end just as messages come: it would come again only
// after the lease, which is longer here than the test may take.
func TestWorkersLoseNothingBetweenPulls(t *testing.T) {
	f := setup(t)
	const calls = 60
	got := make(chan int, calls)
	w, err := bus.NewWorkers(t.Context(), f.js, "default", 64, time.Minute, func(_ context.Context, w bus.Work) {
		w.Ack()
		got <- w.Deliveries
	})
	if err != nil {
		t.Fatal(err)
	}
	start(t, func(ctx context.Context) { w.Run(ctx, ctx, f.nc) })
	tick := time.NewTicker(29 * time.Millisecond) // drifts over the ends of the pulls
	defer tick.Stop()
	for n := range calls {
		f.admit(n, envelope.PriorityNormal)
		select {
		case deliveries := <-got:
			if deliveries != 1 {
				t.Errorf("call %d came at delivery %d", n, deliveries)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("call %d did not come", n)
		}
		<-tick.C
	}
}

// Somebody deletes the consumer while a message is worked on. Workers make it anew, it delivers
// everything as if for the first time, and they do not believe it. What is younger than it, they do.
func TestWorkersOfANewConsumer(t *testing.T) {
	f := setup(t)
	got := make(chan int, 10)
	release := make(chan struct{})
	w, err := bus.NewWorkers(t.Context(), f.js, "default", 8, time.Minute, func(_ context.Context, w bus.Work) {
		got <- w.Deliveries
		<-release
		w.Ack()
	})
	if err != nil {
		t.Fatal(err)
	}
	start(t, func(ctx context.Context) { w.Run(ctx, ctx, f.nc) })
	next := func() int {
		select {
		case n := <-got:
			return n
		case <-time.After(20 * time.Second):
			t.Fatal("no work")
			return 0
		}
	}
	f.admit(1, envelope.PriorityNormal)
	if n := next(); n != 1 {
		t.Fatalf("delivery %d, want the first", n)
	}
	if err := f.js.DeleteConsumer(t.Context(), subjects.CallsStream, subjects.Worker("default", "normal")); err != nil {
		t.Fatal(err)
	}
	if n := next(); n == 1 {
		t.Error("a new consumer was believed to count what is older than it")
	}
	close(release)
	for n := 2; ; n++ { // it is looked at now and then; until then nothing it says is believed
		f.admit(n, envelope.PriorityNormal)
		if next() == 1 {
			return
		}
		<-time.After(50 * time.Millisecond)
	}
}
