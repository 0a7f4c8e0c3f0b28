package record_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/audit"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/natstest"
	"github.com/seed-018f16cc/toolbus/record"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Dispatchers that record the same at the same time, as for copies of one request, all have it recorded, and it is
// once: servers that replicate tell all but the first that they are at it.
func TestRecordOfCopies(t *testing.T) {
	js := natstest.StartCluster(t, 3)[0].JetStream(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := bus.Ensure(ctx, js, bus.TopologyOptions{Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	records := map[string]audit.Record{"allowed.1": {Event: "tool_allowed", Tenant: "default", ToolName: "echo"}}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if err := record.AppendAll(ctx, js, records); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s, err := js.Stream(ctx, subjects.AuditStream)
	if err != nil || s.CachedInfo().State.Msgs != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}
