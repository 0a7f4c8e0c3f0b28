package attack

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/audit/writer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// recordFlood is a connection of mallory, whose calls fill the audit record.
type recordFlood struct {
	*raw
	answers string
}

func (d *devDeployment) recordFlood() recordFlood {
	d.Helper()
	answers := answersOf("evil", mallory)
	return recordFlood{d.as(d.crowd[mallory].token, answers), answers}
}

// call makes a call of a tool and returns the answer.
func (f recordFlood) call(tool, id, key string) string {
	return f.say("tb.call.evil."+inSubject(mallory)+"."+tool, f.token, f.answers, rawRequest(tool, mallory, id, "", key))
}

// done makes a call of echo and waits for its outcome. The first answer may say that it was admitted.
func (f recordFlood) done(id string) {
	f.d.Helper()
	got := ""
	for end := time.Now().Add(rawTime); !strings.Contains(got, `"status":"success"`); got = f.call("echo", id, id) {
		if time.Now().After(end) {
			f.d.Fatal(got)
		}
	}
}

// many publishes n calls and waits until each is answered.
func (f recordFlood) many(n int) {
	f.d.Helper()
	f.mu.Lock()
	f.messages = nil
	f.mu.Unlock()
	for range n {
		f.words++
		word := fmt.Sprintf("flood%d", f.words)
		header := rawHeader("Tb-Token: "+f.token, "Tb-Answer: "+word, "Content-Type: application/json", "Tb-Patient: 1")
		f.d.ok(f.publish("tb.call.evil."+inSubject(mallory)+".echo", f.answers+word, header,
			rawRequest("echo", mallory, uuid.NewString(), "", uuid.NewString())))
	}
	f.d.ok(f.until(func() bool { return len(f.messages) >= n }))
}

// S13: the calls of one tenant fill the audit record, which may forget nothing. Once it is half full, that tenant is
// refused, with what it keeps; the others, and a dispatcher that starts then, go on. It gets the outcomes of its own
// calls, and joins and replays nothing, for that is recorded, too.
func TestRecordFull(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.ok(bus.Ensure(t.Context(), d.js, bus.TopologyOptions{
		Retention: bus.Retention{AuditBytes: 1 << 20, AuditFull: bus.Refuse},
	}))
	f := d.recordFlood()
	id := uuid.NewString()
	f.done(id)
	open := uuid.NewString()
	if got := f.call("hold", open, open); !strings.Contains(got, `"ref"`) {
		t.Fatal(got)
	}
	f.many(300)
	got := ""
	for end := time.Now().Add(rawTime); !strings.Contains(got, "R-CAP-AUDIT") && time.Now().Before(end); {
		got = f.call("echo", uuid.NewString(), uuid.NewString())
	}
	d.refused("a further call", got, "R-CAP-AUDIT")
	if !strings.Contains(got, "of 262144 that it may") {
		t.Errorf("the refusal does not say why: %.600s", got)
	}
	d.refused("a join", f.call("hold", uuid.NewString(), open), "R-CAP-AUDIT")
	d.refused("a replay", f.call("echo", uuid.NewString(), id), "R-CAP-AUDIT")
	f.done(id) // it gets the outcome of its own call
	d.bystander()
	d.dispatcher(d.url, toolbus.DispatcherOptions{})
	d.bystander()
	close(d.gate("in")) // of the call of hold
	d.finish()
}

// filled makes a record of 64 MiB that is nearly full of earlier records of mallory's tenant, and waits until a
// dispatcher has counted them.
func (f recordFlood) filled() {
	f.d.Helper()
	f.d.ok(bus.Ensure(f.d.Context(), f.d.js, bus.TopologyOptions{Retention: bus.Retention{AuditBytes: 64 << 20}}))
	f.d.bystander() // the oldest records are of others
	f.d.ok(writer.WaitRecorded(f.d.Context(), f.d.js))
	for range 116 {
		_, err := f.d.js.Publish(f.d.Context(), subjects.JournalSubject("other", "evil"), make([]byte, 512<<10))
		f.d.ok(err)
	}
	for end := time.Now().Add(rawTime); f.d.surplus() == 0; {
		if f.many(50); time.Now().After(end) {
			f.d.Fatal("no records go to SURPLUS")
		}
	}
}

// surplus returns the number of messages in SURPLUS.
func (d *devDeployment) surplus() uint64 {
	d.Helper()
	s, err := d.js.Stream(d.Context(), subjects.SurplusStream)
	d.ok(err)
	return s.CachedInfo().State.Msgs
}

// found returns how many records an auditor of all tenants finds, by actor.
func (d *devDeployment) found(f reader.Filter) map[string]int {
	d.Helper()
	p := d.crowd[auditorOfAll]
	inbox := subjects.Owner{Tenant: p.Tenant, Actor: p.Actor}.Inbox()
	nc, err := d.dial(p.token, auditorOfAll, nats.CustomInboxPrefix(inbox))
	d.ok(err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	d.ok(err)
	from, done, err := reader.OpenAs(d.Context(), js, p.Tenant, p.Actor, func() string { return p.token })
	d.ok(err)
	defer done()
	d.ok(from.WaitRecorded(d.Context()))
	found := map[string]int{}
	for r, err := range reader.Replay(d.Context(), from, f) {
		d.ok(err)
		found[r.Actor]++
	}
	return found
}

// S13: the calls of one tenant go on when the audit record, which forgets its oldest, is full. The record of the other
// tenants stays whole, and an auditor finds what that tenant has called.
func TestRecordFlood(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	f := d.recordFlood()
	f.filled()
	for range 16 {
		f.many(500)
		d.bystander()
	}
	if n := d.found(reader.Filter{Event: audit.ToolRequested})[alice]; n != 35 { // with the one that runs
		t.Errorf("%d calls of the other tenant are on record, want 35", n)
	}
	id := uuid.NewString()
	f.done(id)
	if n := d.found(reader.Filter{Call: id})[mallory]; n != 3 {
		t.Errorf("%d records of the newest call, want 3", n)
	}
	d.finish()
}
