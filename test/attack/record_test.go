package attack

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/bus"
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

// many publishes n calls and waits until each is answered.
func (f recordFlood) many(n int) {
	f.d.Helper()
	for i := range n {
		word := fmt.Sprintf("flood%d", i)
		header := rawHeader("Tb-Token: "+f.token, "Tb-Answer: "+word, "Content-Type: application/json", "Tb-Patient: 1")
		f.d.ok(f.publish("tb.call.evil."+inSubject(mallory)+".echo", f.answers+word, header,
			rawRequest("echo", mallory, uuid.NewString(), "", uuid.NewString())))
	}
	for i := range n {
		_, err := f.await(func(m rawMsg) bool { return m.subject == f.answers+fmt.Sprintf("flood%d", i) })
		f.d.ok(err)
	}
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
	id, key := uuid.NewString(), uuid.NewString()
	if got := f.call("echo", id, key); !strings.Contains(got, `"status":"success"`) {
		t.Fatal(got)
	}
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
	d.refused("a replay", f.call("echo", uuid.NewString(), key), "R-CAP-AUDIT")
	if got := f.call("echo", id, key); !strings.Contains(got, `"status":"success"`) {
		t.Errorf("the outcome of its own call: %.600s", got)
	}
	d.bystander()
	d.dispatcher(d.url, toolbus.DispatcherOptions{})
	d.bystander()
	close(d.gate("in")) // of the call of hold
	d.finish()
}
