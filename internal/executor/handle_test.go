package executor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/executor"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

const callA, callB = "aaaaaaaa-0000-4000-8000-000000000000", "bbbbbbbb-0000-4000-8000-000000000000"

// each runs the test for every effect class, under fake time.
func each(t *testing.T, test func(t *testing.T, w *world)) {
	for _, class := range []call.EffectClass{call.Pure, call.Idempotent, call.SideEffectful} {
		t.Run(string(class), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, newWorld(t, class)) })
		})
	}
}

func (w *world) wantAcked(m executor.Message, want bool) {
	w.t.Helper()
	h := m.Lease.(*holding)
	h.mu.Lock()
	defer h.mu.Unlock()
	if (h.acked == 1) != want || (len(h.handedBack) == 1) == want {
		w.t.Errorf("acked %d times, handed back %v; want acked: %t", h.acked, h.handedBack, want)
	}
}

func again(m executor.Message) executor.Message {
	return executor.Message{Entry: m.Entry, Deliveries: m.Deliveries + 1, Lease: &holding{over: make(chan struct{}, 2)}}
}

func TestSuccess(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.admit(callA, time.Minute)
		w.ex.Handle(t.Context(), m)
		d := w.decided(1)
		effect := envelope.EffectApplied
		if w.manifest.Class == call.Pure {
			effect = envelope.EffectNone
		}
		if d.Status != envelope.Success || d.Effect != effect || d.By != call.ByExecutor {
			t.Errorf("decision %+v", d)
		}
		w.wantAcked(m, true)
		if len(w.replies) != 1 || w.replies[0].CallID != callA || w.replies[0].Provenance.AuditEventID == "" {
			t.Errorf("replies %+v", w.replies)
		}
		writes := map[call.EffectClass]int{call.Pure: 2, call.Idempotent: 2, call.SideEffectful: 3}[w.manifest.Class]
		if n := len(w.log.Entries()); n != writes {
			t.Errorf("%d durable writes, want %d", n, writes)
		}
	})
}

// A second delivery of a decided attempt delivers what is stored and runs nothing.
func TestRedeliveryAfterOutcome(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.admit(callA, time.Minute)
		w.ex.Handle(t.Context(), m)
		second := again(m)
		w.executor("default/e2").Handle(t.Context(), second)
		w.wantAcked(second, true)
		if len(w.runs) != 1 || len(w.replies) != 2 || string(w.replies[0].Output) != string(w.replies[1].Output) {
			t.Errorf("%d runs, %d replies", len(w.runs), len(w.replies))
		}
		w.decided(1)
	})
}

// The context of a run has the deadline of the call, for an adapter to hand on to whoever holds it where this process
// cannot.
func TestDeadlineIsHandedOn(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		due := time.Now().Add(3 * time.Second)
		w.execute = func(ctx context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
			if end, ok := ctx.Deadline(); !ok || !end.Equal(due) {
				t.Errorf("the run ends at %v, %t; want %v", end, ok, due)
			}
			return tool.Result{Output: inv.Input}, nil
		}
		w.ex.Handle(t.Context(), w.admit(callA, 3*time.Second))
	})
}

// A tool gets the traceparent of its run's span. Without an exporter, each run gets one of its own.
func TestTraceparent(t *testing.T) {
	const span = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	each(t, func(t *testing.T, w *world) {
		w.ex.Handle(t.Context(), w.admit(callA, time.Minute))
		w.ex.Trace.Begin = func(ctx context.Context, e call.TraceEvent) (context.Context, string, func(call.TraceEvent)) {
			return ctx, span, func(call.TraceEvent) {}
		}
		w.ex.Handle(t.Context(), w.admitAs("other", callB, time.Minute))
		if len(w.runs) != 2 || len(w.runs[0].Traceparent) != len(span) || w.runs[1].Traceparent != span {
			t.Errorf("%+v", w.runs)
		}
	})
}

