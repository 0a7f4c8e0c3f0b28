package outcome

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// Log is the call log. kv.Log implements it.
type Log interface {
	Write(ctx context.Context, e call.Event, body []byte) (call.State, error)
	Read(ctx context.Context, tool, id string) (call.Entry, error)
	Get(ctx context.Context, at call.Position) (call.Entry, error)
}

// ErrAttemptGone means that the attempt is no longer in the log, or that another one has its place.
var ErrAttemptGone = errors.New("the attempt is not in the log")

// ErrUnreadable means that an outcome is in the log in a form that this build cannot read. Another build may be able to
// read it.
var ErrUnreadable = errors.New("the stored outcome cannot be read")

// ErrMayHaveRun means that [call.PoolAbsent] does not end an attempt, because an executor may have started it.
var ErrMayHaveRun = errors.New("an executor may have taken the attempt")

// Draft holds the parts of the response that the decider knows: the result or the error of the tool. The output must
// have been checked.
type Draft struct {
	Output        jsontext.Value
	OutputRef     *envelope.PayloadRef
	Error         *envelope.Error
	SideEffects   []jsontext.Value
	Warnings      []string
	PolicyApplied []string
	Metrics       envelope.Metrics
	// Timed means that Metrics holds the measured times of the run. Otherwise [Resolve] sets them from the log.
	Timed  bool
	Chunks *envelope.Chunks
	// Owner is the owner of the tool, for the error of a repeated tool fault; see call.Decision.
	Owner string
}

// Stored is the outcome of an attempt in the log. Won is true if this call of [Resolve] wrote it.
type Stored struct {
	State    call.State
	Attempt  call.Attempt
	Response *envelope.Response
	Won      bool
}

// Emit calls the hook Event for the outcome.
func (o Stored) Emit(ctx context.Context, t *call.Trace) {
	if t.Event == nil {
		return
	}
	e := call.TraceEvent{At: call.TraceAfterDecide, State: o.State, Attempt: o.Attempt.N, Won: o.Won}
	if o.Response != nil {
		e.Metrics = o.Response.Metrics
	}
	t.Event(ctx, e)
}

// Resolve ends attempt n of the log s, whose request event has the sequence admitted, and returns the outcome in the
// log, its own or that of another process. earlier are the outcomes of earlier attempts if the caller has them;
// otherwise Resolve reads them. If the response together with these is too large, Resolve stores an error instead. The
// error is [ErrAttemptGone]; [ErrMayHaveRun], only with call.PoolAbsent; [ErrUnreadable] if the attempt is decided, see
// [Load]; or that of the log, such as call.ErrFull and call.ErrUnsure, after which the caller must try again later.
//
// If no run measured the times, as after a deadline or a cancel, they come from the log. For a claimed attempt,
// queue_ms is the time from its admission to its last claim, and duration_ms the time from there to the decision. For
// an attempt that was certainly not started, queue_ms is the whole time, and duration_ms is 0. A pure or idempotent
// call may start without a claim: then duration_ms is the whole time, and queue_ms is 0. At a deadline it is reversed,
// because an executor that runs such a call ends the run before it.
func Resolve(
	ctx context.Context, log Log, s call.State, n int, admitted uint64, end call.Completion, d Draft,
	earlier []call.Outcome,
) (Stored, error) {
	end.Owner = envelope.ToolOwner(d.Owner)
	for small := false; ; {
		ruling := call.Decide(s, n, admitted, end)
		if ruling.Gone {
			return Stored{}, ErrAttemptGone
		}
		if ruling.Taken {
			return Stored{}, ErrMayHaveRun
		}
		if !ruling.Do {
			return Load(ctx, log, s, n)
		}
		if n > 1 && len(earlier) == 0 {
			var err error
			if earlier, err = carried(ctx, log, s, n); err != nil {
				return Stored{}, err
			}
		}
		response := respond(ruling, d.timed(ruling, end.Cause))
		if err := check(response); err != nil && !small {
			end, d = shrink(end, d, envelope.CodeToolProtocol, "readers would refuse the response: "+err.Error())
			small = true
			continue
		}
		body, err := call.EncodeOutcome(response, earlier)
		if err != nil {
			return Stored{}, fmt.Errorf("outcome body: %w", err)
		}
		after, err := log.Write(ctx, ruling.Event, body)
		var moved *call.ConflictError
		switch {
		case err == nil:
			return own(after, n, response), nil
		case errors.As(err, &moved) && moved.State.Empty():
			s.Seq = moved.State.Seq // a power cut lost the log; the events in s did happen, so write on top of the empty log
		case errors.As(err, &moved):
			s = moved.State
		case errors.Is(err, call.ErrTooLarge) && !small:
			end, d = shrink(end, d, envelope.CodeOutputLimit, tooLarge)
			small = true
		default:
			return Stored{}, err
		}
	}
}

