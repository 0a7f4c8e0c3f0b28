package main

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// The audit record is printed in order of time, whatever order it was written in.
func TestAuditInTimeOrder(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	guest := s.insider()
	ids := []string{
		"11111111-0000-4000-8000-000000000000", "22222222-0000-4000-8000-000000000000",
		"33333333-0000-4000-8000-000000000000",
	}
	for _, i := range []int{2, 0, 1} {
		lines, err := audit.SplitSegments([]audit.Record{{
			Event: audit.ToolDenied, Timestamp: time.Now().Add(time.Duration(i-10) * time.Second), CallID: ids[i],
			Tenant: "default", Actor: "agent://a", ToolName: "play",
			Code: envelope.CodeSchema, Status: envelope.InvalidRequest, Effect: envelope.EffectNone,
		}}, audit.MaxSegment)
		if err != nil {
			t.Fatal(err)
		}
		data, _, err := lines[0].Seal(audit.Segment{Source: audit.SourceRefusal, K: 1, N: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := guest.JS.Publish(t.Context(), subjects.Denied("x", "default"), data); err != nil {
			t.Fatal(err)
		}
	}
	for _, flag := range []string{"", "--json"} {
		_, stdout, stderr := s.do(strings.Fields("audit replay " + flag)...)
		var at []int
		for _, id := range ids {
			at = append(at, strings.Index(stdout, id[:8]))
		}
		if at[0] < 0 || at[1] < at[0] || at[2] < at[1] {
			t.Errorf("%s: %s%s", flag, stdout, stderr)
		}
	}
	_, stdout, _ := s.do("audit", "replay", "--call", ids[1][:8])
	if strings.Count(stdout, "tool_denied") != 1 || !strings.Contains(stdout, "  22222222  ") {
		t.Errorf("by the beginning of its call id: %s", stdout)
	}
}

// Without a matching record, the text output says so, and the JSON output is empty.
func TestAuditWithoutRecords(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	code, stdout, stderr := s.do("audit", "replay", "--tool", "none")
	if code != 0 || stdout != "" || !strings.Contains(stderr, "no record matches") {
		t.Errorf("exit %d: %s%s", code, stdout, stderr)
	}
	if code, stdout, stderr := s.do("audit", "replay", "--tool", "none", "--json"); code != 0 || stdout+stderr != "" {
		t.Errorf("as JSON: exit %d: %s%s", code, stdout, stderr)
	}
}

// On a terminal, times are in the local zone, which the header names. Otherwise they are in UTC, and JSON is printed as
// stored.
func TestAuditTimes(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	guest := s.insider()
	lines, err := audit.SplitSegments([]audit.Record{{
		Event: audit.ToolDenied, Timestamp: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), Tenant: "default",
	}}, audit.MaxSegment)
	if err != nil {
		t.Fatal(err)
	}
	data, _, err := lines[0].Seal(audit.Segment{Source: audit.SourceRefusal, K: 1, N: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := guest.JS.Publish(t.Context(), subjects.Denied("x", "default"), data); err != nil {
		t.Fatal(err)
	}
	_, stored, _ := strings.Cut(string(data), "\n")
	zone := time.FixedZone("somewhere", -(3*60+30)*60)
	for line, want := range map[string]struct{ terminal, elsewhere string }{
		"audit replay":        {"TIME -03:30  ", "TIME UTC  "},
		"audit replay --json": {stored, stored},
	} {
		for terminal, want := range map[bool]string{true: want.terminal, false: want.elsewhere} {
			var out strings.Builder
			env := environment{url: s.url, home: s.home, stdout: &out, stderr: io.Discard, terminal: terminal, zone: zone}
			code := run(t.Context(), env, strings.Fields(line))
			if code != 0 || !strings.HasPrefix(out.String(), want) {
				t.Errorf("%s, terminal %t: exit %d: %s", line, terminal, code, out.String())
			}
			if local := strings.Contains(out.String(), "2026-11-22 08:30:00.000  "); local != (terminal && want != stored) {
				t.Errorf("%s, terminal %t: %s", line, terminal, out.String())
			}
		}
	}
}

// ofCredentials is the index of the first credential event. Credential events belong to no call.
var ofCredentials = slices.Index(audit.Events(), audit.CredentialIssued)

// withoutOutcome are events of a call whose records have no error code.
var withoutOutcome = []audit.Event{
	audit.Skipped, audit.WriteViolation, audit.ApprovalRequested, audit.ApprovalGranted, audit.ApprovalDenied,
}

// A row fits into 120 columns, whatever became of the call.
func TestAuditRows(t *testing.T) {
	var out strings.Builder
	g := newGlobal(&environment{stdout: &out, stderr: io.Discard})
	for _, row := range envelope.Codes() {
		for _, event := range audit.Events() {
			r := audit.Record{
				Form:  2,
				Event: event, Timestamp: time.Date(2026, 11, 22, 13, 0, 0, 0, time.FixedZone("x", 3600)), Tenant: "acme",
				ToolName: "transcript.clean", Attempt: 5, CallID: "11111111-0000-4000-8000-000000000000",
				Status: row.Status, Code: row.Code, Effect: envelope.EffectApplied,
			}
			if event == audit.ToolDenied {
				r.Attempt, r.Tenant, r.Step, r.Rule = 0, "default", 5, "registered"
				r.Code, r.Effect = envelope.CodeToolDisabled, envelope.EffectNone
			}
			switch {
			case slices.Contains(audit.Events()[ofCredentials:], event):
				r = audit.Credential{}.About(event, r.Tenant, "agent://a", "", "", r.Timestamp)
			case slices.Contains(withoutOutcome, event):
				r.Status, r.Code, r.Effect = "", "", ""
			}
			if err := printRecord(g, &out, time.UTC, &reader.Line{Record: r}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for line := range strings.Lines(out.String()) {
		n := utf8.RuneCountInString(strings.TrimSpace(line))
		if n > 120 || !strings.HasPrefix(line, "2026-11-22 12:00:00.000  ") {
			t.Fatalf("%d columns: %s", n, line)
		}
	}
}

// A row names the entry that a dispatcher has restored.
func TestAuditRowOfRestore(t *testing.T) {
	var out strings.Builder
	g := newGlobal(&environment{stdout: &out, stderr: io.Discard})
	e := audit.RestoredEntry{Stream: subjects.ControlStream, Entry: subjects.Locks, Reason: "missing"}
	r := audit.EntryRestored("default", "d-1", "id", e, time.Now())
	if err := printRecord(g, &out, time.UTC, &reader.Line{Record: r}); err != nil ||
		!strings.Contains(out.String(), "  policy_applied ") ||
		!strings.HasSuffix(out.String(), "  restored "+subjects.Locks+"\n") {
		t.Errorf("%s, %v", out.String(), err)
	}
}

// If the audit record is behind the calls, replay prints what exists, and its exit code is 1.
func TestAuditBehind(t *testing.T) {
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	log, err := kv.OpenLog(t.Context(), js, kv.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	v := call.Admit(call.State{}, call.AdmitRequest{
		Owner:       call.Owner{CallID: "11111111-0000-4000-8000-000000000000", Actor: "agent"},
		Fingerprint: "fp", Nonce: "n", Priority: envelope.PriorityNormal,
		Pinned: call.Pinned{
			Tenant: "default", Tool: "play", ID: "id", Version: "1.0.0", Class: call.Pure, Pool: "default", Fingerprint: "fp",
		},
		Deadline: call.At(now.Add(time.Minute)), Now: call.At(now),
	})
	if _, err := log.Write(t.Context(), v.Event, []byte(`{"request":{}}`)); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := shell{t: t, url: srv.URL}.do("audit", "replay")
	if code != 1 || !strings.Contains(stderr, "behind the calls") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