func TestDeadline(t *testing.T) {
	want := map[call.EffectClass]call.Decision{
		call.Pure:       {Code: envelope.CodeTimeout, Effect: envelope.EffectNone, Status: envelope.RetryableError},
		call.Idempotent: {Code: envelope.CodeTimeout, Effect: envelope.EffectUnknown, Status: envelope.RetryableError},
		call.SideEffectful: {Code: envelope.CodeTimeoutUnknown, Effect: envelope.EffectUnknown,
			Status: envelope.TerminalError},
	}
	each(t, func(t *testing.T, w *world) {
		w.execute = func(ctx context.Context, _ tool.Invocation, _ tool.Sink) (tool.Result, error) {
			<-ctx.Done()
			return tool.Result{}, &tool.StoppedError{Cause: context.Cause(ctx)}
		}
		started := time.Now()
		m := w.admit(callA, 3*time.Second)
		w.ex.Handle(t.Context(), m)
		if took := time.Since(started); took < 2990*time.Millisecond || took > 3010*time.Millisecond {
			t.Errorf("ended after %s", took)
		}
		d, want := w.decided(1), want[w.manifest.Class]
		if d.Code != want.Code || d.Effect != want.Effect || d.Status != want.Status {
			t.Errorf("decision %+v, want %+v", d, want)
		}
		last := w.replies[len(w.replies)-1]
		if last.Error == nil || last.Error.Cause != "it waited 0s in the queue, ran 3s and was ended then" {
			t.Errorf("the cause does not say where the time went: %+v", last.Error)
		}
	})
}

// A tool gets its deadline by the clock of its host, which may be wrong: bus time is elsewhere.
func TestDeadlineOfTool(t *testing.T) {
	for _, ahead := range []time.Duration{30 * time.Second, -30 * time.Second} {
		t.Run(ahead.String(), func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				w.ex.Now = func() time.Time { return time.Now().Add(ahead) }
				w.ex.Handle(t.Context(), w.admit(callA, ahead+40*time.Second))
				if left := time.Until(w.runs[0].Deadline).Round(time.Millisecond); left != 40*time.Second {
					t.Errorf("the tool believes to have %s", left)
				}
			})
		})
	}
}

// What is dequeued past its deadline is not run.
func TestExpiredInQueue(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.admit(callA, 2*time.Second)
		pass(2 * time.Second)
		w.ex.Handle(t.Context(), m)
		d := w.decided(1)
		if len(w.runs) != 0 || d.Code != envelope.CodeUnavailable || !d.NotTaken || d.Effect != envelope.EffectNone {
			t.Errorf("%d runs, decision %+v", len(w.runs), d)
		}
	})
}

// A claimed side-effectful call whose claimer is gone never runs again (C7); others do. The log names the claimer.
func TestClaimerGone(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		var log strings.Builder
		w.ex.Logger = slog.New(slog.NewTextHandler(&log, nil))
		counted := 0
		w.ex.Trace.Event = func(_ context.Context, s call.TraceEvent) {
			if a, _ := s.State.Attempt(s.Attempt); s.At == call.TraceTakenOver && a.Claim.By == "default/dead" {
				counted++
			}
		}
		m := w.claimed("default/dead")
		w.gone["default/dead"] = true
		w.ex.Handle(t.Context(), m)
		next := "the tool runs again"
		if w.manifest.Class == call.SideEffectful {
			next = "the tool does not run again, only its lookup may confirm the effect"
		}
		if warns := "level=WARN msg=\"the executor of a run is gone: " + next + "\" tool=echo ref=" + w.state().Ref() +
			" attempt=1 lost=default/dead\n"; counted != 1 || !strings.Contains(log.String(), warns) {
			t.Errorf("taken over %d times, logged %s", counted, &log)
		}
		d := w.decided(1)
		if w.manifest.Class != call.SideEffectful {
			if d.Status != envelope.Success || len(w.runs) != 1 {
				t.Errorf("%d runs, decision %+v", len(w.runs), d)
			}
			return
		}
		if len(w.runs) != 0 || d.Code != envelope.CodeToolUnknownState || d.Effect != envelope.EffectUnknown {
			t.Errorf("%d runs, decision %+v", len(w.runs), d)
		}
	})
}

