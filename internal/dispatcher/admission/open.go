package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/answer"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// open writes the request event of a new attempt, which is in v. It returns true if the log has changed, so that the
// request must be placed again.
func (m *Admission) open(ctx context.Context, q *queue, s call.State, a *arrival,
	v call.AdmitResult) (call.State, bool) {
	if a.Stored == nil {
		return s, false // a recalled request, whose log has expired since
	}
	refusal := m.capacity(a)
	if refusal == nil {
		item := flow.Item{ID: q.ID, Request: a.Ask.Owner.CallID}
		refusal = m.hold(item, a, v.Event.State.Pool)
		defer m.Open.Drop(item)
	}
	if refusal != nil {
		return m.turnDown(ctx, q, s, a, refusal)
	}
	if v.Event.State.Last().Step != a.Ask.Step {
		v = call.Admit(s, a.Ask) // hold has set the step
	}
	earlier, current, err := m.earlier(ctx, s)
	switch {
	case m.Answers.RefuseDamaged(ctx, a.Request, err):
		return s, false
	case errors.Is(err, outcome.ErrUnreadable) && m.IsStrange(s.Last().Decision.Nonce):
		m.Answers.Replay(ctx, &q.Line, s, s.Last().N, a.Call)
		return s, false
	case errors.Is(err, outcome.ErrUnreadable):
		m.Logger.Error("no further attempt: an earlier outcome cannot be read", "call", q.ID, "err", err)
		return m.turnDown(ctx, q, s, a,
			answer.Unreadable("the outcome of an earlier attempt cannot be read, and a further one would lose it"))
	case err != nil: // the caller asks again
		m.Logger.Warn("no further attempt: the call log cannot be read", "call", q.ID, "err", err)
		return s, false
	case current.Seq != s.Seq:
		return q.Found(s.Seq, current), true
	}
	if m.Trace.Begin == nil {
		after, again, _ := m.write(ctx, q, s, a, v, earlier)
		return after, again
	}
	ctx, parent, end := m.Trace.Begin(ctx, a.Describe(call.TraceEvent{
		At: call.TraceAdmit, State: call.State{Pinned: a.Ask.Pinned}, Attempt: v.Event.Attempt, Request: a.Req,
	}))
	var last call.TraceEvent
	defer func() { end(last) }()
	a.Ask.Owner.Parent = parent
	if v = call.Admit(s, a.Ask); v.Do != call.Write { // the span makes the event larger
		return s, true
	}
	after, again, admitted := m.write(ctx, q, s, a, v, earlier)
	if admitted {
		last.At = call.TraceAfterAdmit
	}
	return after, again
}

// probeTime is the longest time for a write to a server that has stored nothing lately. Its answer says when it stores
// again.
const probeTime = time.Second

// write writes the request event of a with the outcomes of earlier attempts. again means that the request must be
// placed again; admitted means that the event is, or may be, in the log.
func (m *Admission) write(
	ctx context.Context, q *queue, s call.State, a *arrival, v call.AdmitResult, earlier []call.Outcome,
) (_ call.State, again, admitted bool) {
	checked := a.Call
	if refusal := m.recheck(ctx, s, a); refusal != nil {
		s, again = m.refuse(ctx, q, s, a, refusal)
		return s, again, false
	}
	if a.Call != checked {
		if v = call.Admit(s, a.Ask); v.Do != call.Write {
			return s, true, false
		}
	}
	body, err := call.RequestBody{
		Request: a.Stored, InputRef: a.In.InputRef, Earlier: earlier, WriteTargets: a.WriteTargets,
	}.Encode()
	if err != nil {
		m.Logger.Error("request body", "err", err)
		return s, false, false
	}
	m.Trace.Emit(ctx, call.TraceBeforeAdmit, &s, v.Event.Attempt)
	if a.Late(m.Now()) {
		s, again = m.turnDown(ctx, q, s, a, check.TooLate())
		return s, again, false
	}
	// A write after the deadline of a is useless, because no executor would start the attempt. Other requests for the
	// key wait meanwhile, so batchTime limits the write, too.
	limit := batchTime
	if m.StoresNothing() {
		limit = probeTime
	}
	v.Event.Until = time.Now().Add(min(limit, a.Ask.Deadline.Time().Sub(m.Now())))
	after, err := m.CallLog.Write(ctx, v.Event, body)
	if err != nil {
		s, again = m.notWritten(ctx, q, s, a, err)
		return s, again, errors.Is(err, call.ErrUnsure)
	}
	opened := after.Last()
	m.Trace.Emit(ctx, call.TraceAfterAdmit, &after, opened.N)
	q.Learn(after)
	if opened.Owner.CallID != a.Ask.Owner.CallID {
		return after, true, false
	}
	m.logAdmission(ctx, after, opened)
	if opened.Open() { // the follower may be behind
		m.Deadlines.Watch(after, opened, false)
	}
	m.Answers.Accept(ctx, a.Call, after, opened, opened.Deadline)
	return after, false, true
}