// timed returns the draft with the times that the log shows, unless it has measured ones.
func (d Draft) timed(r call.DecideResult, cause call.Cause) Draft {
	if d.Timed {
		return d
	}
	s := r.Event.State
	a, _ := s.Attempt(r.Event.Attempt)
	unstarted := cause == call.Unrunnable || r.Code == envelope.CodeUnavailable || a.Decision.NotTaken ||
		!s.HasNoEffect() && r.Effect == envelope.EffectNone || cause == call.TimedOut && !a.Touched()
	switch m := &d.Metrics; {
	case unstarted:
		m.QueueMS, m.DurationMS = between(a.At, a.Decision.At), 0
	case a.Claim != nil && a.Claim.At > 0:
		m.QueueMS, m.DurationMS = between(a.At, a.Claim.At), between(a.Claim.At, a.Decision.At)
	default:
		m.QueueMS, m.DurationMS = 0, between(a.At, a.Decision.At)
	}
	return d
}

// between returns the milliseconds from one time to another, at least 0, because clocks differ.
func between(from, to call.UnixMS) int64 { return max(0, int64(to-from)) }

// check returns the reason for which readers would refuse the response. They refuse no success with an output that was
// checked and no more.
func check(r *envelope.Response) error {
	if r.Error == nil && len(r.SideEffects) == 0 && len(r.Warnings) == 0 {
		return r.Check()
	}
	body, err := envelope.AppendResponse(nil, r)
	if err != nil {
		return err
	}
	if _, refused := envelope.DecodeResponse(envelope.ContentJSON, body); refused != nil {
		return fmt.Errorf("%s: %v", refused.Message, refused.Details.Violations)
	}
	return nil
}

// shrink returns a small completion and draft for a response that is too large or that readers would refuse. Without it
// the attempt could never be decided, and the tool would run again and again. The code is used if the tool gave none.
func shrink(end call.Completion, d Draft, code envelope.Code, why string) (call.Completion, Draft) {
	small := Draft{Metrics: d.Metrics, Timed: d.Timed, Chunks: d.Chunks, PolicyApplied: d.PolicyApplied, Owner: d.Owner}
	switch {
	case d.Error != nil:
		small.Error = envelope.NewError(d.Error.Code, strings.ToValidUTF8(d.Error.Message, "")).WithCause(why)
		end.Output = ""
	case end.Cause == call.ToolEnded || end.Cause == call.Confirmed:
		end.Cause, end.Error, end.Output = call.ToolEnded, code, ""
		small.Error = envelope.NewError(end.Error, why)
	}
	return end, small
}

const tooLarge = "the response is larger than the server takes, together with the outcomes of earlier attempts"

// own returns the outcome that was just written.
func own(s call.State, n int, r *envelope.Response) Stored {
	a, _ := s.Attempt(n)
	r.Provenance.AuditEventID = s.At(a.Decision.Seq).EventID()
	return Stored{State: s, Attempt: a, Response: r, Won: true}
}

