package reader_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/deadletter"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

func TestReplayFilters(t *testing.T) {
	f := setup(t)
	for i, r := range []audit.Record{
		{Event: audit.ToolDenied, Actor: "a", ToolName: "x", CallID: "1", Tenant: "t",
			Policies: envelope.PolicyVersions{Roles: "a1", Lanes: "b2", ToolRegistry: "c4"}},
		{Event: audit.ToolExecuted, Actor: "b", ToolName: "y", CallID: "2", Tenant: "u", Ref: "y.ref",
			RunID: "run", RoleID: "role", LaneID: "lane", Status: envelope.RetryableError, Code: envelope.CodeTimeout,
			Policies: envelope.PolicyVersions{Roles: "a1", Lanes: "b2", ToolRegistry: "c3"}},
	} {
		r.Timestamp = time.Now().Add(time.Duration(i-1) * time.Hour) // the first record was stored late
		f.put(i, r)
	}
	archives := f.archives()
	for name, c := range map[string]struct {
		filter reader.Filter
		want   int
	}{
		"all":        {reader.Filter{}, 2},
		"tenant":     {reader.Filter{Tenant: "u"}, 1},
		"late":       {reader.Filter{Since: time.Now().Add(-time.Minute)}, 1},
		"early":      {reader.Filter{Until: time.Now().Add(-time.Minute)}, 1},
		"now on":     {reader.Filter{FromNow: true}, 0},
		"ended":      {reader.Filter{Follow: true, Until: time.Now().Add(-time.Minute)}, 1},
		"ends":       {reader.Filter{Follow: true, Until: time.Now().Add(300 * time.Millisecond)}, 2},
		"ends empty": {reader.Filter{Follow: true, FromNow: true, Until: time.Now().Add(300 * time.Millisecond)}, 0},
		"tool":       {reader.Filter{Tool: "x"}, 1},
		"actor":      {reader.Filter{Actor: "b"}, 1},
		"call":       {reader.Filter{Call: "1"}, 1},
		"ref":        {reader.Filter{Call: "y.ref"}, 1},
		"event":      {reader.Filter{Event: audit.ToolDenied}, 1},
		"since":      {reader.Filter{Since: time.Now().Add(time.Hour)}, 0},
		"until":      {reader.Filter{Until: time.Now().Add(-2 * time.Hour)}, 0},
		"none":       {reader.Filter{Tool: "x", Actor: "b"}, 0},
		"run":        {reader.Filter{Run: "run"}, 1},
		"role":       {reader.Filter{Role: "role"}, 1},
		"lane":       {reader.Filter{Lane: "lane"}, 1},
		"policy":     {reader.Filter{Policy: []string{"a1", "b2", "c3"}}, 1},
		"digest":     {reader.Filter{Policy: []string{"b"}}, 2},
		"no digest":  {reader.Filter{Policy: []string{"a1", "b2", "2"}}, 0},
		"status":     {reader.Filter{Status: envelope.RetryableError}, 1},
		"code":       {reader.Filter{Code: envelope.CodeTimeout}, 1},
		"class":      {reader.Filter{Code: "R-TIMEOUT"}, 1},
		"no class":   {reader.Filter{Code: "S-TOOL"}, 0},
		"other code": {reader.Filter{Code: envelope.CodeSchema}, 0},
		"last":       {reader.Filter{Last: 1}, 1},
		"last of it": {reader.Filter{Last: 5, Tool: "x", Since: time.Now().Add(-2 * time.Hour)}, 1},
	} {
		for way, from := range archives {
			n := 0
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for _, err := range reader.Replay(ctx, from, c.filter) {
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

// A reader that follows until a time gets all events up to that time, including those that were recorded later.
func TestFollowUntil(t *testing.T) {
	f := setup(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f.Decide(f.Admit(1, envelope.PriorityNormal))
	until := time.Now()
	bustest.Run(t, f.project)
	var n int
	for _, err := range reader.Replay(ctx, reader.Streams(f.JS),
		reader.Filter{Follow: true, Until: until, Since: until.Add(-time.Hour)}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n > 3 {
			break
		}
	}
	if n != 3 { // that it was requested, allowed and executed
		t.Errorf("%d records, want 3", n)
	}
}

func TestDeadLetters(t *testing.T) {
	f := setup(t)
	if list, err := deadletter.DeadLetters(t.Context(), reader.Streams(f.JS)); err != nil || len(list) != 0 {
		t.Fatalf("%v, %v", list, err)
	}
	letter := deadletter.Message{Time: time.Now(), Cause: envelope.NewError(envelope.CodeLost, ""), Attempt: 1,
		State: f.Admit(1, envelope.PriorityNormal), Body: []byte(`{"request":{}}`)}
	for range 2 { // the second publish stores nothing
		if err := deadletter.Publish(t.Context(), f.JS, letter); err != nil {
			t.Fatal(err)
		}
	}
	list, err := deadletter.DeadLetters(t.Context(), reader.Streams(f.JS))
	if err != nil || len(list) != 1 || list[0].Cause.Code != envelope.CodeLost || list[0].Ref != letter.State.Ref() {
		t.Fatalf("%+v, %v", list, err)
	}
	d, err := deadletter.DeadLetterAt(t.Context(), reader.Streams(f.JS), list[0].Seq)
	if err != nil || d.State.ID != letter.State.ID {
		t.Errorf("%+v, %v", d, err)
	}
	odd := letter
	odd.Attempt, odd.Body = 2, []byte("{\xff")
	odd.State.Attempts = slices.Clone(odd.State.Attempts)
	odd.State.Attempts[0].Owner.Reply = "inbox.\xff"
	if err := deadletter.Publish(t.Context(), f.JS, odd); err != nil {
		t.Errorf("what is no text cannot be buried: %v", err)
	}
	large := letter
	earlier := call.Outcome{Attempt: 1, Response: []byte(`"` + strings.Repeat("x", 1<<20-200) + `"`)}
	body, err := call.RequestBody{Request: []byte(`{"n":1}`), InputRef: "ref", Earlier: []call.Outcome{earlier}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	large.Attempt, large.Body = 3, body
	if err := deadletter.Publish(t.Context(), f.JS, large); err != nil {
		t.Errorf("what is large cannot be buried: %v", err)
	}
	if list, err = deadletter.DeadLetters(t.Context(), reader.Streams(f.JS)); err != nil || len(list) != 3 {
		t.Fatalf("%d letters, %v", len(list), err)
	}
	if body, err := call.DecodeRequestBody(list[2].Body); err != nil || string(body.Request) != `{"n":1}` ||
		body.InputRef != "ref" || len(body.Earlier) != 0 {
		t.Errorf("kept %.100s, %v", list[2].Body, err)
	}
	if _, err := deadletter.DeadLetterAt(t.Context(), reader.Streams(f.JS), 99); err == nil {
		t.Error("found a dead letter that is not there")
	}
}

// put stores a segment with records in AUDIT, as the n-th writer.
func (f *fixture) put(n int, records ...audit.Record) {
	f.T.Helper()
	lines, err := audit.SplitSegments(records, audit.MaxSegment)
	if err != nil {
		f.T.Fatal(err)
	}
	for _, l := range lines {
		data, _, err := l.Seal(audit.Segment{Source: audit.SourceProcess, K: 1, N: 1})
		if err != nil {
			f.T.Fatal(err)
		}
		subject := subjects.JournalSubject(fmt.Sprint("writer", n), l.Tenant)
		if _, err := f.JS.Publish(f.T.Context(), subject, data); err != nil {
			f.T.Fatal(err)
		}
	}
}

// Reading a record of an older build is an error with a hint. Reading from a later time on succeeds.
func TestReplayOfOlderBuild(t *testing.T) {
	for _, subject := range []string{"tb.audit.log.t.tool_requested.echo", "tb.audit.gate.t.tool_denied.echo"} {
		f := setup(t)
		old := `{"form":2,"event":"tool_requested","tenant":"t","timestamp_utc":"2026-11-22T00:00:00Z","log_seq":1}`
		if _, err := f.JS.Publish(t.Context(), subject, []byte(old)); err != nil {
			t.Fatal(err)
		}
		for way, archive := range f.archives() {
			for _, tenant := range []string{"", "t"} {
				var said error
				for _, said = range reader.Replay(t.Context(), archive, reader.Filter{Tenant: tenant}) {
				}
				if !format.IsUnsupported(said) || format.Newer(said) || !strings.Contains(said.Error(), "an older build wrote it") {
					t.Errorf("%s, %s, tenant %q: %v", way, subject, tenant, said)
				}
			}
			later := reader.Filter{Since: time.Now().Add(time.Hour)}
			for r, err := range reader.Replay(t.Context(), archive, later) {
				t.Errorf("%s, %s: %+v, %v", way, subject, r, err)
			}
		}
	}
}
