package workqueue_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/executor/workqueue"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
)

// Workers whose consumers nobody has made yet wait for them, and say so once. What comes then is as new as it is.
func TestNoConsumersYet(t *testing.T) {
	f := setup(t)
	f.Admit(1, envelope.PriorityNormal)
	got := make(chan int, 10)
	w, err := workqueue.New(t.Context(), workqueue.Watch(f.JS, "default", 1), "default", 1, 4, time.Minute,
		func(_ context.Context, w *workqueue.Message) {
			got <- w.Deliveries
			w.Ack()
		})
	if err != nil {
		t.Fatal(err)
	}
	var out locked
	w.Log = slog.New(slog.NewTextHandler(&out, nil))
	bustest.Run(t, func(ctx context.Context) { w.Run(ctx, ctx, f.NC) })
	f.until(func() bool { return strings.Contains(out.lines()[0], "waiting for a dispatcher") })
	if err := workqueue.Keep(f.JS, "default", 1, time.Minute).Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := next(t, got); n == 1 {
		t.Error("a consumer was believed to have counted what is older than it")
	}
	n := 1
	f.until(func() bool { // it has been looked at
		n++ // the server takes the admission of a call that there is for a retransmission, and hands out nothing
		f.Admit(n, envelope.PriorityNormal)
		return next(t, got) == 1
	})
	if lines := out.lines(); len(lines) != 1 {
		t.Errorf("said %q", lines)
	}
}
