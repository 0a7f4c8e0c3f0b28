package dispatcher

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// waiter is a caller that gets the outcome of an attempt when it is decided.
type waiter struct {
	callID string
	inbox  call.ReplyAddress
	due    call.UnixMS // its own deadline if that is before the attempt's; otherwise 0
}

// maxWaiting is the largest number of callers that wait in one dispatcher for one attempt.
const maxWaiting = 4096

// await makes the caller wait for the outcome of attempt n, or sends it if the attempt is decided. A joiner waits at
// most until its own deadline.
func (d *Dispatcher) await(ctx context.Context, l *keyQueue, s call.State, n int, a *arrival) {
	s, attempt, w, fresh := l.enlist(s, n, a)
	switch {
	case attempt.N == 0: // no longer in the log
		return
	case !attempt.Open():
		d.replay(ctx, l, s, n, a)
		return
	}
	d.watch(s, attempt, false)
	if w.due != 0 && a.Late(d.Now()) {
		d.releaseJoiner(envelope.JoinerLeft{Tool: s.Tool, ID: s.ID, Attempt: n, CallID: w.callID})
		return
	}
	if w.due != 0 && fresh {
		d.joinerDeadlines.Add(w.due.Time(), envelope.JoinerLeft{Tool: s.Tool, ID: s.ID, Attempt: n, CallID: w.callID})
	}
	d.accept(ctx, a, s, attempt, cmp.Or(w.due, attempt.Deadline))
}

// enlist adds the caller to those that wait for attempt n, if that is open. It returns the newest known state and the
// attempt, which is zero if the log does not have it. fresh reports whether w.due is a new deadline.
func (l *keyQueue) enlist(s call.State, n int, a *arrival) (_ call.State, attempt call.Attempt, w waiter, fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state.Seq > s.Seq {
		s = l.state
	}
	attempt, _ = s.Attempt(n)
	if attempt.N == 0 || !attempt.Open() {
		return s, attempt, w, false
	}
	w = waiter{callID: a.Ask.Owner.CallID, inbox: a.In.ReplyAddress()}
	if attempt.Owner.CallID != w.callID && a.Ask.Deadline < attempt.Deadline {
		w.due = a.Ask.Deadline
	}
	w, fresh = l.wait(n, w)
	return s, attempt, w, fresh
}

// wait adds w. It replaces an earlier wait of the same call id, and keeps its deadline if that is earlier. fresh
// reports whether the deadline is new. Callers hold l.mu.
func (l *keyQueue) wait(n int, w waiter) (_ waiter, fresh bool) {
	if l.waiting == nil {
		l.waiting = map[int][]waiter{}
	}
	for i, have := range l.waiting[n] {
		if have.callID == w.callID {
			if have.due != 0 && (w.due == 0 || have.due < w.due) {
				w.due = have.due
			}
			l.waiting[n][i] = w
			return w, w.due != have.due
		}
	}
	if len(l.waiting[n]) >= maxWaiting {
		return w, false
	}
	l.waiting[n] = append(l.waiting[n], w)
	return w, true
}

// RemoveJoiner ends the wait of a joiner, if it waits here, and answers it. The call goes on.
func (d *Dispatcher) RemoveJoiner(l envelope.JoinerLeft) {
	w, s, ok := d.leave(l, func(waiter) bool { return true })
	if !ok {
		return
	}
	d.dismiss(w, s, l.Attempt, envelope.NewError(envelope.CodeCancelled,
		"this caller does not wait any more; the call goes on for the others").WithEffect(envelope.EffectUnknown))
}

// dismiss sends a joiner of attempt n an answer that is not an outcome.
func (d *Dispatcher) dismiss(w waiter, s call.State, n int, e *envelope.Error) {
	p := envelope.Provenance{ToolID: s.Tool, ToolVersion: s.Version, Attempt: n}
	a, _ := s.Attempt(n)
	d.Replies.Outcome(w.inbox, envelope.Failure(w.callID, e, p, envelope.Metrics{}).Correlated(a.Owner.Trace))
}

// leave removes the waiter of l, if may returns true for it, and returns it with the state of its log.
func (d *Dispatcher) leave(l envelope.JoinerLeft, may func(waiter) bool) (w waiter, s call.State, ok bool) {
	line := d.known(l.Tool, l.ID)
	if line == nil {
		return w, s, false
	}
	line.mu.Lock()
	defer line.mu.Unlock()
	waiting := line.waiting[l.Attempt]
	i := slices.IndexFunc(waiting, func(w waiter) bool { return w.callID == l.CallID && may(w) })
	if i < 0 {
		return w, s, false
	}
	w = waiting[i]
	if line.waiting[l.Attempt] = slices.Delete(waiting, i, i+1); len(waiting) == 1 {
		delete(line.waiting, l.Attempt)
	}
	return w, line.state, true
}

