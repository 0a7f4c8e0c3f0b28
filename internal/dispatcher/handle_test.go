package dispatcher_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/calltest"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

func bubble(t *testing.T, class call.EffectClass, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, start(t, class)) })
}

// A new key costs one write and no read, and the caller is told that it is accepted.
func TestAdmit(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		if len(w.log.Entries()) != 1 || w.acceptedBy(1) != 1 {
			t.Fatalf("%d writes, accepted %d times", len(w.log.Entries()), w.acceptedBy(1))
		}
		a := w.accepted["inbox1"][0]
		if a.CallID != uuid(1) || a.Ref != w.state().Ref() || a.Attempt != 1 || a.ToolVersion != "1.2.3" {
			t.Errorf("accepted %+v", a)
		}
		if open, from := w.d.Watching(), w.d.Deadlines.ReplayFrom(0); open != 1 || from != 1 {
			t.Errorf("watching %d from %d", open, from)
		}
		w.decide("")
		if open, from := w.d.Watching(), w.d.Deadlines.ReplayFrom(0); open != 0 || from != 0 {
			t.Errorf("watching %d from %d", open, from)
		}
	})
}

// A dispatcher logs admissions with level DEBUG, and nothing of an input.
func TestLogsAdmissions(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		var out bytes.Buffer
		w.d.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		w.ask(1)
		admitted := out.String()
		if !strings.Contains(admitted, "level=DEBUG msg=admitted tool=echo version=1.2.3") ||
			!strings.Contains(admitted, "call_id="+uuid(1)) || strings.Count(admitted, "\n") != 1 {
			t.Errorf("logged %s", admitted)
		}
	})
}

// Whoever writes subjects wrongly is told which token is none, and how they are written, whatever the body is.
func TestMisnamed(t *testing.T) {
	for name, body := range map[string]string{"with a call id": "", "without": "x"} {
		bubble(t, call.Pure, func(t *testing.T, w *world) {
			in := w.request(1)
			in.Subject, in.Tool, in.Misnamed = "tb.call.t.agent.ec_zz", "", errors.New(`no token: "ec_zz"`)
			id := uuid(1)
			if body != "" {
				in.Body, id = []byte(body), envelope.NoCallID
			}
			w.d.Handle(t.Context(), in)
			r := w.outcome(1)
			if r.CallID != id || r.Error.Code != envelope.CodeMalformed || !r.Provenance.Final ||
				r.Provenance.AuditEventID == "" || r.Check() != nil {
				t.Errorf("%s: %+v", name, r)
			}
			if !strings.Contains(r.Error.Message, `"ec_zz"`) || !strings.Contains(r.Error.Fix, "two lower-case hex digits") {
				t.Errorf("%s: %s; %s", name, r.Error.Message, r.Error.Fix)
			}
			if n := len(w.refusals()); n != 1 || len(w.log.Entries()) != 0 {
				t.Errorf("%s: %d records, %d events", name, n, len(w.log.Entries()))
			}
		})
	}
}

