package bus

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/natstest"
)

// forgetful answers by the API of the server behind another prefix, all but the first question.
func forgetful(t *testing.T, nc *nats.Conn, prefix string) *atomic.Int64 {
	t.Helper()
	asked := new(atomic.Int64)
	_, err := nc.Subscribe(prefix+".>", func(msg *nats.Msg) { // ends with the connection
		if asked.Add(1) == 1 {
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

// A question that a server or a leader takes with it when it goes is asked again soon: the record would be
// behind for longer than admission lets it otherwise.
func TestEndOfRecordAskedAgain(t *testing.T) {
	srv := natstest.Start(t)
	if err := Ensure(t.Context(), srv.JetStream(t), TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	nc := srv.Connect(t)
	asked := forgetful(t, nc, "forgetful")
	js, err := jetstream.NewWithAPIPrefix(nc, "forgetful", jetstream.WithDefaultTimeout(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := &Projector{js: js, log: slog.New(slog.DiscardHandler)}
	if err := p.findEnd(ctx); err != nil || ctx.Err() != nil {
		t.Errorf("%v, %v after %d questions", err, ctx.Err(), asked.Load())
	}
}
