package workqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/executor/workqueue"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
)

// While all priorities have work and every slot is taken by it, each slot that is freed goes to the
// priorities by their weights.
func TestShareOfBusySlots(t *testing.T) {
	for _, slots := range []int{workqueue.MinSlots, 16} {
		f := setup(t)
		const each, runs = 120, 100
		for n := range each {
			f.Admit(3*n, envelope.PriorityHigh)
			f.Admit(3*n+1, envelope.PriorityNormal)
			f.Admit(3*n+2, envelope.PriorityLow)
		}
		begun, release := make(chan envelope.Priority), make(chan struct{})
		w, err := workqueue.New(t.Context(), workqueue.Keep(f.JS, "default", 1, 30*time.Second), "default", 1,
			slots, 30*time.Second,
			func(ctx context.Context, w *workqueue.Message) {
				select {
				case begun <- w.Entry.State.Last().Priority:
				case <-ctx.Done():
					return
				}
				select {
				case <-release:
				case <-ctx.Done():
				}
				w.Ack()
			})
		if err != nil {
			t.Fatal(err)
		}
		stop := bustest.Run(t, func(ctx context.Context) { w.Run(ctx, ctx, f.NC) })
		for range slots {
			<-begun
		}
		share := map[envelope.Priority]int{}
		for range runs { // one slot at a time is freed
			release <- struct{}{}
			select {
			case p := <-begun:
				share[p]++
			case <-time.After(25 * time.Second): // before the lease is over
				t.Fatalf("%d slots: nothing begins in a free slot; so far %v", slots, share)
			}
		}
		if share[envelope.PriorityLow] < runs/20 || share[envelope.PriorityNormal] < runs/5 ||
			share[envelope.PriorityHigh] < runs/2 {
			t.Errorf("%d slots: of %d runs %v, by weight 6:3:1", slots, runs, share)
		}
		stop()
	}
}
