package checker

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/chaos/effects"
)

// world builds the history of a run that keeps every promise, with the functions of package call.
type world struct {
	t     *testing.T
	h     History
	state call.State // state of its only call
	facts call.Pinned
	now   time.Time
	seq   uint64
	audit uint64
}

var epoch = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func newWorld(t *testing.T, class call.EffectClass) *world {
	return &world{t: t, now: epoch, seq: 10, facts: call.Pinned{
		Tenant: "default", Tool: "chaos.pay", ID: "id1", Fn: "do", Version: "1.0.0", Class: class, Pool: "default",
		Fingerprint: "fp", KeepSeconds: 60,
	}}
}

func (w *world) tick() { w.now = w.now.Add(10 * time.Millisecond) }

// write appends an event to the log and its record to AUDIT.
func (w *world) write(e call.Event, body []byte) {
	w.t.Helper()
	w.seq++
	w.state = call.Fold(e, w.seq)
	entry := call.Entry{State: w.state, Kind: e.Kind, Attempt: e.Attempt, Body: body, Time: w.now}
	w.h.Log = append(w.h.Log, entry)
	for _, r := range audit.Project(e.Kind, e.Attempt, w.state, w.seq, w.now) {
		w.audit++
		w.h.Audit = append(w.h.Audit, Record{Seq: w.audit, Record: r})
	}
	w.tick()
}

func (w *world) admit(callID string) {
	w.t.Helper()
	v := call.Admit(w.state, call.AdmitRequest{
		Owner: call.Owner{CallID: callID, Actor: "a"}, Pinned: w.facts, Fingerprint: "fp",
		Deadline: call.At(w.now.Add(time.Second)),
		Now:      call.At(w.now), Nonce: "q" + callID,
	})
	if v.Do != call.Write {
		w.t.Fatalf("admission of %s is %d", callID, v.Do)
	}
	w.write(v.Event, nil)
}

func (w *world) join(callID string) {
	e, _ := call.JoinAll(w.state, w.state.Last().N, []string{callID}, "j"+callID)
	w.write(e, nil)
}

func (w *world) claim() {
	w.t.Helper()
	a := w.state.Last()
	step, e := call.Take(w.state, call.WorkDelivery{
		Attempt: a.N, Admitted: a.Admitted, Deliveries: 2, Now: call.At(w.now), By: "e1", Nonce: fmt.Sprint("c", w.seq),
		Gone: func(string) bool { return true },
	})
	if step != call.TakeClaim {
		w.t.Fatalf("step is %d", step)
	}
	w.write(e, nil)
}

// run records a run of the last attempt, and its effect.
func (w *world) run(commit bool) (fence uint64) {
	a := w.state.Last()
	fence = a.Admitted
	if a.Claim != nil {
		fence = a.Claim.Fence
	}
	w.note(effects.Start, a.N, fence)
	if commit {
		w.note(effects.Commit, a.N, fence)
	}
	return fence
}

func (w *world) note(op effects.Op, attempt int, fence uint64) {
	w.h.Effects = append(w.h.Effects, effects.Line{
		Op: op, Time: w.now.UnixNano(), Tool: w.facts.Tool, Key: w.facts.ID, CallID: w.state.Last().Owner.CallID,
		Attempt: attempt, Fence: fence, PID: 7,
	})
	w.tick()
}

// decide ends the last attempt, by the holder of its claim if there is one.
func (w *world) decide(end call.Completion) *envelope.Response {
	w.t.Helper()
	a := w.state.Last()
	end.Nonce, end.Now = fmt.Sprint("o", w.seq), call.At(w.now)
	if a.Claim != nil && end.By == call.ByExecutor {
		end.Claim = a.Claim.Nonce
	}
	ruling := call.Decide(w.state, a.N, a.Admitted, end)
	if !ruling.Do {
		w.t.Fatal("decided already")
	}
	p := envelope.Provenance{ToolID: w.facts.Tool, ToolVersion: "1.0.0", Attempt: a.N, Fence: end.Fence, Final: true}
	r := &envelope.Response{CallID: a.Owner.CallID, Status: envelope.Success,
		Output: jsontext.Value(fmt.Sprintf(`{"n":1,"run":"%d/7"}`, end.Fence)), Provenance: p}
	if ruling.Code != "" {
		r = envelope.Failure(a.Owner.CallID, envelope.NewError(ruling.Code, "").WithEffect(ruling.Effect), p,
			envelope.Metrics{})
	}
	raw, err := envelope.EncodeResponse(envelope.ContentJSON, r)
	if err != nil {
		w.t.Fatal(err)
	}
	body, err := json.Marshal(call.OutcomeBody{Response: raw})
	if err != nil {
		w.t.Fatal(err)
	}
	w.write(ruling.Event, body)
	r.Provenance.AuditEventID = fmt.Sprintf("calls.%d", w.seq)
	return r
}