// replay answers with the stored outcome of attempt n, or with an error if that cannot be read. The answer does not
// wait for its audit record.
func (d *Dispatcher) replay(ctx context.Context, l *keyQueue, s call.State, n int, a *arrival) {
	o, err := d.load(ctx, s, n)
	if err != nil {
		d.Logger.Warn("stored outcome not read", "call", s.ID, "err", err)
		if errors.Is(err, outcome.ErrUnreadable) { // sending the request again would not help
			d.tellUnreadable(a.In.ReplyAddress(), a.Ask.Owner.CallID, s, n)
		}
		return
	}
	d.Replies.Outcome(a.In.ReplyAddress(), o.For(a.Ask.Owner.CallID, true))
	d.Trace.Emit(ctx, call.TraceReplayed, &s, n)
	if !o.Attempt.Has(a.Ask.Owner.CallID) {
		if l.replayed == nil {
			l.replayed = map[int]sharing{}
		}
		l.replayed[n] = sharing{s, n, append(l.replayed[n].with, a.Ask.Owner)}
	}
}

// sharing holds callers that got the stored outcome of an attempt, to be recorded.
type sharing struct {
	of      call.State
	attempt int
	with    []call.Owner
}

// Largest numbers of sharings, and of callers in them, that wait to be recorded, and of sharings that are recorded at
// once.
const (
	maxSharings = 1024
	maxSharers  = 20_000
	recorders   = 8
)

// recordReplays passes the replays of this batch to recordAll. The queue does not wait for that.
func (d *Dispatcher) recordReplays(l *keyQueue) {
	for _, s := range l.replayed {
		if !d.queue(s) {
			d.Logger.Warn("replays not recorded: too many wait for it", "call", l.id, "callers", len(s.with))
		}
	}
	l.replayed = nil
}

// queue adds s to the waiting sharings. It returns false if too many wait.
func (d *Dispatcher) queue(s sharing) bool {
	callers := int64(len(s.with))
	if d.sharers.Add(callers) <= maxSharers {
		select {
		case d.sharings <- s:
			return true
		default:
		}
	}
	d.sharers.Add(-callers)
	return false
}

// recordAll records replays until ctx ends, and then the waiting ones for at most recordPause.
func (d *Dispatcher) recordAll(ctx context.Context) {
	for {
		select {
		case s := <-d.sharings:
			d.safely("the record of a replay", func() { d.record(ctx, s) })
		case <-ctx.Done():
			d.recordRest(context.WithoutCancel(ctx))
			return
		}
	}
}

// recordPause is the pause before a failed record is written again.
const recordPause = time.Second

func (d *Dispatcher) record(ctx context.Context, s sharing) {
	defer d.sharers.Add(-int64(len(s.with)))
	_ = timer.Backoff{Pause: recordPause}.Until(ctx, func(ctx context.Context) (done bool, err error) {
		if err = d.Records.Shared(ctx, s.of, s.attempt, s.with); err != nil {
			d.Logger.Warn("replays not recorded", "call", s.of.ID, "callers", len(s.with), "err", err)
		}
		return err == nil || errors.Is(err, audit.ErrRefused), err
	})
}

func (d *Dispatcher) recordRest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, recordPause)
	defer cancel()
	for ctx.Err() == nil {
		select {
		case s := <-d.sharings:
			d.record(ctx, s)
		default:
			return
		}
	}
}

// Observe handles an event of the call log. Followers call it for every event, in the order of each partition. It
// updates the watched deadlines, and answers callers that wait in this dispatcher. It recovers from a panic and skips
// the event, because the event would make all dispatchers panic.
func (d *Dispatcher) Observe(ctx context.Context, kind call.Kind, attempt int, s call.State) {
	defer func() {
		if p := recover(); p != nil {
			d.panicked("an event of call "+s.ID, p)
		}
	}()
	a, ok := s.Attempt(attempt)
	d.deadlinesOf(s.Position).saw(s.Seq)
	switch {
	case !ok:
	case kind == call.Decided:
		d.deadlinesOf(s.Position).close(s.ID, a.N, a.Admitted)
		d.tell(ctx, s, attempt)
	case a.Open(): // also for claims and joins: the request event may have expired before this dispatcher started
		d.watch(s, a, true)
	}
}

// notification is a decided attempt with the callers that wait for its outcome.
type notification struct {
	state   call.State
	attempt int
	waiting []waiter
}

// tell passes the callers that wait here for attempt n to tellAll.
func (d *Dispatcher) tell(ctx context.Context, s call.State, n int) {
	l := d.known(s.Tool, s.ID)
	if l == nil {
		return
	}
	s = l.learn(s)
	l.mu.Lock()
	waiting := l.waiting[n]
	delete(l.waiting, n)
	l.mu.Unlock()
	d.retire(l)
	if len(waiting) == 0 {
		return
	}
	select {
	case d.notifications <- notification{s, n, waiting}:
	case <-ctx.Done():
	}
}

// tellAll answers waiting callers until ctx ends.
func (d *Dispatcher) tellAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case t := <-d.notifications:
			d.safely("an outcome", func() { d.tellWaiting(ctx, t) })
		}
	}
}

func (d *Dispatcher) tellWaiting(ctx context.Context, t notification) {
	o, err := d.load(ctx, t.state, t.attempt)
	if err != nil {
		d.Logger.Warn("outcome not read", "call", t.state.ID, "err", err)
	}
	for _, w := range t.waiting {
		switch {
		case err == nil:
			d.Replies.Outcome(w.inbox, o.For(w.callID, false))
			d.Trace.Emit(ctx, call.TraceDelivered, &t.state, t.attempt)
		case errors.Is(err, outcome.ErrUnreadable):
			d.tellUnreadable(w.inbox, w.callID, t.state, t.attempt)
		} // after another error the clients send their requests again
	}
}