// claimed returns the second delivery of an attempt that instance has claimed.
func (w *world) claimed(instance string) executor.Message {
	m := w.admit(callA, time.Minute)
	_, claim := call.Take(w.state(), call.WorkDelivery{
		Attempt: 1, Admitted: m.Entry.State.Seq, Deliveries: 2, By: instance, Nonce: "claim-of-" + instance,
		Now: call.At(time.Now()), Gone: func(string) bool { return false },
	})
	if _, err := w.log.Write(w.t.Context(), claim, nil); err != nil {
		w.t.Fatal(err)
	}
	return again(m)
}

// A claim of a live executor is waited for, not taken over.
func TestClaimerAlive(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.claimed("default/busy")
		var log strings.Builder
		w.ex.Logger = slog.New(slog.NewTextHandler(&log, nil))
		w.ex.Handle(t.Context(), m)
		w.wantAcked(m, false)
		if len(w.runs) != 0 || strings.Contains(log.String(), "is gone") {
			t.Errorf("took over a live claim: %s", &log)
		}
	})
}

// lookup may only confirm. The log and the answer say whether it was asked, and what it answered.
func TestLookup(t *testing.T) {
	for name, c := range map[string]struct {
		admitted call.Lookup
		without  bool // the build that is here has no lookup
		found    bool
		err      error
		want     envelope.Code
		answer   call.LookupAnswer
		says     string // the message and the cause of the error
	}{
		"found":             {found: true},
		"admitted with one": {admitted: call.LookupYes, found: true},
		"admitted without one": {
			admitted: call.LookupNo, found: true, want: envelope.CodeToolUnknownState, answer: call.LookupUndeclared,
			says: "the process that ran the call is gone, and the tool declares no lookup that could say whether its effect " +
				"took place|",
		},
		"here without one": {
			without: true, found: true, want: envelope.CodeToolUnknownState, answer: call.LookupUndeclared,
			says: "the process that ran the call is gone, and the tool declares no lookup that could say whether its effect " +
				"took place|",
		},
		"absent": {
			want: envelope.CodeToolUnknownState, answer: call.LookupAbsent,
			says: "the process that ran the call is gone; the lookup of the tool was asked and found no effect, which does " +
				"not prove that nothing was done|",
		},
		"fails": {
			err: &tool.CrashError{How: "exit status 3"}, want: envelope.CodeToolUnknownState, answer: call.LookupFailed,
			says: "the process that ran the call is gone; the lookup of the tool was asked and gave no answer|" +
				"S-TOOL-001: the tool ended without an answer: exit status 3",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, call.SideEffectful)
				w.manifest.Capability.Lookup, w.admitted = !c.without, c.admitted
				w.lookup = func(inv tool.Invocation) (tool.Result, bool, error) {
					if c.admitted == call.LookupNo || c.without {
						t.Error("the tool is asked")
					}
					if run := w.state().Last().Claim.Fence; inv.Fence != run {
						t.Errorf("the lookup has fence %d, the run had %d", inv.Fence, run)
					}
					return tool.Result{Output: inv.Input}, c.found, c.err
				}
				m := w.claimed("default/dead")
				w.gone["default/dead"] = true
				w.ex.Handle(t.Context(), m)
				d := w.decided(1)
				if d.Code != c.want || d.Answer != c.answer || len(w.runs) != 0 {
					t.Errorf("%d runs, decision %+v", len(w.runs), d)
				}
				if c.want == "" && d.Effect != envelope.EffectApplied {
					t.Errorf("effect %s", d.Effect)
				}
				if told := slices.Contains(w.replies[0].Warnings, call.FoundByLookup); told != (c.want == "") {
					t.Errorf("warnings: %q", w.replies[0].Warnings)
				}
				if e := w.replies[0].Error; c.want != "" && e.Message+"|"+e.Cause != c.says {
					t.Errorf("it says %s|%s", e.Message, e.Cause)
				}
			})
		})
	}
}

// A call whose claims count as MaxDeaths deaths is a poison call: kept in DEAD, then decided lost. Both say the same of
// its effect.
func TestPoison(t *testing.T) {
	for class, effect := range map[call.EffectClass]envelope.Effect{
		call.Idempotent: envelope.EffectUnknown, call.Pure: envelope.EffectNone,
	} {
		t.Run(string(class), func(t *testing.T) { poison(t, class, effect) })
	}
}