func succeeded(fence uint64) call.Completion {
	return call.Completion{Cause: call.ToolEnded, By: call.ByExecutor, Fence: fence, Effect: envelope.EffectApplied}
}

// ask records a request with its own call id, and r as its answer.
func (w *world) ask(callID string, r *envelope.Response) *Ask {
	a := Ask{
		Caller: "c1", Scene: "test", Tool: w.facts.Tool, Key: "key", CallID: callID, Ref: "chaos_2epay.id1",
		Fingerprint: "fp", N: 1,
		Sent: w.now, Due: w.now.Add(time.Second), Done: w.now.Add(500 * time.Millisecond),
	}
	if r != nil {
		told := *r
		told.CallID = callID
		a.Answers = []*envelope.Response{&told}
	}
	w.h.Asks = append(w.h.Asks, a)
	return &w.h.Asks[len(w.h.Asks)-1]
}

func (w *world) refusal(callID string, code envelope.Code) *Ask {
	w.audit++
	id := fmt.Sprint("gate.", w.audit)
	w.h.Audit = append(w.h.Audit, Record{Seq: w.audit, ID: id, Record: audit.Record{Event: audit.ToolDenied}})
	p := envelope.Provenance{Final: !code.Retryable(), AuditEventID: id}
	return w.ask(callID, envelope.Failure(callID, envelope.NewError(code, "").WithEffect(envelope.EffectNone), p,
		envelope.Metrics{}))
}

var ids = []string{uuid.NewString(), uuid.NewString(), uuid.NewString(), uuid.NewString()}

// paid returns a run of a side-effectful call: refused once, cancelled before it started, requested again and joined,
// successful, and replayed.
func paid(t *testing.T) *world {
	w := newWorld(t, call.SideEffectful)
	w.refusal(ids[0], envelope.CodeAuditLag)
	w.admit(ids[0])
	first := w.decide(call.Completion{Cause: call.Cancelled, By: call.ByCanceller})
	w.h.Cancels = append(w.h.Cancels, Cancel{Ref: "chaos_2epay.id1", CallID: ids[0], Told: "queued", Response: first})
	w.ask(ids[0], first).Accepted = []envelope.Accepted{{CallID: ids[0], Ref: "chaos_2epay.id1", Attempt: 1}}
	w.admit(ids[1])
	w.join(ids[2])
	w.claim()
	fence := w.run(true)
	second := w.decide(succeeded(fence))
	w.ask(ids[1], second)
	w.ask(ids[2], second)
	w.ask(ids[3], second) // replayed: the call id is bound to no attempt
	w.ask(ids[0], first)
	w.refusal(ids[3], envelope.CodeKeyReused).Fingerprint = "other"
	return w
}

// put returns a run of an idempotent call that ran twice, because its first executor was frozen.
func put(t *testing.T) *world {
	w := newWorld(t, call.Idempotent)
	w.admit(ids[0])
	w.run(true)
	w.claim()
	fence := w.run(true)
	r := w.decide(succeeded(fence))
	r.Provenance.Chunks = &envelope.Chunks{Count: 2}
	a := w.ask(ids[0], r)
	a.Streamed = true
	admitted := w.h.Log[0].State.Seq
	a.Chunks = []envelope.Chunk{
		{Index: 0, Fence: admitted, Data: jsontext.Value(fmt.Sprintf(`{"i":0,"run":"%d/7"}`, admitted))},
		{Index: 0, Fence: fence, Data: jsontext.Value(fmt.Sprintf(`{"i":0,"run":"%d/7"}`, fence))},
		{Index: 1, Fence: fence, Data: jsontext.Value(fmt.Sprintf(`{"i":1,"run":"%d/7"}`, fence))},
	}
	return w
}