// What is refused leaves no log, is recorded once, and says what is wrong.
func TestRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		edit  []string
		setup func(*world)
		want  envelope.Code
	}{
		"not JSON":      {edit: []string{`{"call_id"`, `{call_id`}, want: envelope.CodeMalformed},
		"unknown field": {edit: []string{`"fn":`, `"fnn":1,"fn":`}, want: envelope.CodeSchema},
		"bad input":     {edit: []string{`{"n":1}`, `{"n":"x","m":1}`}, want: envelope.CodeSchema},
		"foreign actor": {edit: []string{`"actor_id":"agent"`, `"actor_id":"boss"`}, want: envelope.CodeIdentity},
		"foreign tool":  {edit: []string{`"tool_id":"echo"`, `"tool_id":"rm"`}, want: envelope.CodeIdentity},
		"unknown tool":  {setup: func(w *world) { w.manifest.ToolID = "other" }, want: envelope.CodeToolUnknown},
		"unknown fn":    {edit: []string{`"fn":"say"`, `"fn":"sing"`}, want: envelope.CodeFnUnknown},
		"unsafe":        {edit: []string{`{"n":1}`, `{"n":1,"to":"../a"}`}, setup: takesPath, want: envelope.CodeUnsafe},
		"disabled": {setup: func(w *world) { w.manifest.Status = tool.StatusDisabled },
			want: envelope.CodeToolDisabled},
		"version": {edit: []string{`"1.x"`, `"2.x"`}, want: envelope.CodeVersion},
		"no dry run": {edit: []string{`"key-0123456789abcdef"}`, `"key-0123456789abcdef"},"dry_run":true`},
			want: envelope.CodeDryRun},
		"deadline passed": {edit: []string{`"deadline_unix_ms":9`, `"deadline_unix_ms":1`}, want: envelope.CodeTimeout},
		"audit behind":    {setup: func(w *world) { w.lag = 11 * time.Second }, want: envelope.CodeAuditLag},
		"store full":      {setup: func(w *world) { w.full = true }, want: envelope.CodeStoreFull},
		"over its share": {setup: func(w *world) { w.over = map[subjects.Owner]int64{{Tenant: "t", Actor: "agent"}: 2} },
			want: envelope.CodeStoreFull},
		"over its share of the record": {setup: func(w *world) { w.record = map[string]int64{"t": 2} },
			want: envelope.CodeAuditLag},
		"write too large": {setup: func(w *world) { w.log.Before(func(call.Event) error { return call.ErrTooLarge }) },
			want: envelope.CodeAttempts},
		"write full": {setup: func(w *world) { w.log.Before(func(call.Event) error { return call.ErrFull }) },
			want: envelope.CodeStoreFull},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, call.Pure, func(t *testing.T, w *world) {
				if c.setup != nil {
					c.setup(w)
				}
				w.ask(1, c.edit...)
				r := w.outcome(1)
				if r.Error == nil || r.Error.Code != c.want || r.Status != c.want.Status() {
					t.Fatalf("got %+v (%+v), want %s", r, r.Error, c.want)
				}
				if r.Error.Details.Effect != envelope.EffectNone || r.Provenance.Final == c.want.Retryable() ||
					r.Provenance.AuditEventID == "" || r.Error.Fix == "" {
					t.Errorf("effect %q, final %t, audit id %q, fix %q", r.Error.Details.Effect, r.Provenance.Final,
						r.Provenance.AuditEventID, r.Error.Fix)
				}
				if len(w.log.Entries()) != 0 || !slices.Equal(w.denied, []envelope.Code{c.want}) {
					t.Errorf("%d events, recorded %v", len(w.log.Entries()), w.denied)
				}
			})
		})
	}
}

// A bad input lists every violation, where it is.
func TestViolations(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1, `{"n":1}`, `{"n":"x","m":1}`)
		var at []string
		for _, v := range w.outcome(1).Error.Details.Violations {
			at = append(at, v.Pointer)
		}
		if len(at) != 2 || !strings.HasPrefix(at[0], "/input") || !strings.HasPrefix(at[1], "/input") {
			t.Errorf("violations at %v", at)
		}
	})
}

// What cannot be recorded is not answered.
func TestRefusalUnrecorded(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.gateErr = errors.New("audit is down")
		w.ask(1, `"fn":"say"`, `"fn":"sing"`)
		if w.answers() != 0 {
			t.Error("answered without a record")
		}
	})
}

// That a full record takes no denial is told, and the denial is not.
func TestRefusalWithoutRoomForItsRecord(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.gateErr = fmt.Errorf("gate: %w", audit.ErrRefused)
		w.ask(1, `"fn":"say"`, `"fn":"sing"`)
		r := w.outcome(1)
		if r.Error.Code != envelope.CodeAuditLag || r.Error.Details.Effect != envelope.EffectNone || r.Provenance.Final ||
			r.Provenance.AuditEventID != "" {
			t.Errorf("%+v, %+v", r.Error, r.Provenance)
		}
	})
}