// notWritten handles a failed write of a request event, which may be in the log all the same.
func (m *Admission) notWritten(
	ctx context.Context, q *queue, s call.State, a *arrival, err error,
) (_ call.State, again bool) {
	var moved *call.ConflictError
	switch {
	case errors.As(err, &moved):
		return q.Found(s.Seq, moved.State), true
	case m.Answers.RefuseDamaged(ctx, a.Request, err):
		return s, false
	case errors.Is(err, call.ErrUnsure) && m.StoresNothing():
		a.unsure = true
		return m.turnDown(ctx, q, s, a, answer.NotStored())
	case a.Late(m.Now()):
		a.unsure = a.unsure || errors.Is(err, call.ErrUnsure)
		return m.turnDown(ctx, q, s, a, check.TooLate())
	case errors.Is(err, call.ErrFull):
		return m.turnDown(ctx, q, s, a, StoreFull())
	case errors.Is(err, call.ErrTooLarge): // the event must contain the outcomes of earlier attempts
		refusal := envelope.NewError(envelope.CodeAttempts, "the outcomes of earlier attempts leave no room for another")
		return m.turnDown(ctx, q, s, a, refusal)
	} // not known to be admitted or not: no answer; the caller asks again
	m.Logger.Warn("admission unsure", "call", q.ID, "err", err)
	return s, false
}

// logAdmission logs an admission with level DEBUG.
func (m *Admission) logAdmission(ctx context.Context, s call.State, a call.Attempt) {
	if m.Logger.Enabled(ctx, slog.LevelDebug) {
		m.Logger.DebugContext(ctx, "admitted", "tool", s.Tool, "version", s.Version, "call", s.ID, "attempt", a.N,
			"call_id", a.Owner.CallID)
	}
}

// earlier returns the outcomes of earlier attempts, which the event of the next attempt must contain, and the state of
// the log that they were read from.
func (m *Admission) earlier(ctx context.Context, s call.State) ([]call.Outcome, call.State, error) {
	if s.Empty() {
		return nil, s, nil
	}
	last, err := m.CallLog.Read(ctx, s.Tool, s.ID)
	if err != nil {
		return nil, s, err
	}
	outcomes, err := last.Outcomes()
	if err != nil {
		return nil, last.State, fmt.Errorf("%w: %w", outcome.ErrUnreadable, err)
	}
	return outcomes, last.State, nil
}

// Defaults of Options. With the default number of slots, an executor can run DefaultOverflowAfter calls of one actor
// from the primary queue and its share of the overflow queue, and still has slots for other actors.
const (
	DefaultOpenPerActor  = 100_000
	DefaultOpenPerTenant = 200_000
	DefaultOverflowAfter = 8
)

// hold counts an attempt that is about to be written, until Deadlines watches it. It returns a refusal if the actor or
// the tenant has too many open attempts, and selects the step of the attempt. Dispatchers that admit calls at the same
// moment do not see each other's attempts, and may exceed the limits.
func (m *Admission) hold(item flow.Item, a *arrival, pool string) *envelope.Error {
	from := call.Sender{Tenant: a.Ask.Pinned.Tenant, Actor: a.Ask.Owner.Actor}
	standing, full := m.Open.Hold(item, flow.Sender(from.Family()), from.Actor, m.OpenPerActor, m.OpenPerTenant,
		time.Now())
	if full == nil {
		a.Ask.Step = m.step(standing, pool)
		return nil
	}
	message := fmt.Sprintf("%d calls of the %s are open, of %d that may be", full.Open, full.Of, full.Most)
	return envelope.NewError(envelope.CodeOpen, message).WithRetryAfter(full.Wait)
}

// step returns the step of an attempt, of those that executors of its pool pull.
func (m *Admission) step(s flow.Standing, pool string) int {
	if m.Pools == nil {
		return 0
	}
	rank := s.Rank(m.OverflowAfter)
	switch steps := m.Pools.Steps(pool); {
	case steps == subjects.Steps:
		return rank
	case steps == 2 && rank > 1:
		return subjects.Steps - 1
	}
	return 0
}

// capacity returns a refusal if the deployment cannot take another attempt. It is not checked for requests that join
// an attempt or get a stored outcome.
func (m *Admission) capacity(a *arrival) *envelope.Error {
	switch {
	case m.Capacity.AuditBehind() > m.AuditLag:
		return envelope.NewError(envelope.CodeAuditLag, "").WithRetryAfter(time.Second)
	case m.Capacity.LogFull():
		return StoreFull()
	}
	return cmp.Or(m.overRecord(a), m.overShare(a))
}

// overRecord returns a refusal if the tenant of a request keeps more in AUDIT than it may while AUDIT is more than half
// full, and no record may be dropped.
func (m *Admission) overRecord(a *arrival) *envelope.Error {
	used, share := m.Capacity.OverRecord(a.Ask.Pinned.Tenant)
	if share == 0 {
		return nil
	}
	says := fmt.Sprintf("the audit record is half full, and the tenant keeps %d bytes in it, of %d that it may", used,
		share)
	return envelope.NewError(envelope.CodeAuditLag, says).WithRetryAfter(5 * time.Second).
		WithFix("wait until records expire; an operator can make the record larger (--audit-bytes)")
}

// overShare returns a refusal if the sender of a request, or its tenant, keeps more in the call log than it may while
// the log is more than half full.
func (m *Admission) overShare(a *arrival) *envelope.Error {
	used, share := m.Capacity.Over(subjects.Owner{Tenant: a.Ask.Pinned.Tenant, Actor: a.Ask.Owner.Actor})
	if share == 0 {
		return nil
	}
	says := fmt.Sprintf("the call log is half full, and its sender or the tenant keeps %d bytes in it, of %d that it may",
		used, share)
	return envelope.NewError(envelope.CodeStoreFull, says).WithRetryAfter(5 * time.Second).
		WithFix("send less at once, keep outcomes for a shorter time (retention_s of the tool), or wait until calls " +
			"expire; an operator can make the log larger")
}

// StoreFull returns the refusal of a call that the log has no room for.
func StoreFull() *envelope.Error {
	return envelope.NewError(envelope.CodeStoreFull, "").WithRetryAfter(time.Second)
}
