package dispatcher

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
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
func (d *Dispatcher) join(ctx context.Context, l *keyQueue, s call.State, joining []arrival) {
	defer func() {
		if p := recover(); p != nil {
			d.failed(ctx, p, requests(joining)...)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	if !timer.Sleep(ctx, min(firstLinger<<min(l.joins, 10), maxLinger)) {
		return
	}
	joining = append(joining, l.late()...)
	if s, joining = d.placeAll(ctx, l, l.learn(s), joining); len(joining) == 0 {
		return
	}
	n := s.Last().N
	if !mayJoin(s, n, joining) { // the log has changed since
		l.again(joining)
		return
	}
	event, left := joinEvent(s, n, joining, d.NewNonce())
	l.joins++
	switch err := d.Records.Shared(ctx, s, n, owners(joining, left)); {
	case errors.Is(err, audit.ErrRefused):
		d.turnAllDown(ctx, l, s, joining, envelope.NewError(envelope.CodeAuditLag, "").WithRetryAfter(time.Second))
		return
	case err != nil: // no join without a record: the clients send their requests again
		d.Logger.Warn("join not recorded", "call", l.id, "err", err)
		return
	}
	d.Trace.Emit(ctx, call.TraceBeforeJoin, &s, n)
	after, err := d.CallLog.Write(ctx, event, nil)
	var moved *call.ConflictError
	switch {
	case errors.As(err, &moved):
		l.found(s.Seq, moved.State)
		l.again(joining)
		return
	case errors.Is(err, call.ErrFull):
		d.turnAllDown(ctx, l, s, joining, storeFull())
		return
	case err != nil: // perhaps written: the clients send their requests again
		d.Logger.Warn("join unsure", "call", l.id, "err", err)
		return
	}
	l.learn(after)
	d.Trace.Emit(ctx, call.TraceAfterJoin, &after, n)
	for i := range joining {
		if a := &joining[i]; !slices.Contains(left, *a) {
			d.await(ctx, l, after, n, a)
		}
	}
	l.again(left)
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
func (d *Dispatcher) turnAllDown(
	ctx context.Context, l *keyQueue, s call.State, joining []arrival, refusal *envelope.Error,
) {
	for i := range joining {
		a := &joining[i]
		if _, again := d.turnDown(ctx, l, s, a, refusal); again {
			l.again([]arrival{*a})
		}
	}
}

// mayJoin reports whether all requests may join the open attempt n of s.
func mayJoin(s call.State, n int, joining []arrival) bool {
	for _, a := range joining {
		if v := call.Admit(s, a.Ask); v.Do != call.Join || v.Attempt != n {
			return false
		}
	}
	return true
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

func (l *keyQueue) again(as []arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.arrive(append(as, l.leaveAll()...)...)
}

// late returns the requests that have arrived meanwhile.
func (l *keyQueue) late() []arrival {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leaveAll()
}