// Side-effectful tools need a server that syncs, or the manifest's consent.
func TestDurability(t *testing.T) {
	bubble(t, call.SideEffectful, func(t *testing.T, w *world) {
		lax := w.dispatcher("d2", false)
		lax.Handle(t.Context(), w.request(1))
		refused := w.outcome(1).Error
		if refused.Code != envelope.CodeDurability || !strings.Contains(refused.Fix, "single-durable") ||
			!strings.Contains(refused.Fix, "--sync always") {
			t.Errorf("got %+v", refused)
		}
		w.manifest.AcceptRerun = true
		lax.Handle(t.Context(), w.request(2))
		if w.acceptedBy(2) != 1 {
			t.Error("not accepted")
		}
	})
}

// A thousand callers with one key cause one attempt and a handful of writes, and all get its
// outcome.
func TestThousandJoiners(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		const callers = 1000
		var wg sync.WaitGroup
		for n := range callers {
			wg.Go(func() { w.d.Handle(t.Context(), w.request(n)) })
		}
		wg.Wait()
		synctest.Wait()
		before := w.reads.Load()
		w.reading = time.Millisecond
		for n := range callers { // all ask again at the same time
			wg.Go(func() { w.d.Handle(t.Context(), w.request(n)) })
		}
		wg.Wait()
		synctest.Wait()
		if reads := w.reads.Load() - before; reads > 20 {
			t.Errorf("%d reads for %d callers that ask again", reads, callers)
		}
		w.reading = 0
		w.decide("")
		if writes := len(w.log.Entries()); writes > 20 {
			t.Errorf("%d writes", writes)
		}
		owner, told := w.state().Last().Owner.CallID, 0
		for n := range callers {
			if uuid(n) == owner {
				continue // told by the executor
			}
			if r := w.outcome(n); r.CallID == uuid(n) && r.Status == envelope.Success && string(r.Output) == `{"n":1}` {
				told++
			}
		}
		if told != callers-1 {
			t.Errorf("%d of %d joiners were told", told, callers-1)
		}
	})
}

func TestTooManyJoiners(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		var wg sync.WaitGroup
		for n := range call.MaxJoined + 3 {
			wg.Go(func() { w.d.Handle(t.Context(), w.request(n)) })
		}
		wg.Wait()
		synctest.Wait()
		if got := len(w.state().Last().Joined); got != call.MaxJoined {
			t.Errorf("%d joined", got)
		}
		if !slices.Equal(w.denied, []envelope.Code{envelope.CodeJoiners, envelope.CodeJoiners}) {
			t.Errorf("refused %v", w.denied)
		}
	})
}

func TestReplay(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		w.decide("")
		w.ask(2)
		r := w.outcome(2)
		if r.CallID != uuid(2) || !r.Provenance.Replayed || r.Status != envelope.Success || len(w.log.Entries()) != 2 {
			t.Errorf("%+v after %d events", r, len(w.log.Entries()))
		}
		w.ask(1)
		if again := w.outcome(1); again.Provenance.AuditEventID != r.Provenance.AuditEventID ||
			string(again.Output) != string(r.Output) {
			t.Errorf("%+v, %+v", again, r)
		}
	})
}

func TestOtherInput(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		w.ask(2, `{"n":1}`, `{"n":2}`)
		if got := w.outcome(2).Error.Code; got != envelope.CodeKeyReused {
			t.Errorf("in flight: %s", got)
		}
		w.decide("")
		w.ask(3, `{"n":1}`, `{"n":2}`)
		if got := w.outcome(3).Error.Code; got != envelope.CodeKeyReused {
			t.Errorf("decided: %s", got)
		}
	})
}

