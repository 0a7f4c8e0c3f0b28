package workqueue_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/executor/workqueue"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// Workers make do with one slot, however many partitions there are, and not with less.
func TestTooFewSlots(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{Partitions: 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := workqueue.New(t.Context(), workqueue.Keep(js, "default", 3, time.Second), "default", 3, 0, time.Second,
		nil); err == nil ||
		!strings.Contains(err.Error(), "1") {
		t.Errorf("no slots: %v", err)
	}
	if _, err := workqueue.New(t.Context(), workqueue.Keep(js, "default", 3, time.Second), "default", 3, 1, time.Second,
		nil); err != nil {
		t.Errorf("1 slot: %v", err)
	}
}
