package answer

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Line has the newest known state of the log of one key, and the callers that wait for its attempts.
type Line struct {
	subjects.Key
	replayed map[int]sharing // replays of the current batch, by attempt; of the goroutine that serves the batch

	mu      sync.Mutex
	state   call.State
	waiting map[int][]waiter // by attempt
}

// State returns the newest known state of the log.
func (l *Line) State() call.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// Idle reports whether no caller waits.
func (l *Line) Idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting) == 0
}

// Learn stores s if it is newer than the known state, and returns the newest state.
func (l *Line) Learn(s call.State) call.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.Seq > l.state.Seq {
		l.state = s
	}
	return l.state
}

// Found stores the state s that was read from the log. It may be older than the known state: then the log has expired,
// or a server that does not sync every write has lost its end after a power cut. In that case the waiting callers are
// removed; their clients send the requests again, and they are admitted again.
func (l *Line) Found(known uint64, s call.State) call.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case s.Seq > l.state.Seq:
		l.state = s
	case s.Seq < known && known == l.state.Seq:
		l.state, l.waiting = s, nil
	}
	return l.state
}

// waiter is a caller that gets the outcome of an attempt when it is decided.
type waiter struct {
	callID string
	inbox  call.ReplyAddress
	due    call.UnixMS // its own deadline if that is before the attempt's; otherwise 0
}

// maxWaiting is the largest number of callers that wait in one dispatcher for one attempt.
const maxWaiting = 4096

// Await makes the caller wait for the outcome of attempt n, or sends it if the attempt is decided. A joiner waits at
// most until its own deadline.
func (a *Answers) Await(ctx context.Context, l *Line, s call.State, n int, c *check.Call) {
	s, attempt, w, fresh := l.enlist(s, n, c)
	switch {
	case attempt.N == 0: // no longer in the log
		return
	case !attempt.Open():
		a.Replay(ctx, l, s, n, c)
		return
	}
	if w.due != 0 && c.Late(a.Now()) {
		a.releaseJoiner(envelope.JoinerLeft{Tool: s.Tool, ID: s.ID, Attempt: n, CallID: w.callID})
		return
	}
	if w.due != 0 && fresh {
		a.joinerDeadlines.Add(w.due.Time(), envelope.JoinerLeft{Tool: s.Tool, ID: s.ID, Attempt: n, CallID: w.callID})
	}
	a.Accept(ctx, c, s, attempt, cmp.Or(w.due, attempt.Deadline))
}

// enlist adds the caller to those that wait for attempt n, if that is open. It returns the newest known state and the
// attempt, which is zero if the log does not have it. fresh reports whether w.due is a new deadline.
func (l *Line) enlist(s call.State, n int, c *check.Call) (_ call.State, attempt call.Attempt, w waiter, fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state.Seq > s.Seq {
		s = l.state
	}
	attempt, _ = s.Attempt(n)
	if attempt.N == 0 || !attempt.Open() {
		return s, attempt, w, false
	}
	w = waiter{callID: c.Ask.Owner.CallID, inbox: c.In.ReplyAddress()}
	if attempt.Owner.CallID != w.callID && c.Ask.Deadline < attempt.Deadline {
		w.due = c.Ask.Deadline
	}
	w, fresh = l.wait(n, w)
	return s, attempt, w, fresh
}

// dismiss removes and returns the waiters for attempt n, which is decided in s, and returns the newest known state.
func (l *Line) dismiss(s call.State, n int) (call.State, []waiter) {
	s = l.Learn(s)
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := l.waiting[n]
	delete(l.waiting, n)
	return s, waiting
}

