package record_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/audit"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/bustest"
	"github.com/seed-018f16cc/toolbus/record"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Two projectors project the same log: every event once, in order, also over a restart of one.
func TestTwoProjectors(t *testing.T) {
	f := setup(t)
	stop := bustest.Run(t, f.project)
	bustest.Run(t, f.project)
	const calls = 400
	for n := range calls {
		f.Decide(f.Admit(n, envelope.PriorityNormal))
		if n == calls/2 {
			stop()
			bustest.Run(t, f.project)
		}
	}
	var last uint64
	seen := map[string]audit.Event{}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for r, err := range record.Replay(ctx, record.Direct(f.JS), record.Filter{Follow: true}) {
		if err != nil {
			t.Fatalf("%v after %d records", err, len(seen))
		}
		if r.LogSeq <= last {
			t.Fatalf("record %d after %d", r.LogSeq, last)
		}
		last = r.LogSeq
		if before := seen[r.CallID]; (before == "") != (r.Event == audit.ToolRequested) {
			t.Fatalf("%s: %s after %q", r.CallID, r.Event, before)
		}
		if seen[r.CallID] = r.Event; last == 2*calls {
			break
		}
	}
	if len(seen) != calls {
		t.Errorf("%d calls on record", len(seen))
	}
}

func TestReplayFilters(t *testing.T) {
	f := setup(t)
	for i, r := range []audit.Record{
		{Event: audit.ToolDenied, Actor: "a", ToolName: "x", CallID: "1", Tenant: "t"},
		{Event: audit.ToolExecuted, Actor: "b", ToolName: "y", CallID: "2", Tenant: "u", Ref: "y.ref",
			RunID: "run", RoleID: "role", LaneID: "lane", Status: envelope.RetryableError, Code: envelope.CodeTimeout},
	} {
		r.Timestamp = time.Now().Add(time.Duration(i-1) * time.Hour) // the first one came to the record late
		f.put(i, r)
	}
	archives := f.archives()
	for name, c := range map[string]struct {
		filter record.Filter
		want   int
	}{
		"all":        {record.Filter{}, 2},
		"tenant":     {record.Filter{Tenant: "u"}, 1},
		"late":       {record.Filter{Since: time.Now().Add(-time.Minute)}, 1},
		"early":      {record.Filter{Until: time.Now().Add(-time.Minute)}, 1},
		"now on":     {record.Filter{FromNow: true}, 0},
		"ended":      {record.Filter{Follow: true, Until: time.Now().Add(-time.Minute)}, 1},
		"ends":       {record.Filter{Follow: true, Until: time.Now().Add(300 * time.Millisecond)}, 2},
		"ends empty": {record.Filter{Follow: true, FromNow: true, Until: time.Now().Add(300 * time.Millisecond)}, 0},
		"tool":       {record.Filter{Tool: "x"}, 1},
		"actor":      {record.Filter{Actor: "b"}, 1},
		"call":       {record.Filter{Call: "1"}, 1},
		"ref":        {record.Filter{Call: "y.ref"}, 1},
		"event":      {record.Filter{Event: audit.ToolDenied}, 1},
		"since":      {record.Filter{Since: time.Now().Add(time.Hour)}, 0},
		"until":      {record.Filter{Until: time.Now().Add(-2 * time.Hour)}, 0},
		"none":       {record.Filter{Tool: "x", Actor: "b"}, 0},
		"run":        {record.Filter{Run: "run"}, 1},
		"role":       {record.Filter{Role: "role"}, 1},
		"lane":       {record.Filter{Lane: "lane"}, 1},
		"status":     {record.Filter{Status: envelope.RetryableError}, 1},
		"code":       {record.Filter{Code: envelope.CodeTimeout}, 1},
		"other code": {record.Filter{Code: envelope.CodeSchema}, 0},
		"last":       {record.Filter{Last: 1}, 1},
		"last of it": {record.Filter{Last: 5, Tool: "x", Since: time.Now().Add(-2 * time.Hour)}, 1},
	} {
		for way, from := range archives {
			n := 0
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for _, err := range record.Replay(ctx, from, c.filter) {
				if err != nil {
					t.Fatal(way, err)
				}
				n++
			}
			if n != c.want {
				t.Errorf("%s, %s: %d records, want %d", name, way, n, c.want)
			}
		}
	}
}

