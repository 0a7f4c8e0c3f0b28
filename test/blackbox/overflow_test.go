package blackbox

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/kv"
)

// story returns what is on record of a call now.
func (d *busDeployment) story(callID string) (events []audit.Event) {
	d.t.Helper()
	for r, err := range reader.Replay(d.t.Context(), reader.Streams(d.srv.JetStream(d.t)), reader.Filter{Call: callID}) {
		if err != nil {
			d.t.Fatal(err)
		}
		events = append(events, r.Event)
	}
	return events
}

// A dispatcher that is stopped just after a call leaves nothing behind that is not on record.
func TestStopsWithAllOnRecord(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	p := d.dispatcher()
	d.executor(6)
	r := mustCall(t, d.client(), clientlib.Call{Tool: "echo"})
	wantStatus(t, r, envelope.Success, "")
	p.stop()
	if got := d.story(r.CallID); !executed(got) {
		t.Errorf("on record is %v", got)
	}
}

// unattended admits a call while there is no dispatcher, as one that has just died may have.
func (d *busDeployment) unattended(c *app.Conn) {
	d.t.Helper()
	log, err := kv.OpenLog(d.t.Context(), c.JS, kv.LogOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
	now := time.Now()
	v := call.Admit(call.State{}, call.AdmitRequest{
		Owner: call.Owner{CallID: "c", Actor: "agent"}, Fingerprint: "fp", Priority: envelope.PriorityNormal,
		Nonce: c.NewNonce(),
		Pinned: call.Pinned{Tenant: "t", Tool: "echo", ID: "unattended", Version: "1.0.0", Class: call.Pure,
			Pool: "elsewhere", Fingerprint: "fp"},
		Deadline: call.At(now.Add(time.Minute)), Now: call.At(now),
	})
	if _, err := log.Write(d.t.Context(), v.Event, []byte(`{"request":{}}`)); err != nil {
		d.t.Fatal(err)
	}
}

// A dispatcher that finds a call which nobody has put on record for longer than the record may be behind, because
// nobody was there, serves at once.
func TestServesAtOnceAfterAnAbsence(t *testing.T) {
	const lag = time.Second // more than a batch waits for records
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	before := d.dispatcher() // of which the executor learns what the bus is like
	e := d.executor(6)
	before.stop()
	d.unattended(e.conn)
	<-time.After(lag + lag/2)
	d.run("dispatcher", func(ctx context.Context, c *app.Conn, ready func()) error {
		return app.RunDispatcher(ctx, c, app.DispatcherOptions{
			AllowAll: true, Tools: d.registry, Version: "0.0.1", AuditLag: lag, Ready: ready,
		})
	})
	c := d.client()
	for ready := time.Now(); time.Since(ready) < lag; {
		r := mustCall(t, c, clientlib.Call{Tool: "echo", Input: input(map[string]int64{"n": runs.Load()}),
			Retry: &envelope.RetryPolicy{MaxAttempts: 1}})
		wantStatus(t, r, envelope.Success, "")
	}
}