// wait adds w. It replaces an earlier wait of the same call id, and keeps its deadline if that is earlier. fresh
// reports whether the deadline is new. Callers hold l.mu.
func (l *Line) wait(n int, w waiter) (_ waiter, fresh bool) {
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
func (a *Answers) RemoveJoiner(l envelope.JoinerLeft) {
	w, s, ok := a.leave(l, func(waiter) bool { return true })
	if !ok {
		return
	}
	a.dismiss(w, s, l.Attempt, envelope.NewError(envelope.CodeCancelled,
		"this caller does not wait any more; the call goes on for the others").WithEffect(envelope.EffectUnknown))
}

// dismiss sends a joiner of attempt n an answer that is not an outcome.
func (a *Answers) dismiss(w waiter, s call.State, n int, e *envelope.Error) {
	p := envelope.Provenance{ToolID: s.Tool, ToolVersion: s.Version, Attempt: n}
	t, _ := s.Attempt(n)
	a.replies.Outcome(w.inbox, envelope.Failure(w.callID, e, p, envelope.Metrics{}).Correlated(t.Owner.Trace))
}

// leave removes the waiter of l, if may returns true for it, and returns it with the state of its log.
func (a *Answers) leave(l envelope.JoinerLeft, may func(waiter) bool) (w waiter, s call.State, ok bool) {
	line := a.lines.Line(subjects.Key{Tool: l.Tool, ID: l.ID})
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

// keepJoinerDeadlines answers joiners at their own deadlines until ctx ends.
func (a *Answers) keepJoinerDeadlines(ctx context.Context) {
	timer.Repeat(ctx, a.joinerDeadlines.Wake, func() time.Duration {
		over, pause := a.joinerDeadlines.Next(a.Now())
		for _, l := range over {
			a.Safely("the deadline of a joiner", func() { a.releaseJoiner(l) })
		}
		return pause
	})
}

// releaseJoiner sends a joiner, if it still waits at its deadline, the answer that its call goes on.
func (a *Answers) releaseJoiner(l envelope.JoinerLeft) {
	now := call.At(a.Now())
	w, s, ok := a.leave(l, func(w waiter) bool { return w.due != 0 && w.due <= now })
	if ok { // not an outcome: the attempt is decided later
		e := envelope.NewError(envelope.CodeTimeout, "this caller's deadline has passed; the call goes on for the others")
		a.dismiss(w, s, l.Attempt, e.WithFix("ask again with the same key for the outcome").WithEffect(EffectSoFar(s)))
	}
}

// Abandon removes the callers that wait here for an attempt that is no longer in the log. They get no answer: their
// clients report that at the deadline. admitted is the sequence of its request event.
func (a *Answers) Abandon(key subjects.Key, attempt int, admitted uint64) {
	l := a.lines.Line(key)
	if l == nil {
		return
	}
	l.mu.Lock()
	if have, ok := l.state.Attempt(attempt); ok && have.Admitted == admitted {
		delete(l.waiting, attempt)
	}
	l.mu.Unlock()
	a.lines.Retire(l)
}

// notification is a decided attempt with the callers that wait for its outcome.
type notification struct {
	state   call.State
	attempt int
	waiting []waiter
}

// Tell passes the callers that wait here for attempt n, which is decided in s, to the goroutines of Run.
func (a *Answers) Tell(ctx context.Context, s call.State, n int) {
	l := a.lines.Line(s.Key())
	if l == nil {
		return
	}
	s, waiting := l.dismiss(s, n)
	a.lines.Retire(l)
	if len(waiting) == 0 {
		return
	}
	select {
	case a.notifications <- notification{s, n, waiting}:
	case <-ctx.Done():
	}
}

// tellAll answers waiting callers until ctx ends.
func (a *Answers) tellAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case t := <-a.notifications:
			a.Safely("an outcome", func() { a.tellWaiting(ctx, t) })
		}
	}
}

func (a *Answers) tellWaiting(ctx context.Context, t notification) {
	o, err := a.Load(ctx, t.state, t.attempt)
	if err != nil {
		a.Logger.Warn("outcome not read", "call", t.state.ID, "err", err)
	}
	for _, w := range t.waiting {
		switch {
		case err == nil:
			a.replies.Outcome(w.inbox, o.For(w.callID, false))
			a.Trace.Emit(ctx, call.TraceDelivered, &t.state, t.attempt)
		case errors.Is(err, outcome.ErrUnreadable):
			a.tellUnreadable(w.inbox, w.callID, t.state, t.attempt)
		} // after another error the clients send their requests again
	}
}
