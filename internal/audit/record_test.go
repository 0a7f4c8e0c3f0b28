package audit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

var at = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func state(d *call.Decision) call.State {
	return call.State{
		Pinned: call.Pinned{
			Tenant: "t", Tool: "web.fetch", ID: "id1", Fn: "fetch", Version: "1.0.0", Digest: "sha256:d",
			Class: call.Idempotent, ArgsHash: "aa",
		},
		Attempts: []call.Attempt{{
			N: 1, Admitted: 7, Decision: d,
			Owner: call.Owner{CallID: "c", Actor: "agent", Trace: "trace", Run: "run", Role: "role", Lane: "lane"},
		}},
	}
}

// Each outcome has its event and its name.
func TestProject(t *testing.T) {
	for name, c := range map[string]struct {
		decision call.Decision
		event    audit.Event
		name     string
	}{
		"success": {call.Decision{Status: envelope.Success}, audit.ToolExecuted, "ToolSucceeded"},
		"failure": {call.Decision{Status: envelope.TerminalError, Code: envelope.CodeOutput}, audit.ToolFailed,
			"ToolFailed"},
		"invalid": {call.Decision{Status: envelope.InvalidRequest, Code: envelope.CodeSchema}, audit.ToolFailed,
			"ToolFailed"},
		"timeout": {call.Decision{Status: envelope.RetryableError, Code: envelope.CodeTimeout}, audit.ToolTimeout,
			"ToolFailed"},
		"timeout 2": {call.Decision{Status: envelope.TerminalError, Code: envelope.CodeTimeoutUnknown}, audit.ToolTimeout,
			"ToolFailed"},
		"cancel": {call.Decision{Status: envelope.RetryableError, Code: envelope.CodeCancelled}, audit.ToolCancelled,
			"ToolFailed"},
		"cancel 2": {call.Decision{Status: envelope.TerminalError, Code: envelope.CodeCancelledUnknown}, audit.ToolCancelled,
			"ToolFailed"},
		"lock": {call.Decision{Status: envelope.RetryableError, Code: envelope.CodeLocked,
			Effect: envelope.EffectNone}, audit.ToolDenied, "PolicyApplied"},
		"lock after a run": {call.Decision{Status: envelope.RetryableError, Code: envelope.CodeLocked,
			Effect: envelope.EffectUnknown}, audit.ToolFailed, "ToolFailed"},
	} {
		all := audit.Project(call.Decided, 1, state(&c.decision), 9, at)
		if len(all) != 1 {
			t.Fatalf("%s: %d records", name, len(all))
		}
		if r := all[0]; r.Event != c.event || r.Name != c.name ||
			r.Code != c.decision.Code || r.Status != c.decision.Status ||
			(r.Event == audit.ToolDenied) != (r.Step == 8 && r.Rule == "lock") {
			t.Errorf("%s: %+v", name, r)
		}
	}
	all := audit.Project(call.Requested, 1, state(nil), 7, at)
	if len(all) != 2 {
		t.Fatalf("%d records of a request", len(all))
	}
	for i, want := range []audit.Record{
		{Event: audit.ToolRequested, Name: "ToolInvoked"}, {Event: audit.ToolAllowed, Name: "PolicyApplied"},
	} {
		if r := all[i]; r.Event != want.Event || r.Name != want.Name || r.LogSeq != 7 || r.RunID != "run" ||
			r.ArgumentsHash != "aa" || r.Status != "" {
			t.Errorf("%+v", r)
		}
	}
	for _, kind := range []call.Kind{call.Joined, call.Claimed} {
		if len(audit.Project(kind, 1, state(nil), 8, at)) > 0 {
			t.Errorf("auditors are told of %s", kind)
		}
	}
	if len(audit.Project(call.Requested, 2, state(nil), 8, at)) > 0 {
		t.Error("projected an attempt that is not there")
	}
	if len(audit.Project(call.Decided, 1, state(nil), 8, at)) > 0 {
		t.Error("projected an outcome without a decision, which somebody else has written")
	}
}

// TestOwnerReported holds that a repeated fault of a tool has a second record, which names the owner of the tool.
func TestOwnerReported(t *testing.T) {
	all := audit.Project(call.Decided, 1, state(&call.Decision{
		Status: envelope.TerminalError, Code: envelope.CodeToolFaultAgain, Effect: envelope.EffectNone, Owner: "@team",
		By: call.ByExecutor,
	}), 9, at)
	if len(all) != 2 || all[0].Event != audit.ToolFailed || all[0].Owner != "" {
		t.Fatalf("%+v", all)
	}
	if r := all[1]; r.Event != audit.OwnerReported || r.Owner != "@team" || r.Code != envelope.CodeToolFaultAgain ||
		r.Status != "" || r.LogSeq != 9 {
		t.Errorf("%+v", r)
	}
}

