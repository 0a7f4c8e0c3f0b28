package health

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// doctor warns while the record of the last day lacks something: AUDIT is full and has dropped records, or it was
// deleted.
func TestShortRecord(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	ensure := func(r bus.Retention) {
		t.Helper()
		if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{Retention: r}); err != nil {
			t.Fatal(err)
		}
	}
	checked := func(at time.Time, says string) {
		t.Helper()
		want := envelope.CheckOK
		if says != "" {
			want = envelope.CheckWarning
		}
		if c := diagnoseRecord(t.Context(), js, at); c.Status != want || !strings.Contains(c.Says, says) {
			t.Errorf("%s: %+v", says, c)
		}
	}
	publish := func(subject string, n, bytes int) {
		t.Helper()
		for range n {
			if _, err := js.Publish(t.Context(), subject, make([]byte, bytes)); err != nil {
				t.Fatal(err)
			}
		}
	}
	ensure(bus.Retention{AuditBytes: 1 << 20})
	audit := subjects.Partition(0).Audit("t")
	publish(audit, 9, 100<<10)
	checked(time.Now(), "") // nearly full, with its first record
	publish(audit, 9, 100<<10)
	publish(subjects.Partition(1).Audit("other"), 1, 100)
	checked(time.Now().Add(time.Hour), "AUDIT is full, and drops its oldest records; most of it is about the tenant t")
	checked(time.Now().Add(25*time.Hour), "")

	publish(subjects.Key{Tool: "echo", ID: "id"}.Claim(1, "e"), 1, 1)
	if err := js.DeleteStream(t.Context(), subjects.AuditStream); err != nil {
		t.Fatal(err)
	}
	ensure(bus.Retention{})
	checked(time.Now(), "created again")
	checked(time.Now().Add(25*time.Hour), "")
}

// doctor fails where an AUDIT that drops nothing is half full of the records of one tenant, whose calls are refused.
// Where it has records of several tenants, doctor warns.
func TestRefusingRecord(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	r := bus.Retention{AuditBytes: 1 << 20, AuditFull: bus.Refuse}
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{Retention: r}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tenant   string
		segments int
		want     envelope.CheckStatus
		says     string
	}{
		{"t", 4, envelope.CheckOK, "up to date"},
		{"t", 2, envelope.CheckFailed, "calls of the tenant t are refused with R-CAP-AUDIT"},
		{"other", 1, envelope.CheckWarning, "most of it is about the tenant t"},
	} {
		for range c.segments {
			if _, err := js.Publish(t.Context(), subjects.Partition(0).Audit(c.tenant), make([]byte, 100<<10)); err != nil {
				t.Fatal(err)
			}
		}
		if found := diagnoseRecord(t.Context(), js, time.Now()); found.Status != c.want ||
			!strings.Contains(found.Says, c.says) {
			t.Errorf("%s: %+v", c.says, found)
		}
	}
}
