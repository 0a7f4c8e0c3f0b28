package blackbox

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/audit/writer"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// fill uses up what room the record has, until it takes no more, or has forgotten something.
func fill(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	for size := 64 << 10; size > 0; {
		_, err := js.Publish(t.Context(), subjects.JournalSubject("other", "t"), make([]byte, size))
		if err != nil {
			size /= 4
		}
		if stored(t, js, subjects.AuditStream).FirstSeq > 1 {
			return
		}
	}
}

// A record that has no more room forgets its oldest segments, or, where an operator says so, none, and calls are
// refused until there is room.
func TestRecordAtItsLimit(t *testing.T) {
	for full, stops := range map[bus.FullPolicy]bool{bus.DropOldest: false, bus.Refuse: true} {
		t.Run(string(full), func(t *testing.T) {
			var runs atomic.Int64
			d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
			d.topology = bus.TopologyOptions{Partitions: 1,
				Retention: bus.Retention{AuditBytes: 1 << 20, AuditFull: full}}
			d.run("dispatcher", func(ctx context.Context, c *app.Conn, ready func()) error {
				return app.RunDispatcher(ctx, c, app.DispatcherOptions{
					AllowAll: true, Tools: d.registry, Version: "0.0.1", AuditLag: time.Second, Ready: ready,
				})
			})
			d.executor(1)
			c, js := d.client(), d.srv.JetStream(t)
			ask := func() *envelope.Response {
				return mustCall(t, c, clientlib.Call{Tool: "echo", Key: uuid.NewString(), Timeout: 20 * time.Second,
					Retry: &envelope.RetryPolicy{MaxAttempts: 1}})
			}
			wantStatus(t, ask(), envelope.Success, "")
			if err := writer.WaitRecorded(t.Context(), js); err != nil {
				t.Fatal(err)
			}
			fill(t, js)
			r := ask()
			for begun := time.Now(); stops && r.Error == nil && time.Since(begun) < 20*time.Second; r = ask() {
			}
			if !stops {
				wantStatus(t, r, envelope.Success, "")
				if err := writer.WaitRecorded(t.Context(), js); err != nil {
					t.Error(err)
				}
				return
			}
			wantStatus(t, r, envelope.RetryableError, envelope.CodeAuditLag)
			if first := stored(t, js, subjects.AuditStream).FirstSeq; first != 1 || r.Provenance.AuditEventID == "" {
				t.Errorf("the record begins at %d, and the refusal is on record as %q", first, r.Provenance.AuditEventID)
			}
			d.topology.Retention.AuditBytes = 1 << 30
			if err := bus.Ensure(t.Context(), js, d.topology); err != nil {
				t.Fatal(err)
			}
			if err := writer.WaitRecorded(t.Context(), js); err != nil {
				t.Fatal(err)
			}
			// The dispatcher looks at the lag from time to time, and may refuse once more; the client asks again as it
			// is told.
			wantStatus(t, mustCall(t, c, clientlib.Call{Tool: "echo", Key: uuid.NewString(), Timeout: 20 * time.Second}),
				envelope.Success, "")
		})
	}
}
