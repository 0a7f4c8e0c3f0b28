package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// open writes the request event of a new attempt, which is in v. It returns true if the log has changed, so that the
// request must be placed again.
func (d *Dispatcher) open(ctx context.Context, l *keyQueue, s call.State, a *arrival,
	v call.AdmitResult) (call.State, bool) {
	if a.Stored == nil {
		return s, false // a recalled request, whose log has expired since
	}
	refusal := d.capacity()
	if refusal == nil {
		refusal = d.hold(a, v.Event.State.Pool)
		defer d.letGo(a)
	}
	if refusal != nil {
		return d.turnDown(ctx, l, s, a, refusal)
	}
	if v.Event.State.Last().Overflow != a.Ask.Overflow {
		v = call.Admit(s, a.Ask) // hold has decided between primary and overflow queue
	}
	earlier, current, err := d.earlier(ctx, s)
	switch {
	case errors.Is(err, outcome.ErrUnreadable) && d.Strange != nil && d.Strange(call.Instance(s.Last().Decision.Nonce)):
		d.replay(ctx, l, s, s.Last().N, a)
		return s, false
	case errors.Is(err, outcome.ErrUnreadable):
		d.Logger.Error("no further attempt: an earlier outcome cannot be read", "call", l.id, "err", err)
		return d.turnDown(ctx, l, s, a,
			unreadable("the outcome of an earlier attempt cannot be read, and a further one would lose it"))
	case err != nil: // the caller asks again
		d.Logger.Warn("no further attempt: the call log cannot be read", "call", l.id, "err", err)
		return s, false
	case current.Seq != s.Seq:
		return l.found(s.Seq, current), true
	}
	if d.Trace.Begin == nil {
		after, again, _ := d.write(ctx, l, s, a, v, earlier)
		return after, again
	}
	ctx, parent, end := d.Trace.Begin(ctx, a.Describe(call.TraceEvent{
		At: call.TraceAdmit, State: call.State{Pinned: a.Ask.Pinned}, Attempt: v.Event.Attempt, Request: a.Req,
	}))
	var last call.TraceEvent
	defer func() { end(last) }()
	a.Ask.Owner.Parent = parent
	if v = call.Admit(s, a.Ask); v.Do != call.Write { // the span makes the event larger
		return s, true
	}
	after, again, admitted := d.write(ctx, l, s, a, v, earlier)
	if admitted {
		last.At = call.TraceAfterAdmit
	}
	return after, again
}

// write writes the request event of a with the outcomes of earlier attempts. again means that the request must be
// placed again; admitted means that the event is, or may be, in the log.
func (d *Dispatcher) write(
	ctx context.Context, l *keyQueue, s call.State, a *arrival, v call.AdmitResult, earlier []call.Outcome,
) (_ call.State, again, admitted bool) {
	body, err := call.RequestBody{
		Request: a.Stored, InputRef: a.In.InputRef, Earlier: earlier, WriteTargets: a.WriteTargets,
	}.Encode()
	if err != nil {
		d.Logger.Error("request body", "err", err)
		return s, false, false
	}
	d.Trace.Emit(ctx, call.TraceBeforeAdmit, &s, v.Event.Attempt)
	if a.Late(d.Now()) {
		s, again = d.turnDown(ctx, l, s, a, check.TooLate())
		return s, again, false
	}
	// A write after the deadline of a is useless, because no executor would start the attempt. Other requests for the key
	// wait meanwhile, so batchTime limits the write, too.
	v.Event.Until = time.Now().Add(min(batchTime, a.Ask.Deadline.Time().Sub(d.Now())))
	after, err := d.CallLog.Write(ctx, v.Event, body)
	if err != nil {
		s, again = d.notWritten(ctx, l, s, a, err)
		return s, again, errors.Is(err, call.ErrUnsure)
	}
	opened := after.Last()
	d.Trace.Emit(ctx, call.TraceAfterAdmit, &after, opened.N)
	l.learn(after)
	if opened.Owner.CallID != a.Ask.Owner.CallID {
		return after, true, false
	}
	d.logAdmission(ctx, after, opened)
	d.keep(after, opened)
	d.letGo(a) // before the caller learns of the admission and makes its next call
	d.accept(ctx, a, after, opened, opened.Deadline)
	return after, false, true
}

// notWritten handles a failed write of a request event, which may be in the log all the same.
func (d *Dispatcher) notWritten(
	ctx context.Context, l *keyQueue, s call.State, a *arrival, err error,
) (_ call.State, again bool) {
	var moved *call.ConflictError
	switch {
	case errors.As(err, &moved):
		return l.found(s.Seq, moved.State), true
	case a.Late(d.Now()):
		a.unsure = a.unsure || errors.Is(err, call.ErrUnsure)
		return d.turnDown(ctx, l, s, a, check.TooLate())
	case errors.Is(err, call.ErrFull):
		return d.turnDown(ctx, l, s, a, storeFull())
	case errors.Is(err, call.ErrTooLarge): // the event must contain the outcomes of earlier attempts
		refusal := envelope.NewError(envelope.CodeAttempts, "the outcomes of earlier attempts leave no room for another")
		return d.turnDown(ctx, l, s, a, refusal)
	} // not known to be admitted or not: no answer; the caller asks again
	d.Logger.Warn("admission unsure", "call", l.id, "err", err)
	return s, false
}

