package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// traced returns the kinds of the events of a call but claims, and the events.
func (s shell) traced(ref string, flags ...string) (kinds string, r envelope.TraceResponse) {
	s.t.Helper()
	out := s.must(append([]string{"trace", ref, "--json"}, flags...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		s.t.Fatal(err)
	}
	var all []string
	for i, e := range r.Events {
		if e.Kind != envelope.TraceClaimed { // a fresh executor claims its first calls
			all = append(all, string(e.Kind))
		}
		if i > 0 && e.At.Before(r.Events[0].At) || e.At.After(r.Now) {
			s.t.Errorf("%s at %s of a call from %s to %s", e.Kind, e.At, r.Events[0].At, r.Now)
		}
	}
	return strings.Join(all, " "), r
}

// A call is a waterfall of its request, run and outcome, with its chunks by kind, in rows of 80 columns.
func TestTrace(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	ref := s.ranRef("play", "--input", `{"say":"hi","work_ms":30}`)
	kinds, r := s.traced(ref)
	if kinds != "requested run outcome" || r.Ref != ref || r.Tool != "play" || r.Pool != "default" {
		t.Fatalf("%s: %+v", kinds, r)
	}
	n := len(r.Events)
	request, ran, end := r.Events[0], r.Events[n-2], r.Events[n-1]
	if request.Actor != "agent://local" || request.By == "" || !request.Deadline.After(end.At) {
		t.Errorf("%+v", request)
	}
	if ran.DurationMS < 30 || !strings.HasPrefix(ran.By, "default/") || ran.Running ||
		ran.Chunks[envelope.ChunkProgress] == 0 {
		t.Errorf("%+v", ran)
	}
	if end.Status != envelope.Success || end.Effect == "" || end.DecidedBy != "executor" || end.By == "" ||
		end.ChunksTotal != ran.Chunks[envelope.ChunkData]+ran.Chunks[envelope.ChunkProgress] {
		t.Errorf("%+v, %+v", end, ran)
	}
	text := s.must("trace", ref)
	for _, says := range []string{"play 1.0.0 (play) of tenant default", "ref " + ref[:20], "WHO",
		" requested agent://local ",
		" run ", "====", "1 data, 1 progress", " outcome   success ", "|", "decided by executor", "trace "} {
		if !strings.Contains(text, says) {
			t.Errorf("no %q in\n%s", says, text)
		}
	}
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	t.Log("\n" + text)
}

// Each attempt of a key has its events. --call-id selects one.
func TestTraceOfAttempts(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	var ref string
	for range 2 {
		code, _, stderr := s.do("call", "play", "--input", `{"fail":"upstream"}`, "--attempts", "1",
			"--key", "again-and-again-1")
		if _, ref, _ = strings.Cut(stderr, " · ref "); code != exitRetryable || ref == "" {
			t.Fatalf("exit %d: %s", code, stderr)
		}
	}
	ref = strings.TrimSpace(ref)
	kinds, r := s.traced(ref)
	end := r.Events[len(r.Events)-1]
	if kinds != "requested run outcome requested run outcome" || end.Attempt != 2 ||
		end.Code != "R-UPSTREAM-UPSTREAM" {
		t.Errorf("%s: %+v", kinds, r)
	}
	if said := s.must("trace", ref); !strings.Contains(said, "  2 outcome   retryable_error ") {
		t.Error(said)
	}
	code, out, stderr := s.do("trace", ref, "--call-id", "7d1f3a52-6f0c-4a3b-9b53-2f6f0c1e8a01")
	if code != exitTerminal || out != "" || !strings.Contains(stderr, "P-PRECOND-NOT_FOUND") {
		t.Errorf("another call id: exit %d: %s%s", code, out, stderr)
	}
}

// A lookup that found the effect of a lost run has a row that says so.
func TestTraceOfLookup(t *testing.T) {
	var out strings.Builder
	r := envelope.TraceResponse{Pool: "default", Events: []envelope.TraceEvent{
		{Kind: envelope.TraceLookup, Attempt: 1, By: "default/b"},
		{Kind: envelope.TraceAsked, Attempt: 1, By: "default/b", Answer: "absent"},
		{Kind: envelope.TraceOutcome, Attempt: 1, By: "b", Status: envelope.Success},
	}}
	if err := newWaterfall(&out, &r).write(); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		"  1 lookup    b ", " effect found\n", "  1 asked     b ", " the lookup found no effect\n",
	} {
		if !strings.Contains(out.String(), row) {
			t.Errorf("no %q: %s", row, &out)
		}
	}
}

