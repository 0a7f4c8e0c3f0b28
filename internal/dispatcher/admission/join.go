package admission

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/answer"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// Joins are collected before they are written, because they are not urgent while the attempt is open. The time to
// collect doubles with each join event of a key.
const (
	firstLinger = time.Millisecond
	maxLinger   = 64 * time.Millisecond
)

// join adds all waiting callers to the open attempt with one event, after it has waited for more to arrive. If the log
// has changed, they are placed again.
func (m *Admission) join(ctx context.Context, q *queue, s call.State, joining []arrival) {
	defer func() {
		if p := recover(); p != nil {
			m.Answers.Failed(ctx, p, requests(joining)...)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	if !timer.Sleep(ctx, min(firstLinger<<min(q.joins, 10), maxLinger)) {
		return
	}
	joining = append(joining, q.late()...)
	if s, joining = m.placeAll(ctx, q, q.Learn(s), joining); len(joining) == 0 {
		return
	}
	n := s.Last().N
	if !mayJoin(s, n, joining) { // the log has changed since
		q.again(joining)
		return
	}
	event, left := joinEvent(s, n, joining, m.NewNonce())
	q.joins++
	switch err := m.Records.Shared(ctx, s, n, owners(joining, left)); {
	case errors.Is(err, audit.ErrRefused):
		m.turnAllDown(ctx, q, s, joining, envelope.NewError(envelope.CodeAuditLag, "").WithRetryAfter(time.Second))
		return
	case err != nil: // no join without a record: the clients send their requests again
		m.Logger.Warn("join not recorded", "call", q.ID, "err", err)
		return
	}
	m.Trace.Emit(ctx, call.TraceBeforeJoin, &s, n)
	after, err := m.CallLog.Write(ctx, event, nil)
	var moved *call.ConflictError
	switch {
	case errors.As(err, &moved):
		q.Found(s.Seq, moved.State)
		q.again(joining)
		return
	case errors.Is(err, call.ErrFull):
		m.turnAllDown(ctx, q, s, joining, StoreFull())
		return
	case answer.Damaged(err) != nil:
		for i := range joining {
			m.Answers.RefuseDamaged(ctx, joining[i].Request, err)
		}
		return
	case err != nil: // perhaps written: the clients send their requests again
		m.Logger.Warn("join unsure", "call", q.ID, "err", err)
		return
	}
	q.Learn(after)
	for i := range joining {
		if a := &joining[i]; !slices.Contains(left, *a) {
			m.Trace.Share(ctx, call.TraceAfterJoin, &after, n, a.Req)
			m.await(ctx, q, after, n, a)
		}
	}
	q.again(left)
}

func requests(as []arrival) []*check.Request {
	all := make([]*check.Request, len(as))
	for i, a := range as {
		all[i] = a.Request
	}
	return all
}

// owners returns the owners of the requests in joining that are not in left.
func owners(joining, left []arrival) []call.Owner {
	var all []call.Owner
	for _, a := range joining {
		if !slices.Contains(left, a) {
			all = append(all, a.Ask.Owner)
		}
	}
	return all
}

// turnAllDown refuses all joining requests. A request is placed again if the log has changed.
func (m *Admission) turnAllDown(
	ctx context.Context, q *queue, s call.State, joining []arrival, refusal *envelope.Error,
) {
	for i := range joining {
		a := &joining[i]
		if _, again := m.turnDown(ctx, q, s, a, refusal); again {
			q.again([]arrival{*a})
		}
	}
}

// mayJoin reports whether all requests may join the open attempt n of s.
func mayJoin(s call.State, n int, joining []arrival) bool {
	return !slices.ContainsFunc(joining, func(a arrival) bool {
		v := call.Admit(s, a.Ask)
		return v.Do != call.Join || v.Attempt != n
	})
}

// joinEvent returns one event that joins all requests to attempt n of s. left are those for which the event has no
// room.
func joinEvent(s call.State, n int, joining []arrival, nonce string) (e call.Event, left []arrival) {
	ids := make([]string, len(joining))
	for i, a := range joining {
		ids[i] = a.Ask.Owner.CallID
	}
	e, full := call.JoinAll(s, n, ids, nonce)
	for _, a := range joining {
		if slices.Contains(full, a.Ask.Owner.CallID) {
			left = append(left, a)
		}
	}
	return e, left
}
