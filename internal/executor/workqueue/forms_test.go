package workqueue_test

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/executor/workqueue"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// locked is a buffer that several goroutines may write to.
type locked struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func (l *locked) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.String()), "\n")
}

// Work that an executor cannot read stays in the queue, for one that can. It says so once.
func TestWorkOfANewerBuild(t *testing.T) {
	f := setup(t)
	readable := f.Admit(1, envelope.PriorityNormal)
	s := f.Admit(2, envelope.PriorityNormal)
	e := call.Event{Kind: call.Requested, Attempt: 1, Nonce: "qid00003", State: s}
	e.State.ID = "id00003"
	newer := f.Raw(kv.EventSubject(e), strconv.Itoa(format.EventNow+1)+kv.EncodeEvent(e)[1:])
	handled := make(chan uint64, 10)
	w, err := workqueue.New(t.Context(), workqueue.Keep(f.JS, "default", 1, time.Minute), "default", 1, 8, time.Minute,
		func(_ context.Context, w *workqueue.Message) {
			handled <- w.Entry.State.Seq
			w.Ack()
		})
	if err != nil {
		t.Fatal(err)
	}
	var out locked
	w.Log = slog.New(slog.NewTextHandler(&out, nil))
	stop := bustest.Run(t, func(ctx context.Context) { w.Run(ctx, ctx, f.NC) })
	for range 2 {
		if got := <-handled; got == newer || got < readable.Seq {
			t.Errorf("%d was handled", got)
		}
	}
	cons, err := f.JS.Consumer(t.Context(), subjects.Partition(0).Stream(), subjects.Worker("default", "normal"))
	if err != nil {
		t.Fatal(err)
	}
	redelivered := func() (i *jetstream.ConsumerInfo) { // it comes again, and is left again
		for i == nil || i.NumRedelivered == 0 || i.Delivered.Consumer < 5 {
			if i, err = cons.Info(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return i
	}
	if i := redelivered(); i.AckFloor.Stream >= newer {
		t.Errorf("everything up to %d is acknowledged, and %d is not handled", i.AckFloor.Stream, newer)
	}
	stop()
	if lines := out.lines(); len(lines) != 1 || !strings.Contains(lines[0], "update this process") {
		t.Errorf("logged %q", lines)
	}
}