func poison(t *testing.T, class call.EffectClass, effect envelope.Effect) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, class)
		m := w.admit(callA, time.Hour)
		w.gone["default/dead"] = true
		for i := range 2 * call.MaxDeaths {
			step, claim := call.Take(w.state(), call.WorkDelivery{
				Attempt: 1, Admitted: m.Entry.State.Seq, Deliveries: 2, By: "default/dead", Nonce: string(rune('a' + i)),
				Now: call.At(time.Now()), Gone: func(string) bool { return true },
			})
			if step != call.TakeClaim {
				t.Fatalf("claim %d: step %d", i+1, step)
			}
			if _, err := w.log.Write(t.Context(), claim, nil); err != nil {
				t.Fatal(err)
			}
		}
		w.unkept = errors.New("no room for dead letters")
		unburied := again(m)
		w.ex.Handle(t.Context(), unburied)
		w.wantAcked(unburied, false)
		if !w.state().Last().Open() {
			t.Error("decided before it was kept")
		}
		w.unkept, w.dead = nil, 0
		w.ex.Handle(t.Context(), again(m))
		d := w.decided(1)
		if d.Code != envelope.CodeLost || d.Effect != effect || w.dead != 1 || len(w.runs) != 0 {
			t.Errorf("%d runs, %d dead letters, decision %+v", len(w.runs), w.dead, d)
		}
		if said := w.causeOfDeath; said.Code != d.Code || said.Details.Effect != d.Effect {
			t.Errorf("the letter says %s, effect %s; the outcome says %s, effect %s", said.Code, said.Details.Effect, d.Code,
				d.Effect)
		}
		if c := w.buried.Last().Claim; c == nil || c.Count != 2*call.MaxDeaths || c.By != "default/dead" || c.Fence == 0 {
			t.Errorf("the letter does not say who claimed it last, and how many did: %+v", c)
		}
	})
}

// Whoever loses the decision adopts the other's, and records its own result as late.
func TestLateResult(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		told := 0
		w.ex.Trace.Event = func(_ context.Context, s call.TraceEvent) {
			if s.At == call.TraceLate {
				told++
			}
		}
		m := w.admit(callA, time.Minute)
		w.execute = func(_ context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
			s := w.state()
			r := call.Decide(s, 1, m.Entry.State.Seq, call.Completion{Cause: call.TimedOut, By: call.ByDeadline,
				Nonce: "guardian", Now: call.At(time.Now())})
			if _, err := w.log.Write(t.Context(), r.Event, outcomeBody(t, r.Code)); err != nil {
				t.Error(err)
			}
			return tool.Result{Output: inv.Input}, nil
		}
		w.ex.Handle(t.Context(), m)
		d := w.decided(1)
		if d.By != call.ByDeadline || len(w.late) != 1 || w.late[0] != "" || told != 1 {
			t.Errorf("decision %+v, late %v, %d steps of late results", d, w.late, told)
		}
		if len(w.replies) != 1 || w.replies[0].Status == envelope.Success {
			t.Errorf("replies %+v", w.replies)
		}
	})
}

// An outcome of another that cannot be read leaves nothing to do: the work is acknowledged, and the run's own result is
// on record.
func TestAnothersUnreadableOutcome(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.admit(callA, time.Minute)
		w.execute = func(_ context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
			s := w.state()
			r := call.Decide(s, 1, m.Entry.State.Seq, call.Completion{Cause: call.ClaimLost, By: call.ByExecutor,
				Nonce: "other.1", Now: call.At(time.Now())})
			if _, err := w.log.Write(t.Context(), r.Event, []byte("garbage")); err != nil {
				t.Error(err)
			}
			return tool.Result{Output: inv.Input}, nil
		}
		w.ex.Handle(t.Context(), m)
		w.wantAcked(m, true)
		if len(w.late) != 1 || len(w.replies) != 0 {
			t.Errorf("late %v, replies %+v", w.late, w.replies)
		}
		m = again(m)
		w.ex.Handle(t.Context(), m)
		w.wantAcked(m, true)
	})
}

