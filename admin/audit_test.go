package admin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// A filter selects the records of a tenant, in all forms that builds have written.
func TestAuditOfTenants(t *testing.T) {
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []string{"acme", "other"} {
		for _, subject := range []string{
			subjects.Partition(1).Audit(tenant), subjects.JournalSubject("p", tenant), subjects.Denied("p", tenant),
		} {
			record := audit.Record{Event: audit.ToolDenied, Timestamp: time.Now().UTC(), Tenant: tenant}
			lines, err := audit.SplitSegments([]audit.Record{record}, audit.MaxSegment)
			if err != nil {
				t.Fatal(err)
			}
			data, _, err := lines[0].Seal(audit.Segment{Source: audit.SourceProcess, K: 1, N: 1})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := js.Publish(t.Context(), subject, data); err != nil {
				t.Fatal(err)
			}
		}
	}
	client, err := admin.Connect(t.Context(), srv.URL, admin.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for tenant, want := range map[string]int{"acme": 3, "other": 3, "": 6} {
		read := 0
		for r, err := range client.AuditRecords(t.Context(), admin.AuditFilter{Tenant: tenant}) {
			if err != nil || tenant != "" && r.Tenant != tenant || !strings.Contains(string(r.JSON), `"tenant":"`+r.Tenant+`"`) {
				t.Errorf("%+v, %v", r, err)
			}
			read++
		}
		if read != want {
			t.Errorf("%q: %d records", tenant, read)
		}
	}
}