// The refusal of a reused key says whether the input differs, or what besides it.
func TestReusedKeySaysWhatDiffers(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		for n, c := range []struct{ from, to, says string }{
			{`{"n":1}`, `{"n":2}`, "with another input"},
			{`"env":"dev"`, `"env":"dev","scope":{"a":"b"}`, "with the same input and another context.scope or context.env"},
			{`"env":"dev"`, `"env":"prod"`, "with the same input and another context.scope or context.env"},
		} {
			w.ask(n+2, c.from, c.to)
			if e := w.outcome(n + 2).Error; e.Code != envelope.CodeKeyReused || !strings.Contains(e.Message, c.says) {
				t.Errorf("%s: %s", c.to, e)
			}
		}
	})
}

// After a retryable error the key runs again, and the earlier caller keeps its outcome (C3).
func TestNextAttempt(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		w.decide(envelope.CodeUpstream)
		w.manifest.Semver = "1.3.0" // a newer build must not run under the same key
		w.ask(2)
		if w.acceptedBy(2) != 1 || w.accepted["inbox2"][0].Attempt != 2 || w.accepted["inbox2"][0].ToolVersion != "1.2.3" {
			t.Fatalf("accepted %+v", w.accepted["inbox2"])
		}
		w.decide("")
		w.ask(1)
		if r := w.outcome(1); r.Status != envelope.RetryableError || r.Provenance.Attempt != 1 {
			t.Errorf("the earlier caller got %+v", r)
		}
		w.ask(3)
		if r := w.outcome(3); r.Status != envelope.Success || r.Provenance.Attempt != 2 {
			t.Errorf("a later caller got %+v", r)
		}
	})
}

// The earlier outcome outlives its own event: later events carry it.
func TestCarriedForward(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		w.decide(envelope.CodeUpstream)
		w.ask(2)
		w.log.DropUntil(2)
		w.ask(1)
		if r := w.outcome(1); r.Error == nil || r.Error.Code != envelope.CodeUpstream {
			t.Errorf("got %+v", r)
		}
	})
}

func TestAttemptsAreCapped(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		for n := 1; n <= call.MaxAttempts; n++ {
			w.ask(n)
			w.decide(envelope.CodeUpstream)
		}
		w.ask(9)
		if got := w.outcome(9).Error.Code; got != envelope.CodeAttempts {
			t.Errorf("got %s", got)
		}
	})
}

// The admitting dispatcher ends the call at its deadline and tells the owner.
func TestDeadline(t *testing.T) {
	for class, want := range map[call.EffectClass]envelope.Effect{
		call.Pure: envelope.EffectNone, call.Idempotent: envelope.EffectUnknown, call.SideEffectful: envelope.EffectNone,
	} {
		bubble(t, class, func(t *testing.T, w *world) {
			w.ask(1)
			pass(9990 * time.Millisecond)
			if w.answers() != 0 {
				t.Fatal("ended before its deadline")
			}
			pass(20 * time.Millisecond)
			r := w.outcome(1)
			code := envelope.CodeTimeout
			if class == call.SideEffectful { // without a claim it was taken by nobody
				code = envelope.CodeUnavailable
			}
			if r.Error.Code != code || r.Error.Details.Effect != want || r.Status != envelope.RetryableError {
				t.Errorf("%s: %+v", class, r.Error)
			}
		})
	}
}

// A dead dispatcher's calls are ended by another one, a little later.
func TestGuardian(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		other := w.dispatcher("d0", true)
		other.Handle(t.Context(), w.request(1)) // never runs: its process is dead
		pass(10 * time.Second)
		pass(60 * time.Millisecond)
		if r := w.outcome(1); r.Error.Code != envelope.CodeTimeout {
			t.Errorf("%+v", r.Error)
		}
	})
}

// The admitting dispatcher keeps the deadline also while it cannot follow the log.
func TestDeadlineWithoutFollower(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.stop()
		w.serve("blind")
		w.ask(1)
		pass(10 * time.Second)
		if r := w.outcome(1); r.Error.Code != envelope.CodeTimeout {
			t.Errorf("got %+v", r.Error)
		}
	})
}