// The bar of the queue ends at the deadline, also if the call was decided long after it.
func TestTraceOfLateDecision(t *testing.T) {
	start := time.Unix(1_800_000_000, 0).UTC()
	var out strings.Builder
	r := envelope.TraceResponse{Pool: "default", Events: []envelope.TraceEvent{
		{Kind: envelope.TraceRequested, Attempt: 1, At: start, Deadline: start.Add(time.Second)},
		{Kind: envelope.TraceOutcome, Attempt: 1, At: start.Add(25 * time.Second), Status: envelope.RetryableError},
	}}
	if err := newWaterfall(&out, &r).write(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), " ..\n") {
		t.Error(out.String())
	}
}

// A run whose executor was lost has a bar of its own, and a first claim says that an earlier run may be lost.
func TestTraceOfLostRun(t *testing.T) {
	start := time.Unix(1_800_000_000, 0).UTC()
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	var out strings.Builder
	r := envelope.TraceResponse{Tool: "play", Pool: "default", Now: at(20), Events: []envelope.TraceEvent{
		{Kind: envelope.TraceRequested, Attempt: 1, At: start, Deadline: at(60)},
		{Kind: envelope.TraceClaimed, Attempt: 1, At: at(5), By: "default/a", Claim: 1, Lost: true},
		{Kind: envelope.TraceRun, Attempt: 1, At: at(5), By: "default/a", DurationMS: 10_000, Lost: true},
		{Kind: envelope.TraceClaimed, Attempt: 1, At: at(15), By: "default/b", Claim: 2},
		{Kind: envelope.TraceRun, Attempt: 1, At: at(15), By: "default/b", Running: true},
	}}
	if err := newWaterfall(&out, &r).write(); err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{" run       a                                  xxxxxxxxxxxxx\n",
		" claim 1, an executor that ran it before may be lost\n", " its executor was lost within 10.00 s\n",
		" claim 2\n", " runs since 5.00 s\n", "=======\n"} {
		if !strings.Contains(out.String(), says) {
			t.Errorf("no %q in\n%s", says, &out)
		}
	}
}

// The details below a row break between two facts, and not between a number and its unit.
func TestTraceBreaksBetweenFacts(t *testing.T) {
	start := time.Unix(1_800_000_000, 0).UTC()
	for n := range 40 {
		var out strings.Builder
		r := envelope.TraceResponse{Pool: "default", Events: []envelope.TraceEvent{
			{Kind: envelope.TraceRequested, Attempt: 1, At: start, Deadline: start.Add(20 * time.Second),
				By: strings.Repeat("d", n), TraceID: "7d1f3a52-6f0c-4a3b-9b53-2f6f0c1e8a01"},
			{Kind: envelope.TraceOutcome, Attempt: 1, At: start.Add(time.Second), Status: envelope.Success},
		}}
		if err := newWaterfall(&out, &r).write(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "deadline after 20.00 s") {
			t.Fatal(out.String())
		}
	}
}

// A fact that is longer than a line is broken.
func TestTraceBreaksLongFact(t *testing.T) {
	long := strings.Repeat("word ", 20) + "word"
	got := factLines([]string{"first", long, "last"}, 30)
	for _, line := range got {
		if len(line) > 30 {
			t.Errorf("%q", line)
		}
	}
	if got[0] != "first," || strings.Join(got, " ") != "first, "+long+", last" {
		t.Errorf("%q", got)
	}
}
