package workqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/executor/workqueue"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
)

// An executor requests no more than 4 MiB at once, whatever its slots and whatever waits for it: large messages and
// small ones in the same and in other queues. A message that is too large for a request comes by one of its own. It
// leaves the consumer as trusted as before, and the server closes no connection.
func TestBytesRequested(t *testing.T) {
	for name, slots := range map[string]int{"one slot": 1, "few slots": 4, "slots": 64, "many slots": 1000} {
		t.Run(name, func(t *testing.T) {
			f := &fixture{bustest.Start(t, func(o *server.Options) { o.MaxPending = 5 << 20 })}
			queues := workqueue.Keep(f.JS, "default", 1, time.Minute)
			if err := queues.Ensure(t.Context()); err != nil { // before there is work, so that its deliveries are counted
				t.Fatal(err)
			}
			const large, small = 100, 200
			priorities := []envelope.Priority{envelope.PriorityHigh, envelope.PriorityNormal, envelope.PriorityLow}
			for n := range large + small {
				if n%3 == 0 {
					f.AdmitLarge(n, priorities[n/3%2], 490_000)
				} else {
					f.Admit(n, priorities[n/3%3])
				}
			}
			got := make(chan *workqueue.Message, large+small)
			w, err := workqueue.New(t.Context(), queues, "default", 1, slots, time.Minute,
				func(_ context.Context, w *workqueue.Message) {
					w.Ack()
					got <- w
				})
			if err != nil {
				t.Fatal(err)
			}
			seen := watch(t)
			nc := f.Srv.Connect(t, nats.SetCustomDialer(seen), nats.NoReconnect())
			stop := bustest.Run(t, func(ctx context.Context) { w.Run(ctx, ctx, nc) })
			late := time.After(50 * time.Second) // the lease is a minute
			for n := range large + small {
				select {
				case m := <-got:
					if m.Deliveries != 1 {
						t.Errorf("call %d came at delivery %d", n, m.Deliveries)
					}
				case <-late:
					t.Fatalf("%d calls came", n)
				}
			}
			if nc.IsClosed() {
				t.Error("the server has closed the connection")
			}
			stop()
			seen.mu.Lock()
			defer seen.mu.Unlock()
			t.Logf("%d bytes, %d requests for a message alone", seen.most, seen.alone)
			if seen.most > 4<<20 || seen.alone == 0 && slots > 1 {
				t.Errorf("%d bytes were requested at once, and %d messages alone", seen.most, seen.alone)
			}
		})
	}
}
