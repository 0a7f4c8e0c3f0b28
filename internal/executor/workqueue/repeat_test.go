package workqueue_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/chaos/proxy"
	"github.com/seed-018f16cc/toolbus/internal/executor/workqueue"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
)

// A delivery that comes twice is handled once. The second would be a run of its own, with the fence of the first.
func TestDeliveredTwice(t *testing.T) {
	f := setup(t)
	p, err := proxy.Listen(strings.TrimPrefix(f.Srv.URL, "nats://"), 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	p.Set(proxy.Trouble{proxy.Write: {Double: 1}}) // by its subject a work message is one
	nc, err := nats.Connect(p.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	const calls = 50
	for n := range calls {
		f.Admit(n, envelope.PriorityNormal)
	}
	handled := make(chan *workqueue.Message, 4*calls)
	w, err := workqueue.New(t.Context(), workqueue.Keep(js, "default", 1, time.Minute), "default", 1, 8*calls, time.Minute,
		func(_ context.Context, w *workqueue.Message) {
			handled <- w
			w.Ack()
		})
	if err != nil {
		t.Fatal(err)
	}
	stop := bustest.Run(t, func(ctx context.Context) { w.Run(ctx, ctx, nc) })
	runs := map[uint64]int{}
	for len(runs) < calls {
		select {
		case w := <-handled:
			runs[w.Entry.State.Seq]++
		case <-time.After(time.Minute):
			t.Fatalf("%d of %d came", len(runs), calls)
		}
	}
	stop()
	for close(handled); ; {
		w, more := <-handled
		if !more {
			break
		}
		runs[w.Entry.State.Seq]++
	}
	for seq, n := range runs {
		if n != 1 {
			t.Errorf("%d was handled %d times", seq, n)
		}
	}
	if p.Counts()[proxy.Write].Doubled < calls {
		t.Errorf("%+v", p.Counts())
	}
}