// A write outside the write targets has a second record, which names the writes, too. The first one is that of the end.
func TestWriteViolation(t *testing.T) {
	writes := `[{"kind":"file.write","target":"/x","bytes":7}]`
	for code, n := range map[envelope.Code]int{envelope.CodeWriteTarget: 2, envelope.CodeToolFault: 1, "": 1} {
		d := &call.Decision{
			Status: envelope.Success, Code: code, Effect: envelope.EffectApplied, Writes: writes, WritesLeft: 3,
		}
		all := audit.Project(call.Decided, 1, state(d), 9, at)
		if len(all) != n || !all[0].FirstOfEvent() {
			t.Fatalf("%s: %+v", code, all)
		}
		for i, r := range all {
			if string(r.Writes) != writes || r.WritesLeft != 3 || r.LogSeq != 9 || r.FirstOfEvent() != (i == 0) {
				t.Errorf("%s: %+v", code, r)
			}
		}
		if n == 2 && (all[1].Event != audit.WriteViolation || all[1].Code != code || all[1].Status != "") {
			t.Errorf("%+v", all[1])
		}
	}
	forged := &call.Decision{Status: envelope.Success, Writes: `]`, WritesLeft: 3}
	forged.Server = "1.0\x1b" + strings.Repeat("é", 99)
	if r := audit.Project(call.Decided, 1, state(forged), 9, at)[0]; r.Writes != nil || r.WritesLeft != 0 ||
		r.ServerVersion != "1.0"+strings.Repeat("_", 61) {
		t.Errorf("recorded %s, %s", r.Writes, r.ServerVersion)
	} else if _, err := r.Append(nil); err != nil {
		t.Error(err)
	}
}

func TestLate(t *testing.T) {
	r := audit.Late(state(&call.Decision{Status: envelope.RetryableError, Code: envelope.CodeTimeout}), 1,
		call.Completion{Effect: envelope.EffectApplied, Output: "hash", Fence: 7}, at)
	if r.Event != audit.LateResult || r.Status != envelope.Success || r.Effect != envelope.EffectApplied ||
		r.OutputHash != "hash" || r.Fence != 7 {
		t.Errorf("%+v", r)
	}
	if r := audit.Late(state(nil), 1, call.Completion{Error: envelope.CodeUpstream, Effect: envelope.EffectNone},
		at); r.Status != envelope.RetryableError {
		t.Errorf("%+v", r)
	}
}

// An encoded record has all fields of the contract, including empty ones.
func TestGolden(t *testing.T) {
	all := audit.Project(call.Decided, 1, state(&call.Decision{
		Seq: 9, Status: envelope.Success, Effect: envelope.EffectApplied, By: call.ByExecutor, Fence: 8, OutputHash: "bb",
	}), 9, at)
	got, err := json.Marshal(all[0], jsontext.Multiline(true))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", "record.json")
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; the record is now:\n%s", err, got)
	}
	if string(got)+"\n" != string(want) {
		t.Errorf("%s differs; the record is now:\n%s", file, got)
	}
	for _, field := range []string{
		"run_id", "role_id", "lane_id", "tool_name", "arguments_hash_sha256", "output_hash_sha256", "contract_version",
		"policy_versions", "timestamp_utc",
	} {
		var fields map[string]jsontext.Value
		if err := json.Unmarshal(got, &fields); err != nil {
			t.Fatal(err)
		}
		if _, ok := fields[field]; !ok {
			t.Errorf("%s is missing", field)
		}
	}
}

// A late result of a call without effects has the effect none.
func TestLateHarmless(t *testing.T) {
	said := call.Completion{Cause: call.ToolEnded, Effect: envelope.EffectApplied}
	for effect, facts := range map[envelope.Effect]call.Pinned{
		envelope.EffectNone: {Class: call.SideEffectful, DryRun: true}, envelope.EffectApplied: {Class: call.Idempotent},
	} {
		s := call.State{Pinned: facts, Attempts: []call.Attempt{{N: 1}}}
		if r := audit.Late(s, 1, said, time.Now()); r.Effect != effect {
			t.Errorf("%+v: effect %s, not %s", facts, r.Effect, effect)
		}
	}
}