// Of two runs that succeed, the one that loses is a late result where its output is another one.
func TestLateOutput(t *testing.T) {
	for output, want := range map[string]int{`{"n":1}`: 0, `{"n":2}`: 1} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, call.Idempotent)
			m := w.admit(callA, time.Minute)
			other := w.executor("default/e2")
			runs := 0
			w.execute = func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
				if runs++; runs > 1 {
					return tool.Result{Output: []byte(`{"n":1}`)}, nil
				}
				other.Handle(t.Context(), again(m)) // the first is silent for longer than its lease
				return tool.Result{Output: []byte(output)}, nil
			}
			w.ex.Handle(t.Context(), m)
			if d := w.decided(1); d.Status != envelope.Success || runs != 2 || len(w.late) != want {
				t.Errorf("output %s: %d runs, decision %+v, %d late results", output, runs, d, len(w.late))
			}
		})
	}
}

func outcomeBody(t *testing.T, code envelope.Code) []byte {
	t.Helper()
	p := envelope.Provenance{ToolID: "echo", ToolVersion: "1.0.0", Final: true}
	r := envelope.Failure(callA, envelope.NewError(code, ""), p, envelope.Metrics{})
	raw, err := envelope.EncodeResponse(envelope.ContentJSON, r)
	if err != nil {
		t.Fatal(err)
	}
	return append(append([]byte(`{"response":`), raw...), '}')
}

// A lost acknowledgement of the outcome is not a lost outcome: the redelivery adopts it.
func TestUnsureOutcome(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.admit(callA, time.Minute)
		w.log.Lost(func(e call.Event) bool { return e.Kind == call.Decided })
		w.ex.Handle(t.Context(), m)
		w.wantAcked(m, false)
		w.log.Lost(nil)
		second := again(m)
		w.ex.Handle(t.Context(), second)
		w.wantAcked(second, true)
		if d := w.decided(1); d.Status != envelope.Success || len(w.runs) != 1 {
			t.Errorf("%d runs, decision %+v", len(w.runs), d)
		}
	})
}

// A work message that is not of the present admission does nothing.
func TestOldMessage(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.admit(callA, time.Minute)
		w.log.Drop(call.Requested)
		w.admit(callB, time.Minute)
		old := again(m)
		w.ex.Handle(t.Context(), old)
		w.wantAcked(old, true)
		if len(w.runs) != 0 || !w.state().Last().Open() {
			t.Error("an old message ran or decided a new admission")
		}
	})
}

func TestToolErrors(t *testing.T) {
	for name, c := range map[string]struct {
		class call.EffectClass
		err   error
		want  envelope.Code
	}{
		"declared": {call.Idempotent, &tool.Error{Code: "fetch_failed", Message: "no"},
			"R-UPSTREAM-FETCH_FAILED"},
		"crash pure":           {call.Pure, &tool.CrashError{How: "exit status 3"}, envelope.CodeToolFault},
		"crash side-effectful": {call.SideEffectful, &tool.CrashError{How: "exit status 3"}, envelope.CodeToolUnknownState},
		"none, side-effectful": {call.SideEffectful, &tool.Error{Code: "fetch_failed", Effect: envelope.EffectNone},
			"R-UPSTREAM-FETCH_FAILED"},
		"silent, side-effectful": {call.SideEffectful, &tool.Error{Code: "fetch_failed"}, envelope.CodeToolUnknownState},
		"foreign error":          {call.Pure, errors.New("what"), envelope.CodeToolFault},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, c.class)
				w.manifest.Errors = map[string]tool.ErrorSpec{"fetch_failed": {Name: "fetch_failed", Class: envelope.ClassUpstream}}
				w.execute = func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) { return tool.Result{}, c.err }
				w.ex.Handle(t.Context(), w.admit(callA, time.Minute))
				if d := w.decided(1); d.Code != c.want {
					t.Errorf("decision %+v, want %s", d, c.want)
				}
			})
		})
	}
}

// A tool fault may be tried once more; the second one is final.
func TestFaultTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, call.Pure)
		w.execute = func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
			return tool.Result{}, &tool.CrashError{How: "exit status 1"}
		}
		w.ex.Handle(t.Context(), w.admit(callA, time.Minute))
		w.ex.Handle(t.Context(), w.admit(callB, time.Minute))
		if cause := w.replies[1].Error.Cause; !strings.HasSuffix(cause, ": exit status 1") {
			t.Errorf("cause %q", cause)
		}
		if d := w.decided(2); d.Code != envelope.CodeToolFaultAgain || !w.state().Final() {
			t.Errorf("decision %+v", d)
		}
		if got := w.replies[1].Provenance.Attempt; got != 2 {
			t.Errorf("attempt %d", got)
		}
		last, _ := w.log.Read(t.Context(), "echo", "id1")
		if o, ok, err := last.Outcome(1); !ok || err != nil || !strings.Contains(string(o.Response), callA) {
			t.Errorf("the outcome of attempt 1 was not carried forward: %v %v", ok, err)
		}
	})
}

