package writer_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/audit/writer"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// A log that lost its end uses recorded sequences again. The new events there are recorded too, also after the
// projector has read its position again.
func TestProjectsPositionsUsedAgain(t *testing.T) {
	f := setup(t)
	stream, err := f.JS.Stream(t.Context(), subjects.AuditStream)
	if err != nil {
		t.Fatal(err)
	}
	cfg := stream.CachedInfo().Config
	cfg.Duplicates = 3 * time.Second // within the window the server takes the new records for duplicates
	if _, err := f.JS.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	stop := bustest.Run(t, f.project)
	for n := range 3 {
		f.Decide(f.Admit(n, envelope.PriorityNormal))
	}
	f.recorded("id00002")
	stop()
	if err := f.JS.DeleteStream(t.Context(), subjects.Partition(0).Stream()); err != nil {
		t.Fatal(err)
	}
	if err := bus.Ensure(t.Context(), f.JS, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	bustest.Run(t, f.project)
	f.Decide(f.Admit(7, envelope.PriorityNormal))
	f.recorded("id00007")
}

// project runs a projector until ctx ends.
func (f *fixture) project(ctx context.Context) {
	p, from, err := writer.NewProjector(ctx, f.JS, 0, slog.New(slog.DiscardHandler), func() uint64 { return 0 })
	if err != nil {
		f.T.Error(err)
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.Run(ctx); err != nil {
			f.T.Error(err)
		}
	})
	if err := kv.NewFollower(f.JS, 0).Run(ctx, from, func(o kv.FollowedEvent) { p.Observe(ctx, o) }); err != nil {
		f.T.Error(err)
	}
	wg.Wait()
}

// recorded waits until the admission and the decision of a call are recorded.
func (f *fixture) recorded(callID string) {
	f.T.Helper()
	ctx, cancel := context.WithTimeout(f.T.Context(), time.Minute)
	defer cancel()
	n := 0
	for r, err := range reader.Replay(ctx, reader.Streams(f.JS), reader.Filter{Call: callID, Follow: true}) {
		if err != nil {
			f.T.Fatalf("%d records of %s: %v", n, callID, err)
		}
		if n++; r.Event == audit.ToolExecuted {
			break
		}
	}
	if n != 3 { // requested, allowed and executed
		f.T.Errorf("%d records of %s", n, callID)
	}
}
