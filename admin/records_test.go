package admin_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// caller returns a client of an agent.
func (s *stage) caller(t *testing.T, name string) *toolbus.Client {
	t.Helper()
	file, err := s.credentials(name, auth.Principal{Actor: "agent://" + name, Role: auth.Agent})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.client(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A filter selects records by their members, and Last the newest of them.
func TestAuditFilters(t *testing.T) {
	s := onStage(t)
	start := time.Now().Add(-time.Minute)
	bob, eve := s.caller(t, "bob"), s.caller(t, "eve")
	if err := errors.Join(greets(t, bob), greets(t, eve)); err != nil {
		t.Fatal(err)
	}
	_, err := toolbus.Invoke[string](t.Context(), eve, toolbus.Call{Tool: "greet", Retry: once()}, "nobody")
	if toolbus.CodeOf(err) != envelope.CodeToolFault {
		t.Fatal(err)
	}
	operator := s.admin(t, s.operator)
	read := func(f admin.AuditFilter) (all []admin.AuditRecord) {
		t.Helper()
		for r, err := range operator.AuditRecords(t.Context(), f) {
			if err != nil {
				t.Fatalf("%+v: %v", f, err)
			}
			all = append(all, r)
		}
		return all
	}
	eventually(t, "all ends are on record", func() bool { return len(read(admin.AuditFilter{Tool: "greet"})) == 9 })
	last := read(admin.AuditFilter{Tool: "greet", Last: 1})
	if len(last) != 1 {
		t.Fatalf("%+v", last)
	}
	if r := last[0]; r.Event != "tool_failed" || r.Actor != "agent://eve" || r.Status != toolbus.RetryableError ||
		r.Code != envelope.CodeToolFault || r.Function != "run" || r.Attempt != 1 || r.Ref == "" || r.CallID == "" ||
		r.ArgumentsHash == "" || r.DecidedBy != "executor" || !strings.Contains(string(r.JSON), r.CallID) {
		t.Errorf("%+v", r)
	}
	for want, filters := range map[int][]admin.AuditFilter{
		0: {{Tool: "other"}, {Actor: "agent://ann"}, {Tool: "greet", Until: start}, {Run: "r"}, {Lane: "l"}, {Role: "r"}},
		1: {{Status: toolbus.RetryableError}, {Code: envelope.CodeToolFault}, {Actor: "agent://bob", Event: "tool_executed"}},
		2: {{Status: toolbus.Success}, {Tool: "greet", Last: 2}},
		3: {{Event: "tool_requested", Since: start}, {Event: "tool_allowed"}, {Actor: "agent://bob", Tool: "greet"},
			{Call: last[0].Ref}, {Call: last[0].CallID[:8]}},
		9: {{Tool: "greet", Since: start, Tenant: toolbus.DefaultTenant}},
	} {
		for _, f := range filters {
			if got := read(f); len(got) != want {
				t.Errorf("%+v: %d records, want %d", f, len(got), want)
			}
		}
	}
}

// A filter that no record can pass is an error, which ends the records.
func TestAuditFilterIsRefused(t *testing.T) {
	s := onStage(t)
	operator, seen := s.admin(t, s.operator), 0
	for r, err := range operator.AuditRecords(t.Context(), admin.AuditFilter{Event: "tool_invented"}) {
		if seen++; err == nil || !strings.Contains(err.Error(), `did you mean "tool_denied"?`) {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if seen != 1 {
		t.Errorf("%d elements", seen)
	}
}

// With Follow the records of later calls come, too, until the context ends, which is no error.
func TestAuditFollow(t *testing.T) {
	s := onStage(t)
	bob := s.caller(t, "bob")
	if err := greets(t, bob); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	executed := 0
	follow := admin.AuditFilter{Event: "tool_executed", Follow: true}
	for r, err := range s.admin(t, s.operator).AuditRecords(ctx, follow) {
		if err != nil {
			t.Fatalf("%+v, %v", r, err)
		}
		if executed++; executed == 2 {
			cancel()
			continue
		}
		if err := greets(t, bob); err != nil {
			t.Fatal(err)
		}
	}
	if executed != 2 {
		t.Errorf("%d records", executed)
	}
}

// A dead letter says what was called. It is called again once for each word.
func TestDeadLetter(t *testing.T) {
	s := onStage(t)
	if err := s.giveUp("Ada"); err != nil {
		t.Fatal(err)
	}
	operator := s.admin(t, s.operator)
	letters, err := operator.DeadLetters(t.Context())
	if err != nil || len(letters) != 1 {
		t.Fatalf("%+v, %v", letters, err)
	}
	if l := letters[0]; l.Seq != 1 || l.Tool != "greet" || l.CallID != "00000000-0000-4000-8000-000000000001" ||
		!strings.HasPrefix(l.Ref, "greet.") || l.Attempt != 1 || l.Deliveries != 5 || l.Cause.Code != envelope.CodeLost ||
		l.Tenant != toolbus.DefaultTenant || time.Since(l.Time).Abs() > time.Minute {
		t.Errorf("%+v", l)
	}
	retry := func(again string) *toolbus.Response {
		t.Helper()
		resp, err := operator.RetryDeadLetter(t.Context(), letters[0].Seq, again)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Status != toolbus.Success || string(resp.Output) != `"hello Ada"` {
			t.Errorf("%+v", resp)
		}
		return resp
	}
	first := retry("")
	if same := retry(""); same.Provenance.AuditEventID != first.Provenance.AuditEventID {
		t.Errorf("the same retry made another call: %+v, %+v", first.Provenance, same.Provenance)
	}
	if other := retry("again"); other.Provenance.AuditEventID == first.Provenance.AuditEventID {
		t.Errorf("another word made no further call: %+v", other.Provenance)
	}
}