// What a tool says of its error is kept where the decision states another code. A repeated fault of a tool names the
// tool's owner. What is stored names neither call nor trace a second time.
func TestFaultKeepsDetails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, call.Pure)
		w.manifest.Owner = "@team\x1b" + strings.Repeat("x", 2*envelope.MaxID)
		w.execute = func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
			details := jsontext.Value(`{"disk":"b","owner":"me","call_id":1,"attempt":{}}`)
			return tool.Result{}, &tool.Error{Code: "io_error", Message: "no", Details: details}
		}
		w.ex.Handle(t.Context(), w.admit(callA, time.Minute))
		w.ex.Handle(t.Context(), w.admit(callB, time.Minute))
		e := w.replies[1].Error
		if e.Code != envelope.CodeToolFaultAgain || string(e.Details.Extra["disk"]) != `"b"` ||
			e.Details.ToolCode != "io_error" {
			t.Errorf("%s: %+v", e, e.Details)
		}
		for i, r := range w.replies {
			of := r.Error.Details.Extra
			owner := string(of["owner"])
			if owned := strings.HasPrefix(owner, `"@team`) && len(owner) <= envelope.MaxID+len(`""`); owned != (i == 1) ||
				string(of["call_id"]) != `"`+r.CallID+`"` || string(of["attempt"]) != fmt.Sprint(i+1) ||
				string(of["tool_id"]) != `"echo"` || string(of["tool_version"]) != `"1.0.0"` {
				t.Errorf("attempt %d: %s", i+1, of)
			}
		}
		last, _ := w.log.Read(t.Context(), "echo", "id1")
		if a := last.State.Attempts; a[0].Decision.Owner != "" || !strings.HasPrefix(a[1].Decision.Owner, "@team") {
			t.Errorf("the log has the owners %q and %q", a[0].Decision.Owner, a[1].Decision.Owner)
		}
		if stored := string(last.Body); strings.Contains(stored, `"attempt":2,"call_id"`) ||
			strings.Count(stored, callB) != 1 || strings.Count(stored, "@team") != 1 {
			t.Errorf("%s", stored)
		}
	})
}