// A dispatcher may be asked for an attempt before its follower has come there: the position from
// which a new guardian has to read is still that of the first open attempt.
func TestAskedBeforeFollowed(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		first := w.state()
		w.ask(2, "key-0123456789abcdef", "key-other-0123456789")
		late := w.dispatcher("late", true)
		late.Handle(t.Context(), w.request(2, "key-0123456789abcdef", "key-other-0123456789"))
		late.Observe(t.Context(), call.Requested, 1, first)
		if open, from := late.Watching(), late.Deadlines.ReplayFrom(0); open != 2 || from != first.Seq {
			t.Errorf("%d attempts are watched, a guardian would read from %d, want %d", open, from, first.Seq)
		}
	})
}

// A guardian that cannot reach the log tries until it can.
func TestDeadlineWithoutLog(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		w.log.Before(func(call.Event) error { return call.ErrUnsure })
		pass(11 * time.Second)
		if w.answers() != 0 {
			t.Fatal("told an outcome that does not stand")
		}
		w.log.Before(nil)
		pass(100 * time.Millisecond)
		w.outcome(1)
	})
}

// An admission whose answer is unsure is not answered; the same call asked again is.
func TestUnsureAdmission(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.log.Lost(func(call.Event) bool { return true })
		w.ask(1)
		if w.acceptedBy(1) != 0 || w.answers() != 0 {
			t.Fatal("answered without knowing")
		}
		w.log.Lost(nil)
		w.ask(1)
		if w.acceptedBy(1) != 1 || len(w.log.Entries()) != 1 {
			t.Errorf("accepted %d times, %d events", w.acceptedBy(1), len(w.log.Entries()))
		}
		w.decide("")
		w.outcome(1)
	})
}

// Two dispatchers admit one key at once: one attempt, the other's caller joins.
func TestTwoDispatchers(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		other := w.dispatcher("d0", true)
		w.log.Before(func(call.Event) error {
			w.log.Before(nil)
			other.Handle(t.Context(), w.request(2))
			return nil
		})
		w.ask(1)
		s := w.state()
		if len(s.Attempts) != 1 || s.Last().Owner.CallID != uuid(2) || !s.Last().Has(uuid(1)) {
			t.Fatalf("state %+v", s)
		}
		w.decide("")
		w.outcome(1)
	})
}

// A denial does not change what a call was or will be told (M2).
func TestRecall(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		w.manifest.Status = tool.StatusDisabled
		w.ask(1)
		if len(w.denied) != 0 || w.acceptedBy(1) != 2 {
			t.Fatalf("denied %v, accepted %d times", w.denied, w.acceptedBy(1))
		}
		w.decide("")
		w.outcome(1)
		w.ask(2)
		if got := w.outcome(2).Error.Code; got != envelope.CodeToolDisabled {
			t.Errorf("another call got %s", got)
		}
	})
}

// readThen is a log in which something happens right after the next read.
type readThen struct {
	*calltest.Log
	then func()
}

func (l *readThen) Read(ctx context.Context, tool, id string) (call.Entry, error) {
	e, err := l.Log.Read(ctx, tool, id)
	if then := l.then; then != nil {
		l.then = nil
		then()
	}
	return e, err
}

// A denied caller's call is decided just after the dispatcher has found it open: it is told now, not
// at the deadline.
func TestRecallWhileDecided(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		w.manifest.Status = tool.StatusDisabled
		w.d.CallLog = &readThen{Log: w.log, then: func() { w.decide("") }}
		w.ask(1)
		w.outcome(1)
		if open := w.d.Watching(); open != 0 {
			t.Errorf("%d attempts are watched", open)
		}
	})
}

