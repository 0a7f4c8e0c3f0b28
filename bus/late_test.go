package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
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
