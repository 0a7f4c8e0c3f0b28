package workqueue_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/executor/workqueue"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// The server opens no consumer whose files are damaged. The error names the consumer and the folder to remove; after
// that the consumer is made again, and gives what waited to executors.
func TestDamagedConsumer(t *testing.T) {
	f := setup(t)
	keep := workqueue.Keep(f.JS, "default", 1, time.Minute)
	if err := keep.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.Admit(1, envelope.PriorityNormal)
	name := subjects.Worker("default", "normal")
	f.Srv.Stop()
	account := filepath.Join(f.Srv.Dir(), "jetstream", "$G")
	folder := filepath.Join("streams", subjects.Partition(0).Stream(), "obs", name)
	if err := os.WriteFile(filepath.Join(account, folder, "o.dat"), make([]byte, 40), 0o600); err != nil {
		t.Fatal(err)
	}
	f.Srv.Restart()
	f.Srv.Connect(t)
	for _, make := range []func() error{
		func() error { return keep.Ensure(t.Context()) },
		func() error { _, err := keep.Look(t.Context()); return err },
	} {
		if err := make(); err == nil || !strings.Contains(err.Error(), name+" of stream "+subjects.Partition(0).Stream()) ||
			!strings.Contains(err.Error(), folder) {
			t.Fatalf("the error does not say what to do: %v", err)
		}
	}
	if err := os.RemoveAll(filepath.Join(account, folder)); err != nil {
		t.Fatal(err)
	}
	if err := keep.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := make(chan int, 10)
	w, err := workqueue.New(t.Context(), keep, "default", 1, 4, time.Minute, func(_ context.Context,
		w *workqueue.Message) {
		got <- w.Deliveries
		w.Ack()
	})
	if err != nil {
		t.Fatal(err)
	}
	bustest.Run(t, func(ctx context.Context) { w.Run(ctx, ctx, f.NC) })
	if n := next(t, got); n == 1 {
		t.Error("the new consumer was believed to have counted what is older than it")
	}
}
