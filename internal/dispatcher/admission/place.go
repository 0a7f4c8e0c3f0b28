package admission

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/answer"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Admit adds a call to the queue of its key, and serves the queue unless another goroutine does. If the queue is full,
// the call is dropped: its client sends it again. known is the state of the log; zero if that has not been read.
func (m *Admission) Admit(ctx context.Context, c *check.Call, known call.State) {
	key := subjects.Key{Tool: c.Ask.Pinned.Tool, ID: c.Ask.Pinned.ID}
	if q := m.Queues.enter(key, arrival{Call: c}, known); q != nil {
		m.serve(ctx, q)
	}
}

// serve handles batches of requests until the queue is empty.
func (m *Admission) serve(ctx context.Context, q *queue) {
	for {
		batch, s := q.take()
		if len(batch) == 0 {
			m.Queues.Retire(&q.Line)
			return
		}
		m.serveBatch(ctx, q, s, batch)
	}
}

// batchTime is the longest time for one batch if the log cannot be reached. Clients without an answer by then send
// their requests again.
const batchTime = 10 * time.Second

func (m *Admission) serveBatch(ctx context.Context, q *queue, s call.State, batch []arrival) {
	if len(batch) > 1 { // each step of a single request has its own timeout
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, batchTime)
		defer cancel()
	}
	if s, joining := m.placeAll(ctx, q, s, batch); len(joining) > 0 {
		m.join(ctx, q, s, joining)
	}
	m.Answers.RecordReplays(&q.Line)
}

// placeAll places every request and returns those that are still to be joined to the open attempt.
func (m *Admission) placeAll(ctx context.Context, q *queue, s call.State, batch []arrival) (call.State, []arrival) {
	var joining []arrival
	fresh := false // the log has been read since the whole batch arrived
	for i := range batch {
		var join bool
		if s, join = m.placeOne(ctx, q, s, &batch[i], &fresh); join {
			joining = append(joining, batch[i])
		}
	}
	return s, joining
}

// placeOne is place, but answers a request that makes place panic, so that the requests after it are still handled.
func (m *Admission) placeOne(
	ctx context.Context, q *queue, s call.State, a *arrival, fresh *bool,
) (after call.State, join bool) {
	after = s
	defer func() {
		if p := recover(); p != nil {
			m.Answers.Failed(ctx, p, a.Request)
		}
	}()
	return m.place(ctx, q, s, a, fresh)
}

// place carries out the result of call.Admit for one request, and returns the state of the log after it. It returns
// true if the request must still join the open attempt.
func (m *Admission) place(ctx context.Context, q *queue, s call.State, a *arrival, fresh *bool) (call.State, bool) {
	for {
		var again bool
		refusal, v := m.recheck(ctx, s, a), call.AdmitResult{}
		if refusal == nil {
			v = call.Admit(s, a.Ask)
			refusal = outside(a.Principal, s, v)
		}
		if refusal != nil {
			if s, again = m.refuse(ctx, q, s, a, refusal); again {
				*fresh = true
				continue
			}
			return s, false
		}
		switch v.Do {
		case call.Join:
			refusal := m.noJoin(a)
			if refusal == nil {
				return s, a.Stored != nil
			}
			s, again = m.turnDown(ctx, q, s, a, refusal)
		case call.Await:
			if *fresh {
				m.await(ctx, q, s, v.Attempt, a)
			} else {
				s, again = m.reread(ctx, q, s, a)
			}
		case call.Replay:
			refusal := m.noReplay(s, v.Attempt, a)
			if refusal == nil {
				m.Answers.Replay(ctx, &q.Line, s, v.Attempt, a.Call)
				return s, false
			}
			s, again = m.turnDown(ctx, q, s, a, refusal)
		case call.Refuse:
			s, again = m.turnDown(ctx, q, s, a, barred(s, a, v.Code))
		case call.Write:
			s, again = m.open(ctx, q, s, a, v)
		}
		if !again {
			return s, false
		}
		*fresh = true
	}
}

// recheck checks a request again if what the last check found no longer holds. It returns nil also for a request that
// is refused by now, but whose call belongs to an attempt of s.
func (m *Admission) recheck(ctx context.Context, s call.State, a *arrival) *check.Refusal {
	if a.Stored == nil { // it may only be answered, see check.Request.Recall
		return nil
	}
	c, refusal := m.Checks.Recheck(ctx, a.Call)
	if refusal == nil {
		c.Ask.Owner.Parent, c.Ask.Step = a.Ask.Owner.Parent, a.Ask.Step
		a.Call = c
		return nil
	}
	if _, bound := s.AttemptOf(a.Req.CallID); bound {
		a.Call = a.Recall(s)
		return nil
	}
	return refusal
}

// outside refuses a request whose answer would be about an attempt that its bound token does not cover. That can
// happen because all calls of an actor, also in other runs, share the scope of a key.
func outside(p *auth.Principal, s call.State, v call.AdmitResult) *check.Refusal {
	if v.Do != call.Join && v.Do != call.Await && v.Do != call.Replay {
		return nil
	}
	a, ok := s.Attempt(v.Attempt)
	if !ok || check.Covers(p, a) {
		return nil
	}
	return &check.Refusal{Stage: answer.StageAdmission, Error: envelope.NewError(envelope.CodeScope, fmt.Sprintf(
		"the token does not cover the call that attempt %d of this key is of: its role, run, lane or scopes are others",
		a.N)).
		WithFix("use a key of your own, or a token that covers that call")}
}

// await makes the caller wait for the outcome of attempt n of s.
func (m *Admission) await(ctx context.Context, q *queue, s call.State, n int, a *arrival) {
	s = q.Learn(s)
	if attempt, ok := s.Attempt(n); ok && attempt.Open() {
		m.Deadlines.Watch(s, attempt, false)
	}
	m.Answers.Await(ctx, &q.Line, s, n, a.Call)
}

// noJoin returns a refusal if the request may not join now, or nil.
func (m *Admission) noJoin(a *arrival) *envelope.Error {
	switch {
	case a.Late(m.Now()):
		return check.TooLate()
	case m.Capacity.LogFull(): // a join event takes space, too
		return StoreFull()
	}
	return cmp.Or(m.overRecord(a), m.overShare(a)) // each join has a record, too
}

// noReplay returns a refusal if the request may not get the stored outcome of attempt n of s now, or nil.
func (m *Admission) noReplay(s call.State, n int, a *arrival) *envelope.Error {
	if attempt, _ := s.Attempt(n); attempt.Has(a.Ask.Owner.CallID) {
		return nil // it gets the outcome of its own call, without a record
	}
	return m.overRecord(a)
}

// reread reads the log. A caller that sends its request again has missed an answer. This dispatcher, for which the
// attempt is still open, may have missed the outcome as well. again is false if the log is damaged, and the request
// refused for it.
func (m *Admission) reread(ctx context.Context, q *queue, s call.State, a *arrival) (_ call.State, again bool) {
	last, err := m.Head(ctx, s.Tool, s.ID)
	switch {
	case m.Answers.RefuseDamaged(ctx, a.Request, err):
		return s, false
	case err != nil:
		m.Logger.Warn("call log not read", "call", q.ID, "err", err) // s is the newest known state
		return s, true
	}
	return q.Found(s.Seq, last.State), true
}