// flooded returns two refusals in one count.
func flooded(t *testing.T) *world {
	w := newWorld(t, call.Pure)
	w.refusal(ids[0], envelope.CodeAuditLag)
	opening := w.h.Audit[0]
	w.refusal(ids[1], envelope.CodeAuditLag)
	w.h.Audit[0].Count = &audit.Count{State: audit.CountOpened, Over: audit.OverActor}
	w.h.Audit[1].Count = &audit.Count{State: audit.CountClosed, Over: audit.OverActor, Opening: opening.ID, Denials: 2}
	for i := range w.h.Asks {
		p := &w.h.Asks[i].Answers[0].Provenance
		p.AuditEventID, p.Counted = opening.ID, uint64(i+1)
	}
	return w
}

func TestKeptPromises(t *testing.T) {
	for name, w := range map[string]*world{"paid": paid(t), "put": put(t), "flooded": flooded(t)} {
		for _, v := range Check(w.h) {
			t.Errorf("%s: %v", name, v)
		}
	}
}

// TestBrokenPromises breaks one promise at a time in a history that keeps all, and expects a violation of its rule.
func TestBrokenPromises(t *testing.T) {
	type hurt func(h *History)
	last := func(h *History) *envelope.Response { return h.Asks[1].Answers[0] }
	for _, tc := range []struct {
		name, rule string
		from       func(*testing.T) *world
		hurt       hurt
	}{
		{"another attempt's outcome", "P1 outcome", paid, func(h *History) {
			h.Asks[5].Answers = h.Asks[2].Answers
			h.Asks[5].CallID = ids[1]
			h.Asks[5].CallID = ids[0]
		}},
		{"another output", "P1 outcome", paid, func(h *History) { h.Asks[2].Answers[0].Output = jsontext.Value(`{"n":2}`) }},
		{"another status", "P1 outcome", paid, func(h *History) { last(h).Status = envelope.TerminalError }},
		{"another effect", "P1 outcome", paid, func(h *History) { last(h).Error.WithEffect(envelope.EffectApplied) }},
		{"another audit id", "P1 outcome", paid, func(h *History) { last(h).Provenance.AuditEventID = "calls.1" }},
		{"an outcome from nowhere", "P1 outcome", paid, func(h *History) { last(h).Provenance.Attempt = 9 }},
		{"an outcome without a log", "P1 outcome", paid, func(h *History) { h.Log = nil }},
		{"refused after accepted", "P1 refusal", paid, func(h *History) {
			h.Asks[0].Accepted, h.Asks[0].Answers[0].Provenance.Final = h.Asks[1].Accepted, true
		}},
		{"refused after bound", "P1 refusal", paid, func(h *History) {
			h.Asks[0].Sent, h.Asks[0].Answers[0].Provenance.Final = epoch.Add(time.Hour), true
		}},
		{"late", "P2 deadline", paid, func(h *History) { h.Asks[2].Done = h.Asks[2].Due.Add(101 * time.Millisecond) }},
		{"no answer", "P2 deadline", paid, func(h *History) { h.Asks[2].Answers = nil }},
		{"an error instead of an answer", "P2 deadline", paid,
			func(h *History) { h.Asks[1].Answers, h.Asks[1].Unsent = nil, "chunks lost" }},
		{"no outcome in calm", "P5 kept", paid, func(h *History) {
			h.Asks[2].Scene,
				h.Asks[2].Answers[0].Provenance.Final = Calm, false
		}},
		{"refused for good, and accepted in a copy", "P1 copies", paid, func(h *History) {
			h.Asks[0].Copies, h.Asks[0].Answers[0].Provenance.Final = true, true
		}},
		{"refused for good, and joined", "P1 copies", paid, func(h *History) {
			h.Asks[0].CallID, h.Asks[0].Answers[0].Provenance.Final = ids[2], true
		}},
		{"used up by nothing", "P3 attempts", paid,
			func(h *History) { *h.Asks[0].Answers[0].Error = *envelope.NewError(envelope.CodeAttempts, "") }},
		{"refused for lag with a leader", "P4 lag", paid, func(h *History) {
			h.Led = []Span{{epoch.Add(-time.Minute), epoch.Add(time.Minute)}}
		}},
		{"two effects", "P3 effect", paid, func(h *History) { h.Effects = append(h.Effects, h.Effects[1]) }},
		{"two runs, one fence", "P3 fence", put,
			func(h *History) { h.Effects[2].Fence, h.Effects[2].PID = h.Effects[0].Fence, 8 }},
		{"another input answered", "P3 input", paid, func(h *History) { h.Asks[2].Fingerprint = "other" }},
		{"output of another input", "P3 input", paid, func(h *History) { h.Asks[2].N = 2 }},
		{"same input refused", "P3 input", paid, func(h *History) { h.Asks[6].Fingerprint = "fp" }},
		{"the key of another call", "P3 key", paid, func(h *History) { h.Effects[0].CallID = ids[3] }},
		{"the key of no call", "P3 key", paid, func(h *History) { h.Effects[0].Key = "the caller's own" }},
		{"run before its claim", "P4 recorded", paid, func(h *History) { h.Effects[0].Time = epoch.UnixNano() }},
		{"run without its claim", "P4 recorded", paid, func(h *History) { h.Effects[0].Fence-- }},
		{"run of an old admission", "P4 recorded", put, func(h *History) { h.Effects[0].Fence = 3 }},
		{"run without a log", "P4 recorded", paid, func(h *History) { h.Effects[0].Key = "nobody's" }},
		{"unrecorded refusal", "P4 denied", paid, func(h *History) { h.Audit = h.Audit[1:] }},
		{"unrecorded refusal at a door", "P4 denied", paid, func(h *History) {
			h.Asks[0].MCP, h.Audit = true, h.Audit[1:]
		}},
		{"refused by the client alone", "P4 denied", paid, func(h *History) {
			p := &h.Asks[0].Answers[0].Provenance
			p.Final, p.AuditEventID, p.PolicyApplied = true, "", []string{"client-preflight"}
		}},
		{"accepted and lost", "P5 kept", paid, func(h *History) { h.Log, h.Audit = nil, nil }},
		{"accepted for another attempt", "P5 kept", paid, func(h *History) { h.Asks[1].Accepted[0].Attempt = 2 }},
		{"no outcome", "P5 kept", put, func(h *History) { h.Log = h.Log[:2] }},
		{"given up unburied", "P5 dead", put, func(h *History) {
			h.Log[2].State.Attempts[0].Decision.Code = envelope.CodeLost
		}},
		{"refused with effect none after an effect", "P7 honest", paid,
			func(h *History) { h.Asks[0].Sent, h.Asks[0].Actor = epoch.Add(time.Hour), "a" }},
		{"unrecorded refusal that is not for good", "P4 denied", paid,
			func(h *History) { h.Asks[0].Answers[0].Provenance.AuditEventID = "gate.0" }},
		{"counted, though on record by itself", "P4 denied", paid,
			func(h *History) { h.Asks[0].Answers[0].Provenance.Counted = 1 }},
		{"not counted, though in a count", "P4 denied", flooded,
			func(h *History) { h.Asks[0].Answers[0].Provenance.Counted = 0 }},
		{"more than were counted", "P4 denied", flooded,
			func(h *History) { h.Asks[1].Answers[0].Provenance.Counted = 3 }},
		{"counted as another", "P4 denied", flooded, func(h *History) { h.Asks[1].Answers[0].Provenance.Counted = 1 }},
		{"a count that was not opened", "P4 denied", flooded,
			func(h *History) { h.Asks, h.Audit = nil, h.Audit[1:] }},
		{"effect said to be none", "P7 honest", paid, func(h *History) { h.Effects[1].Attempt = 1 }},
		{"effect said to be applied", "P7 honest", paid, func(h *History) { h.Effects = h.Effects[:1] }},
		{"output of a run without effect", "P7 honest", paid, func(h *History) { h.Effects[1].PID = 8 }},
		{"claimed, and said not to have been started", "P7 not started", paid,
			func(h *History) { h.Asks[2].Answers[0].Provenance.NotStarted = true }},
		{"started, and said not to have been", "P7 not started", put,
			func(h *History) {
				h.Log[1].State.Attempts[0].Claim = nil
				h.Asks[0].Answers[0].Provenance.NotStarted = true
			}},
		{"started though unclaimed", "P7 honest", paid, func(h *History) { h.Effects[0].Attempt = 1 }},
		{"decided twice", "log", paid, func(h *History) { h.Log = append(h.Log, h.Log[len(h.Log)-1]) }},
		{"claimed twice", "log", paid, func(h *History) { h.Log = slices.Insert(h.Log, 5, h.Log[4]) }},
		{"claim forgotten", "log", put, func(h *History) { h.Log[2].State.Attempts[0].Claim = nil }},
		{"facts changed", "log", put, func(h *History) { h.Log[2].State.Version = "2.0.0" }},
		{"a newer build's member forgotten", "log", put, func(h *History) { h.Log[0].State.Attempts[0].More = "|added" }},
		{"attempt forgotten", "log", paid, func(h *History) { h.Log = h.Log[2:] }},
		{"unrecorded event", "audit", put, func(h *History) { h.Audit = h.Audit[:1] }},
		{"doubled record", "audit", put, func(h *History) { h.Audit = append(h.Audit, h.Audit[1]) }},
		{"record out of order", "audit", put, func(h *History) { h.Audit[0], h.Audit[1] = h.Audit[1], h.Audit[0] }},
		{"record that differs", "audit", put, func(h *History) { h.Audit[0].Record.ToolVersion = "2.0.0" }},
		{"record of nothing", "audit", put, func(h *History) { h.Log = h.Log[1:] }},
		{"a gap", "chunks", put, func(h *History) { h.Asks[0].Chunks = slices.Delete(h.Asks[0].Chunks, 1, 2) }},
		{"a doubled chunk", "chunks", put, func(h *History) {
			h.Asks[0].Chunks = append(h.Asks[0].Chunks,
				h.Asks[0].Chunks[2])
		}},
		{"another run at the end", "chunks", put,
			func(h *History) { h.Asks[0].Chunks = append(h.Asks[0].Chunks, h.Asks[0].Chunks[0]) }},
		{"another run in the middle", "chunks", put, func(h *History) { h.Asks[0].Chunks[2].Fence++ }},
		{"mixed runs", "chunks", put, func(h *History) { h.Asks[0].Chunks[1].Data = h.Asks[0].Chunks[0].Data }},
		{"missing chunks", "chunks", put, func(h *History) { h.Asks[0].Chunks = h.Asks[0].Chunks[:2] }},
		{"cancelled and started", "cancel", paid, func(h *History) { h.Effects[0].Attempt = 1 }},
		{"cancelled and decided otherwise", "cancel", paid, func(h *History) { h.Cancels[0].CallID = ids[1] }},
		{"cancelled, told another outcome", "cancel", paid,
			func(h *History) { h.Cancels[0].Response = h.Asks[2].Answers[0] }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := tc.from(t)
			tc.hurt(&w.h)
			found := Check(w.h)
			if !slices.ContainsFunc(found, func(v Violation) bool { return v.Rule == tc.rule }) {
				t.Errorf("not found by %q; found %v", tc.rule, found)
			}
		})
	}
}

