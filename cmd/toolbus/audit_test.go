package main

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
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
	if strings.Count(stdout, "tool_denied") != 1 || !strings.Contains(stdout, " 22222222\n") {
		t.Errorf("by the beginning of its call id: %s", stdout)
	}
	if code, _, stderr := s.do("audit", "replay", "--call", ids[1][:7]); code != 2 ||
		!strings.Contains(stderr, "8 characters or more") {
		t.Errorf("by too little of its call id: exit %d, %s", code, stderr)
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
		"audit replay":        {"2026 -03:30  ", "2026 UTC  "},
		"audit replay --json": {stored, stored},
	} {
		for terminal, want := range map[bool]string{true: want.terminal, false: want.elsewhere} {
			var out strings.Builder
			env := environment{url: s.url, home: s.home, stdout: &out, stderr: io.Discard, terminal: terminal, zone: zone}
			code := run(t.Context(), env, strings.Fields(line))
			if code != 0 || !strings.HasPrefix(out.String(), want) {
				t.Errorf("%s, terminal %t: exit %d: %s", line, terminal, code, out.String())
			}
			if local := strings.Contains(out.String(), "11-22 08:30:00 "); local != (terminal && want != stored) {
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

// auditRows returns the table of a record.
func auditRows(t *testing.T, r audit.Record) string {
	t.Helper()
	var out strings.Builder
	table := auditTable{to: &out, zone: time.UTC, tenant: "default"}
	if err := table.row(&r); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// A row fits into 80 columns, and its cells stand below their heads, whatever became of the call.
func TestAuditRows(t *testing.T) {
	var out strings.Builder
	for _, row := range envelope.Codes() {
		for _, event := range audit.Events() {
			r := audit.Record{
				Form:  2,
				Event: event, Timestamp: time.Date(2026, 11, 22, 13, 0, 0, 0, time.FixedZone("x", 3600)), Tenant: "acme",
				Actor: "agent://a", ToolName: "transcript.clean", Attempt: 5, CallID: "11111111-0000-4000-8000-000000000000",
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
			out.WriteString(auditRows(t, r))
		}
	}
	for line := range strings.Lines(out.String()) {
		row := []rune(strings.TrimSuffix(line, "\n"))
		beginning := strings.TrimSpace(string(row[:detailAt]))
		if len(row) > 80 || beginning != "11-22 12:00:00" && beginning != "2026 UTC" && beginning != "" {
			t.Fatalf("%d columns: %s", len(row), line)
		}
		for _, at := range []int{34, 51, 71} {
			if row[0] != ' ' && len(row) > at && (row[at] != ' ' || row[at+1] == ' ') {
				t.Fatalf("no cell begins after column %d: %s", at, line)
			}
		}
	}
}

// Rows of operations say who did what, to which run, lock, credential or revision, with which result.
func TestAuditRowsOfOperators(t *testing.T) {
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	const by = "operator://first"
	done := func(op string, r audit.Record) audit.Record {
		r.Act = &audit.Act{Op: op, State: audit.ActIntended}
		return r.Done(at)
	}
	push := audit.PolicyPush{By: "default/" + by, Replaced: 6, Reason: "case 7"}
	lane := envelope.LockRequest{LockTarget: envelope.LockTarget{Lane: "billing"}, Reason: "INC-7"}
	run := envelope.Run{ID: "nightly-42", Tenant: "default", Actors: []string{"agent://a", "agent://b"}}
	token := audit.Credential{By: "default/" + by, Role: "agent", Family: "f1"}
	roles, unlisted, key := token, token, audit.Credential{By: token.By, KeyID: "k1", Distrust: true}
	roles.Roles, unlisted.Role = []string{"reader", "writer"}, ""
	refusedBy := &call.IncomingRequest{From: call.Sender{Tenant: "default", Actor: by}}
	refused := audit.Denied(audit.Refusal{
		In: refusedBy, Error: envelope.NewError(envelope.CodePolicyVersion, ""), Step: 2, Rule: audit.RuleService,
		Of: &audit.Record{Act: &audit.Act{Op: "policy_push"}, Push: &push},
	}, at)
	locked := audit.Denied(audit.Refusal{
		In:    &call.IncomingRequest{From: refusedBy.From, Tool: "pay"},
		Req:   &envelope.Request{Context: envelope.RequestContext{LaneID: "billing"}},
		Error: envelope.NewError(envelope.CodeLocked, ""), Step: 8, Rule: "lock",
		Lock: audit.LockInForce(envelope.Lock{LockTarget: lane.LockTarget, Reason: lane.Reason, By: push.By}),
	}, at)
	for name, c := range map[string]struct {
		record audit.Record
		want   string
	}{
		"push, intended": {push.About("default", by, envelope.PolicyVersions{}, at),
			"policy_pushed       operator://first the policy\n|replaces revision 6, reason: case 7\n"},
		"push, done": {done("policy_push", push.Stored(7).About("default", by, envelope.PolicyVersions{}, at)),
			"policy_pushed       operator://first revision 7          done\n|replaces revision 6, reason: case 7\n"},
		"push, refused": {refused, "tool_denied         operator://first the policy          refused\n" +
			"|P-PRECOND-POLICY_VERSION, effect none, step 2: service,\n|policy_push, replaces revision 6, reason: case 7\n"},
		"lock": {done("lock", audit.LockChanged(audit.LockSet, "default", by, lane, at)),
			"lock_set            operator://first lane billing        done\n|reason: INC-7\n"},
		"denied by a lock": {locked,
			"tool_denied         operator://first pay\n|P-PRECOND-LOCKED, effect none, step 8: lock, lock of the lane\n" +
				"|billing by default/operator://first: INC-7\n"},
		"run": {done("run_start", audit.RunChanged(audit.RunStarted, "default/"+by, by, run, run.Policies, "", at)),
			"run_started         operator://first run nightly-42      done\n|actors agent://a agent://b\n"},
		"credential": {done("token_issue", token.About(audit.CredentialIssued, "default", "agent://ada", "", "", at)),
			"credential_issued   operator://first agent://ada         done\n|role agent, family f1\n"},
		"roles": {done("token_issue", roles.About(audit.CredentialIssued, "default", "agent://ada", "", "", at)),
			"credential_issued   operator://first agent://ada         done\n|role agent, family f1, roles reader writer\n"},
		"owner unknown": {done("token_revoke", unlisted.About(audit.CredentialRevoked, "default", by, "", "", at)),
			"credential_revoked  operator://first family f1           done\n|family f1\n"},
		"distrust": {done("key_rotate", key.About(audit.KeyRotated, "default", by, "", "", at)),
			"key_rotated         operator://first key k1              done\n|tokens of former keys distrusted\n"},
		"long names": {audit.Record{Event: audit.ToolFailed, Timestamp: at, Tenant: "acme", Actor: "agent://nightly/crawler",
			ToolName: "mcp::github::issues.create", CallID: "11111111-0000", Attempt: 2, Code: envelope.CodeToolUnknown,
			Effect: envelope.EffectUnknown},
			"tool_failed         …nightly/crawler …hub::issues.create 11111111\n" +
				"|I-REQ-TOOL_UNKNOWN, effect unknown, attempt 2, about\n|mcp::github::issues.create, by " +
				"agent://nightly/crawler, tenant\n|acme\n"},
	} {
		_, row, _ := strings.Cut(auditRows(t, c.record), "\n")
		if want := "11-22 12:00:00 " + strings.ReplaceAll(c.want, "|", strings.Repeat(" ", detailAt)); row != want {
			t.Errorf("%s:\n%s, want\n%s", name, row, want)
		}
	}
}

// Rows selected by a call id name the reference of the call, which other commands take.
func TestAuditRowReference(t *testing.T) {
	r := audit.Record{Event: audit.ToolExecuted, Status: envelope.Success, Tenant: "default", CallID: "22222222-0000",
		Ref: "play.0000000000000000000000000000001a"}
	for ofCall, shows := range map[string]bool{"": false, "22222222": true, r.Ref: false} {
		var out strings.Builder
		table := auditTable{to: &out, zone: time.UTC, tenant: "default", ofCall: ofCall}
		if err := table.row(&r); err != nil || strings.Contains(out.String(), " reference "+r.Ref+"\n") != shows {
			t.Errorf("by %q: %v\n%s", ofCall, err, out.String())
		}
	}
}

// A row names the entry that a dispatcher has restored.
func TestAuditRowOfRestore(t *testing.T) {
	e := audit.RestoredEntry{Stream: subjects.ControlStream, Entry: subjects.Locks, Reason: "missing"}
	row := auditRows(t, audit.EntryRestored("default", "d-1", "id", e, time.Now()))
	if !strings.Contains(row, " policy_applied ") || !strings.Contains(row, subjects.Locks) ||
		!strings.Contains(row, "restored, since it was missing") {
		t.Error(row)
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
