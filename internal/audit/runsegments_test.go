package audit_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
)

// A call is one segment of its run, and a failed call marks its segment failed.
func TestRunSegments(t *testing.T) {
	at := func(s int) time.Time { return time.Date(2026, 11, 26, 9, 0, s, 0, time.UTC) }
	var f audit.RunSegments
	for _, r := range []audit.Record{
		{Form: 4, Event: audit.RunStarted, RunID: "r"},
		{Form: 4, Event: audit.ToolRequested, Ref: "a.1", CallID: "c1", ToolName: "a", Attempt: 1, Timestamp: at(1)},
		{Form: 4, Event: audit.ToolAllowed, Ref: "a.1", CallID: "c1", ToolName: "a", Attempt: 1, Timestamp: at(1)},
		{Form: 4, Event: audit.ToolRequested, Ref: "b.1", CallID: "c2", ToolName: "b", Attempt: 1, Timestamp: at(2)},
		{Form: 4, Event: audit.ToolFailed, Ref: "a.1", Attempt: 1, Code: "S-TOOL-001", Timestamp: at(3)},
		{Form: 4, Event: audit.ToolRequested, Ref: "a.1", Attempt: 2, Timestamp: at(4)},
		{Form: 4, Event: audit.ToolJoined, Ref: "a.1", Attempt: 2, Timestamp: at(5)},
		{Form: 4, Event: audit.ToolExecuted, Ref: "a.1", Attempt: 2, Status: envelope.Success, Timestamp: at(6)},
		{Form: 4, Event: audit.ToolTimeout, Ref: "b.1", Attempt: 1, Code: envelope.CodeTimeout, Timestamp: at(7)},
		{Form: 4, Event: audit.ToolDenied, CallID: "c3", ToolName: "a", Code: envelope.CodeRunState, Timestamp: at(8)},
		{Form: 4, Event: audit.ToolDenied, CallID: "c3", ToolName: "a", Code: envelope.CodeRunState, Timestamp: at(9)},
		{Form: 4, Event: audit.ToolJoined, Ref: "o.1", CallID: "c4", ToolName: "o", Attempt: 1, Timestamp: at(10)},
		{Form: 4, Event: audit.ToolReplayed, Ref: "o.2", CallID: "c5", ToolName: "o", Attempt: 1, Status: envelope.Success,
			Timestamp: at(11)},
		{Form: 3, Event: audit.ToolAllowed, Ref: "o.3", CallID: "c6", ToolName: "o", Attempt: 1,
			Status: envelope.TerminalError, Timestamp: at(12)},
		{Form: 4, Event: audit.ToolRequested, Ref: "d.1", CallID: "c7", ToolName: "d", Attempt: 1, Timestamp: at(13)},
		{Form: 4, Event: audit.LateResult, Ref: "b.1", Attempt: 1, Timestamp: at(14)},
	} {
		f.Add(&r)
	}
	want := []envelope.RunSegment{
		{Ref: "a.1", CallID: "c1", Tool: "a", State: "succeeded", Attempts: 2, Start: at(1), End: at(6)},
		{Ref: "b.1", CallID: "c2", Tool: "b", State: "failed", Code: envelope.CodeTimeout, Attempts: 1, Start: at(2),
			End: at(7)},
		{CallID: "c3", Tool: "a", State: "denied", Code: envelope.CodeRunState, Start: at(8), End: at(9)},
		{Ref: "o.1", CallID: "c4", Tool: "o", State: "joined", Attempts: 1, Start: at(10)},
		{Ref: "o.2", CallID: "c5", Tool: "o", State: "succeeded", Attempts: 1, Start: at(11), End: at(11)},
		{Ref: "o.3", CallID: "c6", Tool: "o", State: "failed", Attempts: 1, Start: at(12), End: at(12)},
		{Ref: "d.1", CallID: "c7", Tool: "d", State: "running", Attempts: 1, Start: at(13)},
	}
	if diff := cmp.Diff(want, f.All()); diff != "" {
		t.Errorf("segments (-want +got):\n%s", diff)
	}
}

// A denied call is a segment of the run that it names only if the run was that of its caller, or if a lock ended it in
// the queue.
func TestRunSegmentsOfStrangers(t *testing.T) {
	for name, c := range map[string]struct {
		record  audit.Record
		segment bool
	}{
		"a paused run":         {audit.Record{Step: 3, Rule: "run.state", Basis: &audit.Basis{Run: &audit.RunBasis{}}}, true},
		"another lane":         {audit.Record{Step: 4, Basis: &audit.Basis{Run: &audit.RunBasis{Unfit: true}}}, true},
		"a stranger":           {audit.Record{Step: 3, Basis: &audit.Basis{Run: &audit.RunBasis{Foreign: true}}}, false},
		"no such run":          {audit.Record{Step: 3, Rule: "run", Basis: &audit.Basis{}}, false},
		"a bad token":          {audit.Record{Step: 2, Rule: "token"}, false},
		"no policy":            {audit.Record{Step: 3, Rule: "policy"}, false},
		"before: a stranger":   {audit.Record{Step: 3, Rule: "run.actors"}, false},
		"before: a paused run": {audit.Record{Step: 3, Rule: "run.state"}, true},
		"before: its set":      {audit.Record{Step: 3, Rule: "run.policy_versions"}, true},
		"before: a schema":     {audit.Record{Step: 7, Rule: "schema"}, true},
		"before: no step":      {audit.Record{}, true},
		"in the queue":         {audit.Record{Ref: "a.1", Step: 8, Rule: "lock"}, true},
	} {
		var f audit.RunSegments
		c.record.Form, c.record.Event, c.record.RunID = 4, audit.ToolDenied, "r"
		f.Add(&c.record)
		if got := len(f.All()) == 1; got != c.segment {
			t.Errorf("%s: a segment: %t", name, got)
		}
	}
}
