package writer_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/audit/writer"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Two projectors of the same log record each event once and in order, also if one restarts.
func TestTwoProjectors(t *testing.T) {
	f := setup(t)
	stop := bustest.Run(t, f.project)
	bustest.Run(t, f.project)
	const calls = 400
	for n := range calls {
		f.Decide(f.Admit(n, envelope.PriorityNormal))
		if n == calls/2 {
			stop()
			bustest.Run(t, f.project)
		}
	}
	var last uint64
	seen := map[string]audit.Event{}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for r, err := range reader.Replay(ctx, reader.Streams(f.JS), reader.Filter{Follow: true}) {
		if err != nil {
			t.Fatalf("%v after %d records", err, len(seen))
		}
		if r.LogSeq <= last && r.FirstOfEvent() || !r.FirstOfEvent() && r.LogSeq != last {
			t.Fatalf("%s of %d after %d", r.Event, r.LogSeq, last)
		}
		last = r.LogSeq
		if before := seen[r.CallID]; (before == "") != (r.Event == audit.ToolRequested) {
			t.Fatalf("%s: %s after %q", r.CallID, r.Event, before)
		}
		if seen[r.CallID] = r.Event; last == 2*calls {
			break
		}
	}
	if len(seen) != calls {
		t.Errorf("%d calls on record", len(seen))
	}
}

// A segment whose acknowledgement is lost is sent again. The first attempt goes to a responder that does not answer.
func TestGateAfterLostAck(t *testing.T) {
	f := setup(t)
	if err := f.JS.DeleteStream(t.Context(), subjects.AuditStream); err != nil {
		t.Fatal(err)
	}
	heard := make(chan struct{}, 100)
	deaf, err := f.NC.Subscribe("tb.audit.>", func(*nats.Msg) { heard <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	if err := f.NC.Flush(); err != nil {
		t.Fatal(err)
	}
	journal := writer.NewJournal(f.JS, "process", time.Now, func() string { return "n" }, nil)
	bustest.Run(t, journal.Run)
	state := call.State{Pinned: call.Pinned{Tenant: "t", Tool: "echo"}, Attempts: []call.Attempt{{N: 1, Admitted: 7}}}
	stored := make(chan error, 1)
	go func() {
		stored <- journal.Shared(t.Context(), state, 1, []call.Owner{{CallID: "a"}, {CallID: "b"}, {CallID: "c"}})
	}()
	<-heard
	if err := deaf.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	if err := bus.Ensure(t.Context(), f.JS, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := <-stored; err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range reader.Replay(t.Context(), reader.Streams(f.JS), reader.Filter{}) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 3 {
		t.Errorf("%d records", n)
	}
}
