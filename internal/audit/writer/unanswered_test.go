package writer

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/chaos/proxy"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// forgetful forwards requests below another prefix to the JetStream API of the server, but drops the first ones.
func forgetful(t *testing.T, nc *nats.Conn, prefix string, first int64) *atomic.Int64 {
	t.Helper()
	asked := new(atomic.Int64)
	_, err := nc.Subscribe(prefix+".>", func(msg *nats.Msg) { // ends with the connection
		if asked.Add(1) <= first {
			return
		}
		again := *msg
		again.Subject = jetstream.DefaultAPIPrefix + strings.TrimPrefix(msg.Subject, prefix+".")
		if err := nc.PublishMsg(&again); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return asked
}

// A request that was lost with a server or a leader is soon sent again, however many were lost before. Otherwise the
// record would lag for longer than admission permits.
func TestEndOfRecordAskedAgain(t *testing.T) {
	srv := natstest.Start(t)
	if err := bus.Ensure(t.Context(), srv.JetStream(t), bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	nc := srv.Connect(t)
	asked := forgetful(t, nc, "forgetful", 5)
	js, err := jetstream.NewWithAPIPrefix(nc, "forgetful", jetstream.WithDefaultTimeout(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	p := newProjector(js, 0)
	p.log = slog.New(slog.DiscardHandler)
	if err := p.findEnd(ctx); err != nil || ctx.Err() != nil {
		t.Errorf("%v, %v after %d questions", err, ctx.Err(), asked.Load())
	}
}

// A flush whose acknowledgement is lost is soon repeated.
func TestFlushBeginsAnew(t *testing.T) {
	b := bustest.Start(t)
	for n := range 3 {
		admit(b, n, "t")
	}
	p := observed(b)
	line, err := proxy.Listen(strings.TrimPrefix(b.Srv.URL, "nats://"), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = line.Close() }() // closed below
	nc, err := bus.Dial(line.URL(), "projector")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p.chain.js = js
	line.Set(proxy.Trouble{proxy.PubAck: {Drop: 1}})
	var running sync.WaitGroup
	running.Go(func() { _ = p.Run(ctx) }) // the audit record shows the result
	for line.Counts()[proxy.PubAck].Dropped == 0 && timer.Sleep(ctx, time.Millisecond) {
	}
	line.Set(nil)
	for !p.recorded(3) && timer.Sleep(ctx, time.Millisecond) {
	}
	if ctx.Err() != nil {
		t.Error("the flush is not on record")
	}
	cancel()
	_ = line.Close() // ends the wait for an acknowledgement
	nc.Close()
	running.Wait()
}
