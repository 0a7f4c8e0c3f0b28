package blackbox

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/audit/writer"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// flood asks for a version that there is not, n times, and returns what was said. halfway is called when half of it is
// done.
func flood(t *testing.T, c *clientlib.Client, n int, halfway func()) []*envelope.Response {
	t.Helper()
	var asking sync.WaitGroup
	var next atomic.Int64
	answers := make([]*envelope.Response, n)
	for range 64 {
		asking.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if i == int64(n/2) {
					halfway()
				}
				r, err := c.Call(t.Context(), clientlib.Call{
					Tool: "echo", Version: "9.x", Key: uuid.NewString(), Timeout: time.Minute,
				})
				if err != nil {
					t.Error(err)
					return
				}
				answers[i] = r
			}
		})
	}
	asking.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return answers
}

// stored is what a stream holds.
func stored(t *testing.T, js jetstream.JetStream, name string) jetstream.StreamState {
	t.Helper()
	stream, err := js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State
}

// In a flood of refusals every caller's answer names a record that is there, also while a dispatcher is killed; the
// record is small, and that of the calls is left alone.
func TestFloodOfRefusals(t *testing.T) {
	t.Parallel()
	const refusals = 3000
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	kept := d.dispatcher()
	dying := d.open("dying")
	serving := make(chan struct{})
	bustest.Run(t, func(ctx context.Context) {
		_ = app.RunDispatcher(ctx, dying, app.DispatcherOptions{
			AllowAll: true, Tools: d.registry, Version: "0.0.1", Ready: func() { close(serving) },
		}) // it is cut off
	})
	<-serving
	d.executor(1)
	c, js := d.client(), d.srv.JetStream(t)
	mustCall(t, c, clientlib.Call{Tool: "echo", Key: uuid.NewString(), Timeout: 20 * time.Second})
	if err := writer.WaitRecorded(t.Context(), js); err != nil {
		t.Fatal(err)
	}
	before := stored(t, js, subjects.AuditStream)
	answers := flood(t, c, refusals, dying.NC.Close)
	kept.stop()
	if after := stored(t, js, subjects.AuditStream); after.LastSeq != before.LastSeq || after.Bytes != before.Bytes {
		t.Errorf("the record of calls has %d more segments", after.LastSeq-before.LastSeq)
	}
	named := map[string]uint64{}
	for _, r := range answers {
		wantStatus(t, r, envelope.TerminalError, envelope.CodeVersion)
		named[r.Provenance.AuditEventID]++
	}
	on := map[string]audit.Record{}
	closed := map[string]uint64{}
	for r, err := range reader.Replay(context.WithoutCancel(t.Context()), reader.Streams(js),
		reader.Filter{Event: audit.ToolDenied}) {
		if err != nil {
			t.Fatal(err)
		}
		on[r.EventID] = r
		if r.Count != nil && r.Count.State == audit.CountClosed {
			closed[r.Count.Opening] = r.Count.Denials
		}
		again := r.Code == envelope.CodeUnavailable // a busy dispatcher does not know the policy; the client asks again
		if r.Tenant == "" || r.Actor == "" || r.ToolName != "echo" || r.ArgumentsHash == "" || r.Contract == "" ||
			r.Timestamp.IsZero() || r.CallID == "" || r.Code != envelope.CodeVersion && !again {
			t.Fatalf("not all of a refusal is on record: %+v", r)
		}
	}
	counted := 0
	for id, n := range named {
		r, ok := on[id]
		switch {
		case !ok:
			t.Errorf("%d answers name the record %q, which is not there", n, id)
		case r.Count == nil && n != 1, r.Count != nil && r.Count.State != audit.CountOpened:
			t.Errorf("%d answers name %+v", n, r)
		case r.Count != nil:
			counted += int(n)
			if all, ok := closed[id]; ok && all < n {
				t.Errorf("%d answers name a count of %d", n, all)
			}
		}
	}
	if len(closed) == 0 || counted < refusals/2 {
		t.Errorf("%d answers are counted, and %d counts closed", counted, len(closed))
	}
}