// Whoever follows the record until a time is told of all that had happened by then, also of what came to
// the record afterwards.
func TestFollowUntil(t *testing.T) {
	f := setup(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f.Decide(f.Admit(1, envelope.PriorityNormal))
	until := time.Now()
	bustest.Run(t, f.project)
	var n int
	for _, err := range record.Replay(ctx, record.Direct(f.JS),
		record.Filter{Follow: true, Until: until, Since: until.Add(-time.Hour)}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n > 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d records, want 2", n)
	}
}

func TestDeadLetters(t *testing.T) {
	f := setup(t)
	if list, err := record.DeadLetters(t.Context(), record.Direct(f.JS)); err != nil || len(list) != 0 {
		t.Fatalf("%v, %v", list, err)
	}
	letter := record.DeadLetter{Time: time.Now(), Cause: envelope.NewError(envelope.CodeLost, ""), Attempt: 1,
		State: f.Admit(1, envelope.PriorityNormal), Body: []byte(`{"request":{}}`)}
	for range 2 { // burying twice is burying once
		if err := record.Bury(t.Context(), f.JS, letter); err != nil {
			t.Fatal(err)
		}
	}
	list, err := record.DeadLetters(t.Context(), record.Direct(f.JS))
	if err != nil || len(list) != 1 || list[0].Cause.Code != envelope.CodeLost || list[0].Ref != letter.State.Ref() {
		t.Fatalf("%+v, %v", list, err)
	}
	d, err := record.DeadLetterAt(t.Context(), record.Direct(f.JS), list[0].Seq)
	if err != nil || d.State.ID != letter.State.ID {
		t.Errorf("%+v, %v", d, err)
	}
	odd := letter
	odd.Attempt, odd.Body = 2, []byte("{\xff")
	odd.State.Attempts = slices.Clone(odd.State.Attempts)
	odd.State.Attempts[0].Owner.Reply = "inbox.\xff"
	if err := record.Bury(t.Context(), f.JS, odd); err != nil {
		t.Errorf("what is no text cannot be buried: %v", err)
	}
	large := letter
	earlier := call.Outcome{Attempt: 1, Response: []byte(`"` + strings.Repeat("x", 1<<20-200) + `"`)}
	body, err := call.RequestBody{Request: []byte(`{"n":1}`), InputRef: "ref", Earlier: []call.Outcome{earlier}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	large.Attempt, large.Body = 3, body
	if err := record.Bury(t.Context(), f.JS, large); err != nil {
		t.Errorf("what is large cannot be buried: %v", err)
	}
	if list, err = record.DeadLetters(t.Context(), record.Direct(f.JS)); err != nil || len(list) != 3 {
		t.Fatalf("%d letters, %v", len(list), err)
	}
	if body, err := call.DecodeRequestBody(list[2].Body); err != nil || string(body.Request) != `{"n":1}` ||
		body.InputRef != "ref" || len(body.Earlier) != 0 {
		t.Errorf("kept %.100s, %v", list[2].Body, err)
	}
	if _, err := record.DeadLetterAt(t.Context(), record.Direct(f.JS), 99); err == nil {
		t.Error("found a dead letter that is not there")
	}
}

// put puts a segment with records into AUDIT, as the n-th writer does.
func (f *fixture) put(n int, records ...audit.Record) {
	f.T.Helper()
	lines, err := audit.Cut(records, audit.MaxSegment)
	if err != nil {
		f.T.Fatal(err)
	}
	for _, l := range lines {
		data, _, err := l.Seal(audit.Segment{Source: audit.FromGate, K: 1, N: 1})
		if err != nil {
			f.T.Fatal(err)
		}
		if _, err := f.JS.Publish(f.T.Context(), subjects.Gate(fmt.Sprint("writer", n), l.Tenant), data); err != nil {
			f.T.Fatal(err)
		}
	}
}

// A segment whose acknowledgement is lost is sent again: the first try goes to somebody who says nothing.
func TestGateAfterLostAck(t *testing.T) {
	f := setup(t)
	if err := f.JS.DeleteStream(t.Context(), subjects.AuditStream); err != nil {
		t.Fatal(err)
	}
	heard := make(chan struct{}, 100)
	deaf, err := f.NC.Subscribe("tb.audit.>", func(*nats.Msg) { heard <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	if err := f.NC.Flush(); err != nil {
		t.Fatal(err)
	}
	journal := record.NewJournal(f.JS, "process", time.Now, func() string { return "n" }, nil)
	bustest.Run(t, journal.Run)
	state := call.State{Facts: call.Facts{Tenant: "t", Tool: "echo"}, Attempts: []call.Attempt{{N: 1, Admitted: 7}}}
	stored := make(chan error, 1)
	go func() {
		stored <- journal.Allowed(t.Context(), state, 1, []call.Owner{{CallID: "a"}, {CallID: "b"}, {CallID: "c"}})
	}()
	<-heard
	if err := deaf.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	if err := bus.Ensure(t.Context(), f.JS, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := <-stored; err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range record.Replay(t.Context(), record.Direct(f.JS), record.Filter{}) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 3 {
		t.Errorf("%d records", n)
	}
}