func TestOutputRules(t *testing.T) {
	for name, c := range map[string]struct {
		output string
		want   envelope.Code
	}{
		"wrong type": {`[1]`, envelope.CodeOutput},
		"large":      {`{"x":"` + strings.Repeat("x", envelope.MaxInline) + `"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, call.Idempotent)
				w.execute = func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
					return tool.Result{Output: jsontext.Value(c.output)}, nil
				}
				w.ex.Handle(t.Context(), w.admit(callA, time.Minute))
				if d := w.decided(1); d.Code != c.want {
					t.Errorf("decision %+v", d)
				}
				r := w.replies[0]
				if c.want == "" && (r.Provenance.OutputRef == nil || len(r.Output) != 0) {
					t.Errorf("a large output travelled inline")
				}
			})
		})
	}
}

// A large output that cannot be stored holds its slot until just before the deadline: at the deadline
// itself somebody else may decide, who does not know why it has not ended.
func TestPayloadStoreFull(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.full = true
		w.execute = func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
			return tool.Result{Output: jsontext.Value(`{"x":"` + strings.Repeat("x", envelope.MaxInline) + `"}`)}, nil
		}
		m, begun := w.admit(callA, time.Minute), time.Now()
		w.ex.Handle(t.Context(), m)
		if took := time.Since(begun); took != time.Minute-time.Second/2 {
			t.Errorf("it took %s", took)
		}
		want := envelope.CodeStoreFull
		if w.manifest.Class == call.SideEffectful {
			want = envelope.CodeToolUnknownState
		}
		if d := w.decided(1); d.Code != want {
			t.Errorf("decision %+v", d)
		}
		w.wantAcked(m, true)
	})
}

// Fences grow from run to run.
func TestFencesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, call.Idempotent)
		w.execute = func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
			return tool.Result{}, &tool.Error{Code: "x", Effect: envelope.EffectNone}
		}
		w.manifest.Errors = map[string]tool.ErrorSpec{"x": {Name: "x", Class: envelope.ClassUpstream}}
		w.ex.Handle(t.Context(), w.admit(callA, time.Minute))
		w.ex.Handle(t.Context(), w.admit(callB, time.Minute))
		if w.runs[0].Fence >= w.runs[1].Fence || w.runs[1].Attempt != 2 {
			t.Errorf("fences %d, %d", w.runs[0].Fence, w.runs[1].Fence)
		}
	})
}

// A server that was killed forgets how often it delivered. What was admitted before the executor
// reconnected is claimed before it runs, so that two runs never share a fence.
func TestForgottenDelivery(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.admit(callA, time.Minute)
		w.execute = func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
			return tool.Result{}, errors.New("its executor was killed")
		}
		w.log.Lost(func(e call.Event) bool { return e.Kind == call.Decided })
		w.log.Before(func(e call.Event) error {
			if e.Kind == call.Decided {
				return call.ErrUnsure
			}
			return nil
		})
		w.ex.Handle(t.Context(), m)
		w.log.Before(nil)
		w.log.Lost(nil)
		other := w.executor("default/e2")
		other.ControlReady()
		w.gone["default/e1"] = true
		first := m
		first.Lease = &holding{over: make(chan struct{}, 2)}
		other.Handle(t.Context(), first)
		if w.manifest.Class != call.SideEffectful && (len(w.runs) != 2 || w.runs[0].Fence >= w.runs[1].Fence) {
			t.Errorf("runs %+v", w.runs)
		}
	})
}

// A result is kept until a full log takes it: the tool is not run for it again.
func TestResultWhileFull(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.admit(callA, time.Minute)
		w.log.Before(func(e call.Event) error {
			if e.Kind == call.Decided {
				return call.ErrFull
			}
			return nil
		})
		done := make(chan struct{})
		go func() { defer close(done); w.ex.Handle(t.Context(), m) }()
		pass(20 * time.Second)
		w.log.Before(nil)
		<-done
		if d := w.decided(1); d.Status != envelope.Success || len(w.runs) != 1 {
			t.Errorf("%+v after %d runs", d, len(w.runs))
		}
		w.wantAcked(m, true)
	})
}

// The admission is lost while the tool runs: what happened is still told, and
// nobody runs it again for that key.
func TestRecordLostDuringRun(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		m := w.admit(callA, time.Minute)
		w.execute = func(_ context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
			w.log.LoseTail(0)
			return tool.Result{Output: inv.Input}, nil
		}
		w.ex.Handle(t.Context(), m)
		if d := w.decided(1); d.Status != envelope.Success || d.Seq != 1 {
			t.Errorf("%+v", d)
		}
		if len(w.replies) != 1 || w.replies[0].Status != envelope.Success {
			t.Errorf("replies %v", w.replies)
		}
		w.wantAcked(m, true)
	})
}

// The admission is lost, and the key is admitted anew, while the tool runs: what ran has no
// attempt any more, and decides nothing.
func TestReadmittedDuringRun(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		first := w.admit(callA, time.Minute)
		w.execute = func(_ context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
			w.log.LoseTail(0)
			for n := range 3 { // so that the new admission has another position than the old claim
				other := call.Event{Kind: call.Joined, State: call.State{
					Pinned: call.Pinned{Tool: "echo", ID: fmt.Sprint("other", n)},
				}}
				if _, err := w.log.Write(t.Context(), other, nil); err != nil {
					t.Error(err)
				}
			}
			w.admit("B", time.Minute)
			return tool.Result{Output: inv.Input}, nil
		}
		w.ex.Handle(t.Context(), first)
		if a, _ := w.state().Attempt(1); !a.Open() || len(w.replies) != 0 {
			t.Errorf("%+v, replies %v", a, w.replies)
		}
		w.wantAcked(first, true)
	})
}