func TestSavedHistoryIsTheSame(t *testing.T) {
	for name, w := range map[string]*world{"paid": paid(t), "put": put(t)} {
		w.h.Effects = w.h.Effects[:1]
		var file bytes.Buffer
		if err := w.h.Save(&file); err != nil {
			t.Fatal(err)
		}
		h, err := Load(&file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(Check(w.h), Check(h)); diff != "" || len(Check(h)) == 0 {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestEveryRuleIsTold(t *testing.T) {
	for _, r := range Rules() {
		if r.Name == "" || !strings.Contains(r.Says, " ") {
			t.Errorf("%+v", r)
		}
	}
}

// TestMemberAdded checks that a newer build may add members to events of an older one.
func TestMemberAdded(t *testing.T) {
	w := put(t)
	for _, e := range w.h.Log[1:] {
		e.State.Attempts[0].More = "|added"
	}
	if found := Check(w.h); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

// If its dispatcher is frozen, a joiner answers itself at its own deadline, when that is earlier than the deadline of
// the attempt.
func TestJoinersAnswerThemselves(t *testing.T) {
	w := paid(t)
	joined := w.h.Asks[2]
	joined.Due = joined.Due.Add(-time.Second)
	joined.Done = joined.Due.Add(100 * time.Millisecond)
	joined.Answers = []*envelope.Response{envelope.Failure(joined.CallID, envelope.NewError(envelope.CodeTimeout, ""),
		envelope.Provenance{}, envelope.Metrics{})}
	w.h.Asks = append(w.h.Asks, joined)
	if found := Check(w.h); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

// TestStalledCallersAreNotJudged checks that a late answer is no violation if control timers were late.
func TestStalledCallersAreNotJudged(t *testing.T) {
	w := paid(t)
	w.h.Asks[2].Done = w.h.Asks[2].Due.Add(time.Second)
	w.h.Asks[2].StalledMS = 21
	if found := Check(w.h); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}