// logAdmission logs an admission with level INFO.
func (d *Dispatcher) logAdmission(ctx context.Context, s call.State, a call.Attempt) {
	if d.Logger.Enabled(ctx, slog.LevelInfo) {
		d.Logger.InfoContext(ctx, "admitted", "tool", s.Tool, "version", s.Version, "call", s.ID, "attempt", a.N,
			"call_id", a.Owner.CallID)
	}
}

// keep makes this dispatcher watch the deadline of an attempt that it has admitted. It does not wait for its follower,
// which may be behind.
func (d *Dispatcher) keep(s call.State, a call.Attempt) {
	if a.Open() {
		d.watch(s, a, false)
	}
}

// earlier returns the outcomes of earlier attempts, which the event of the next attempt must contain, and the state of
// the log that they were read from.
func (d *Dispatcher) earlier(ctx context.Context, s call.State) ([]call.Outcome, call.State, error) {
	if s.Empty() {
		return nil, s, nil
	}
	last, err := d.CallLog.Read(ctx, s.Tool, s.ID)
	if err != nil {
		return nil, s, err
	}
	outcomes, err := last.Outcomes()
	if err != nil {
		return nil, last.State, fmt.Errorf("%w: %w", outcome.ErrUnreadable, err)
	}
	return outcomes, last.State, nil
}

// patience is the delay of the acceptance for a caller that sent HeaderPatient. Most calls have an outcome by then, and
// need no acceptance. It is much shorter than the time after which clients send a request again.
const patience = 100 * time.Millisecond

// lookEvery is the shortest time between two checks for due acceptances, which share one timer.
const lookEvery = 50 * time.Millisecond

// acceptances holds delayed acceptances, in the order in which they are due.
type acceptances struct {
	mu    sync.Mutex
	held  []acceptance
	first chan struct{} // signals that held is no longer empty
}

// acceptance is sent when it is due, unless its attempt has been decided by then.
type acceptance struct {
	due      time.Time
	to       call.ReplyAddress
	key      subjects.Key
	admitted call.Position
	message  envelope.Accepted // Ref is set when it is sent: most acceptances are never sent
}

// accept sends a caller the acceptance of its call: at once, or, if the request has HeaderPatient, after patience
// unless the attempt has been decided by then. due is the time by which the caller will have an answer.
func (d *Dispatcher) accept(ctx context.Context, a *arrival, s call.State, attempt call.Attempt, due call.UnixMS) {
	d.Trace.Emit(ctx, call.TraceAccepted, &s, attempt.N)
	h := acceptance{
		due: time.Now().Add(patience), to: a.In.ReplyAddress(), admitted: s.At(attempt.Admitted),
		key: s.Key(),
		message: envelope.Accepted{
			CallID: a.Ask.Owner.CallID, Attempt: attempt.N, Joined: a.Ask.Owner.CallID != attempt.Owner.CallID,
			DeadlineUnixMS: int64(due), ToolVersion: s.Version,
		},
	}
	if h.message.Joined && a.Ask.Owner.Actor == attempt.Owner.Actor { // only the owner's actor receives live chunks
		h.message.ChunkProof = subjects.ChunkProof(attempt.Owner.Reply, s.ID)
	}
	if a.In.Patient {
		d.acceptances.hold(h)
	} else {
		d.tellAccepted(h)
	}
}

func (d *Dispatcher) tellAccepted(a acceptance) {
	a.message.Ref = a.key.Ref()
	d.Replies.Accepted(a.to, &a.message)
}

func (h *acceptances) hold(a acceptance) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = append(h.held, a)
	if len(h.held) == 1 {
		timer.Notify(h.first)
	}
}

// due removes and returns the due acceptances, and returns the time until the next check.
func (h *acceptances) due(now time.Time) (due []acceptance, next time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for n < len(h.held) && !h.held[n].due.After(now) {
		n++
	}
	due, h.held = h.held[:n:n], h.held[n:]
	if len(h.held) == 0 {
		h.held = nil
		return due, time.Hour
	}
	return due, max(lookEvery, h.held[0].due.Sub(now))
}

// acceptLate sends delayed acceptances whose attempts are not decided when they are due, until ctx ends.
func (d *Dispatcher) acceptLate(ctx context.Context) {
	keep(ctx, d.acceptances.first, func() time.Duration {
		due, next := d.acceptances.due(time.Now())
		for _, a := range due {
			if !d.deadlinesOf(a.admitted).decided(a.key.ID, a.message.Attempt, a.admitted.Seq) {
				d.safely("an acceptance", func() { d.tellAccepted(a) })
			}
		}
		return next
	})
}