// A content type may have parameters: the request is stored as any other, and they are not.
func TestContentTypeWithParameters(t *testing.T) {
	for _, media := range []string{"Application/JSON", envelope.ContentJSON, envelope.ContentMsgpack} {
		bubble(t, call.Pure, func(t *testing.T, w *world) {
			in := w.request(1)
			req, refusal := envelope.DecodeRequest(envelope.ContentJSON, in.Body)
			if refusal != nil {
				t.Fatal(refusal)
			}
			body, err := envelope.EncodeRequest(media, req)
			if err != nil {
				t.Fatal(err)
			}
			in.Body, in.ContentType = body, media+"; long="+strings.Repeat("x", 60<<10)
			w.d.Handle(t.Context(), in)
			entries := w.log.Entries()
			if len(entries) != 1 {
				t.Fatalf("%d events", len(entries))
			}
			stored, err := call.DecodeRequestBody(entries[0].Body)
			if err != nil || !stored.Request.IsValid() {
				t.Errorf("stored %.100s, %v", stored.Request, err)
			}
			if kept := w.state().Last().Owner.ContentType; kept != strings.ToLower(media) {
				t.Errorf("the content type that is kept is %.100s", kept)
			}
		})
	}
}

// Whoever observes admissions is told of those there were, and of refusals: what repeats a call that another
// dispatcher has admitted is neither.
func TestObservedAdmissions(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		w.decide("")
		other := w.dispatcher("other", true)
		var admitted []bool
		var refused []envelope.Code
		other.Trace.Begin = func(ctx context.Context, _ call.TraceEvent) (context.Context, string, func(call.TraceEvent)) {
			return ctx, "", func(last call.TraceEvent) { admitted = append(admitted, last.At == call.TraceAfterAdmit) }
		}
		other.Trace.Event = func(_ context.Context, s call.TraceEvent) {
			if s.At == call.TraceRefused {
				refused = append(refused, s.Error.Code)
			}
		}
		other.Handle(t.Context(), w.request(2))
		other.Handle(t.Context(), w.request(3, "0123456789abcdef", "another-0123456789"))
		broken := w.request(4)
		broken.Body = []byte(`{`)
		other.Handle(t.Context(), broken)
		if !slices.Equal(admitted, []bool{false, true}) || len(refused) != 1 {
			t.Errorf("admitted %v, refused %v", admitted, refused)
		}
	})
}

// An attempt for which there is no room any more once its span is known is refused like any other.
func TestNoRoomForTheSpan(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.d.Trace.Begin = func(ctx context.Context, _ call.TraceEvent) (context.Context, string, func(call.TraceEvent)) {
			return ctx, strings.Repeat("p", 55), func(call.TraceEvent) {}
		}
		opened := 0
		for n := range 100 {
			key := []string{"0123456789abcdef", fmt.Sprintf("%016d", n)}
			first, second, third := w.request(1, key...), w.request(2, key...), w.request(3, key...)
			first.Reply, second.Reply, third.Reply = strings.Repeat("r", 40<<10), strings.Repeat("r", 16_000+25*n),
				strings.Repeat("r", 40<<10)
			w.d.Handle(t.Context(), first)
			w.decide(envelope.CodeUpstream)
			w.log.Before(func(e call.Event) error {
				if _, ok := e.State.AttemptOf(uuid(3)); ok {
					w.d.Handle(t.Context(), second) // waits in the line, which knows the log when its turn comes
				}
				return nil
			})
			w.d.Handle(t.Context(), third)
			w.log.Before(nil)
			if w.state().Last().Open() {
				opened++
				w.decide("")
			}
		}
		if refused := 100 - opened; opened == 0 || refused == 0 || len(w.denied) != 100+refused {
			t.Errorf("%d opened, %d refusals", opened, len(w.denied))
		}
	})
}

// A key whose log has expired runs again.
func TestExpiredKey(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		w.decide("")
		w.log.DropUntil(99)
		w.ask(2)
		if w.acceptedBy(2) != 1 || w.accepted["inbox2"][0].Attempt != 1 {
			t.Errorf("%s", fmt.Sprint(w.accepted["inbox2"]))
		}
	})
}
