package workqueue_test

import (
	"context"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/executor/workqueue"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// What was handed to nobody is known to be, also of a pool that never had an executor.
func TestDelivered(t *testing.T) {
	t.Parallel()
	js := natstest.Start(t).JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	d := workqueue.NewDeliveries(js)
	first := call.Position{Seq: 1}
	if delivered, err := d.Delivered(t.Context(), first, "default", "normal"); delivered || err != nil {
		t.Errorf("%t, %v", delivered, err)
	}
	over, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	if _, err := workqueue.NewDeliveries(js).Delivered(over, first, "default", "normal"); err == nil {
		t.Error("it answers without having looked")
	}
}