// Load returns the stored outcome of the decided attempt n of the log s. It reads it from the event of the decision or,
// if that has expired, from a later one. The error is [ErrAttemptGone]; [ErrUnreadable], with a Stored that lacks only
// the response; or that of the log.
func Load(ctx context.Context, log Log, s call.State, n int) (Stored, error) {
	a, ok := s.Attempt(n)
	if !ok || a.Decision == nil {
		return Stored{}, ErrAttemptGone
	}
	entry, err := At(ctx, log, s, a.Decision.Seq)
	if err != nil {
		return Stored{}, err
	}
	if len(entry.Body) == 0 {
		if entry, err = holder(ctx, log, s); err != nil {
			return Stored{}, err
		}
	}
	stored, ok, err := entry.Outcome(n)
	if err != nil {
		return Stored{State: s, Attempt: a}, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	if !ok {
		return Stored{}, ErrAttemptGone
	}
	r, fault := envelope.DecodeResponse(envelope.ContentJSON, stored.Response)
	if fault != nil {
		return Stored{State: s, Attempt: a}, fmt.Errorf("%w: at %d: %s", ErrUnreadable, stored.Seq, fault.Message)
	}
	r.Provenance.AuditEventID = s.At(stored.Seq).EventID()
	return Stored{State: s, Attempt: a, Response: r}, nil
}

// carried returns the outcomes of the attempts before n. It reads them from the request event of attempt n or, if that
// has expired, from the events of the decisions, which are kept longer.
func carried(ctx context.Context, log Log, s call.State, n int) ([]call.Outcome, error) {
	a, _ := s.Attempt(n)
	entry, err := At(ctx, log, s, a.Admitted)
	if err != nil {
		return nil, err
	}
	if outcomes, err := entry.Outcomes(); err == nil && len(outcomes) > 0 {
		return outcomes, nil
	}
	return collected(ctx, log, s, n)
}

// collected returns the outcomes of the attempts before n from the events of their decisions. It leaves out expired
// ones. An outcome that cannot be read is an error, so that another build can write the event.
func collected(ctx context.Context, log Log, s call.State, n int) (outcomes []call.Outcome, err error) {
	for _, a := range s.Attempts {
		if a.N >= n || a.Decision == nil {
			continue
		}
		entry, err := At(ctx, log, s, a.Decision.Seq)
		if err != nil {
			return nil, err
		}
		o, ok, err := entry.Outcome(a.N)
		switch {
		case err != nil:
			return nil, fmt.Errorf("outcome of attempt %d, which attempt %d carries: %w", a.N, n, err)
		case ok:
			outcomes = append(outcomes, o)
		}
	}
	return outcomes, nil
}

// At returns the event of the log s at the sequence seq. It returns the zero Entry if the event has expired, or if
// another log has an event there: a server that has lost the end of a stream uses the sequences again.
func At(ctx context.Context, log Log, s call.State, seq uint64) (call.Entry, error) {
	entry, err := log.Get(ctx, s.At(seq))
	if err != nil || entry.State.Tool != s.Tool || entry.State.ID != s.ID {
		return call.Entry{}, err
	}
	return entry, nil
}

// holder returns the newest entry of the log that has a body with earlier outcomes.
func holder(ctx context.Context, log Log, s call.State) (call.Entry, error) {
	last, err := log.Read(ctx, s.Tool, s.ID)
	if err != nil || len(last.Body) > 0 || last.State.Empty() {
		return last, err
	}
	return At(ctx, log, last.State, last.State.Last().Admitted)
}

func respond(ruling call.DecideResult, d Draft) *envelope.Response {
	s := ruling.Event.State
	a, _ := s.Attempt(ruling.Event.Attempt)
	p := envelope.Provenance{
		ToolID: s.Tool, ToolVersion: s.Version, Digest: s.Digest,
		Attempt: a.N, Fence: a.Decision.Fence, Final: true, NotStarted: s.NotStarted(a.N), Chunks: d.Chunks,
		PolicyApplied: d.PolicyApplied,
	}
	d.Metrics.Attempts = a.N
	for _, m := range []*int64{&d.Metrics.DurationMS, &d.Metrics.QueueMS, &d.Metrics.CPUMS, &d.Metrics.MemoryPeakMB} {
		*m = max(0, *m)
	}
	if ruling.Code != "" {
		e := failure(ruling, d.Error)
		if owner := a.Decision.Owner; owner != "" {
			e = e.WithOwner(owner)
		}
		r := envelope.Failure(a.Owner.CallID, e, p, d.Metrics)
		r.SideEffects, r.Warnings = d.SideEffects, d.Warnings
		return r
	}
	p.OutputRef = d.OutputRef
	return &envelope.Response{
		CallID: a.Owner.CallID, Status: envelope.Success, Output: d.Output, SideEffects: d.SideEffects,
		Warnings: d.Warnings, Metrics: d.Metrics, Provenance: p,
	}
}

// failure returns the error of the tool if its code is that of the decision. Otherwise it returns the error of the
// decision, with that of the tool as its cause.
func failure(ruling call.DecideResult, said *envelope.Error) *envelope.Error {
	if said != nil && said.Code == ruling.Code {
		return said.WithEffect(ruling.Effect)
	}
	e := reasoned(ruling)
	if said == nil {
		return e
	}
	e.Details.ToolCode, e.Details.Stderr, e.Details.Extra = said.Details.ToolCode, said.Details.Stderr, said.Details.Extra
	e.Details.ToolResult, e.Details.ToolResultRef = said.Details.ToolResult, said.Details.ToolResultRef
	cause := string(said.Code) + ": " + said.Message
	if said.Cause != "" {
		cause += ": " + said.Cause
	}
	return e.WithCause(cause)
}

// reasoned returns the error of the decision, with the reason that the log shows.
func reasoned(ruling call.DecideResult) *envelope.Error {
	s := ruling.Event.State
	a, _ := s.Attempt(ruling.Event.Attempt)
	message, fix := call.Reason(s, a)
	return envelope.NewError(ruling.Code, message).WithFix(fix).WithEffect(ruling.Effect)
}

// For returns the response for the request with callID. replayed states that the attempt was decided before that
// request. The details of an error name callID, and the trace of the request that opened the attempt: its spans are in
// that trace.
func (o Stored) For(callID string, replayed bool) *envelope.Response {
	r := *o.Response
	r.CallID, r.Provenance.Replayed = callID, replayed
	return r.Correlated(o.Attempt.Owner.Trace)
}

// wish is an option of a request that Toolbus ignores, or applies only in part.
type wish struct {
	mark    byte   // in the log
	name    string // in provenance.policy_applied; never changes
	warning string
	made    func(r *envelope.Request, given, wished time.Time) bool
}

// timeoutMark is the first mark, if it is set.
const timeoutMark = 't'

// numbers returns how much time attempt a had, and how much it asked for, as the end of the warning that the timeout
// was cut. It returns "" for an attempt of an older build, which did not note the numbers.
func numbers(a call.Attempt) string {
	var cut int64
	if n, _ := fmt.Sscanf(a.Ignored, string(timeoutMark)+"%d", &cut); n == 0 {
		return ""
	}
	had := a.Due().Sub(a.At.Time())
	return fmt.Sprintf("; it had %v, and asked for %v", had, had+time.Duration(cut)*time.Millisecond)
}

// wishes returns all of them. Remove an option that begins to work, and never use its mark again.
func wishes() [8]wish {
	return [...]wish{
		{timeoutMark, "timeout-cut",
			"the call had less time than it asked for: a tool gives no more than its limits.timeout_ms_max",
			func(_ *envelope.Request, given, wished time.Time) bool { return given.Before(wished) }},
		{'m', "memory_mb_limit-ignored",
			"constraints.memory_mb_limit has no effect yet: memory is not limited",
			func(r *envelope.Request, _, _ time.Time) bool { return r.Constraints.MemoryMBLimit != 0 }},
		{'n', "net_allowlist-ignored",
			"constraints.net_allowlist has no effect yet: the tool's network was not limited to it",
			func(r *envelope.Request, _, _ time.Time) bool { return r.Constraints.NetAllowlist != nil }},
		{'b', "budget-ignored", "constraints.budget has no effect yet: nothing was counted against it",
			func(r *envelope.Request, _, _ time.Time) bool { return len(r.Constraints.Budget) > 0 }},
		{'c', "cache_key-ignored", "constraints.cache_key has no effect yet: nothing was cached",
			func(r *envelope.Request, _, _ time.Time) bool { return r.Constraints.CacheKey != "" }},
		{'f', "confidence-ignored", "context.confidence has no effect yet: no policy looked at it",
			func(r *envelope.Request, _, _ time.Time) bool { return r.Context.Confidence != nil }},
		{'e', "evidence-ignored", "context.evidence has no effect yet: no policy looked at it",
			func(r *envelope.Request, _, _ time.Time) bool { return len(r.Context.Evidence) > 0 }},
		{'k', "clock-ignored", "context.clock has no effect yet: deadlines are times of the wall clock",
			func(r *envelope.Request, _, _ time.Time) bool { return r.Context.Clock != "" }},
	}
}

// IgnoredFields returns the marks of the options of r that are ignored, for Ignored of [call.Attempt]. given is the
// deadline of the attempt, and wished that of the request.
//
// Behind the mark of a timeout is by how many milliseconds it was cut. No digit is a mark.
func IgnoredFields(r *envelope.Request, given, wished time.Time) string {
	var marks []byte
	for _, w := range wishes() {
		if !w.made(r, given, wished) {
			continue
		}
		if marks = append(marks, w.mark); w.mark == timeoutMark {
			marks = strconv.AppendInt(marks, wished.Sub(given).Milliseconds(), 10)
		}
	}
	return string(marks)
}

// WithIgnoredWarnings returns the draft with a warning, and an entry in PolicyApplied, for each ignored option of the
// request of attempt a.
func (d Draft) WithIgnoredWarnings(a call.Attempt) Draft {
	if a.Ignored == "" {
		return d
	}
	for _, w := range wishes() {
		if strings.IndexByte(a.Ignored, w.mark) >= 0 {
			warning := w.warning
			if w.mark == timeoutMark {
				warning += numbers(a)
			}
			d.Warnings = append(slices.Clip(d.Warnings), warning)
			d.PolicyApplied = append(slices.Clip(d.PolicyApplied), w.name)
		}
	}
	return d
}
