package reader_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/audit/writer"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/kv"
)

// fixture is a bus with helpers for these tests.
type fixture struct{ *bustest.Bus }

func setup(t *testing.T) *fixture {
	t.Helper()
	return &fixture{bustest.Start(t)}
}

// archives returns the Sources by name: Streams, DirectGets, and ViaDispatcher with an Asker that answers like a
// dispatcher.
func (f *fixture) archives() map[string]reader.Source {
	f.T.Helper()
	f.Serve(rpc.NewEndpoint(operation.Stored, func(ctx context.Context, _ call.Sender,
		q envelope.StreamReadRequest) (envelope.StreamReadResponse, *envelope.Error) {
		page, err := reader.ServePage(ctx, f.JS, q)
		if err != nil {
			return page, envelope.NewError(envelope.CodeUnavailable, err.Error())
		}
		page.Now = time.Now()
		return page, nil
	}))
	inbox, err := rpc.NewInbox(f.NC, "default", "agent://auditor")
	if err != nil {
		f.T.Fatal(err)
	}
	f.T.Cleanup(func() { _ = inbox.Close() })
	if err := bus.Ensure(f.T.Context(), f.JS, bus.TopologyOptions{DirectRecord: true}); err != nil {
		f.T.Fatal(err)
	}
	return map[string]reader.Source{
		"direct": reader.Streams(f.JS), "through": reader.ViaDispatcher(inbox), "copies": reader.DirectGets(f.JS, inbox),
	}
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
