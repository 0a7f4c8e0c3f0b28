package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/settle"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Query asks about a call by the reference that its acceptance named.
type Query struct {
	Ref    string `json:"ref"`
	CallID string `json:"call_id,omitzero"` // whose outcome; empty means the newest attempt
}

// Cancellation is the answer to a cancel. Told says which it was: "queued" (never started, or, without a claim,
// not known to run), "running" (killed), "detached" (a joiner left; the call goes on) or "decided" (too late).
type Cancellation struct {
	Told     string             `json:"told"`
	Response *envelope.Response `json:"response,omitzero"`
}

// State reads the log that ref names, for an actor that may see it. Here and in all operations
// below, tenant and actor are tokens of the subject that the bus enforces.
func (d *Dispatcher) State(ctx context.Context, tenant, actor string, q Query) (call.State, *envelope.Error) {
	last, refusal := d.last(ctx, tenant, actor, q)
	return last.State, refusal
}

// last reads the last event of that log.
func (d *Dispatcher) last(ctx context.Context, tenant, actor string, q Query) (call.Entry, *envelope.Error) {
	key, err := subjects.ParseRef(q.Ref)
	if err != nil {
		return call.Entry{}, envelope.NewError(envelope.CodeMalformed, "the reference is not of the form <tool>.<id>").
			WithFix("give the reference that the call printed, or that its acceptance named")
	}
	if key.Tool == "" { // the reference holds a digest of it
		token, _, _ := strings.Cut(q.Ref, ".")
		if m, ok := d.Catalog.Named(token); ok {
			key.Tool = m.ToolID
		}
	}
	last, err := d.CallLog.Read(ctx, key.Tool, key.ID)
	if err != nil {
		return call.Entry{}, envelope.NewError(envelope.CodeUnavailable, "the call log could not be read").WithRetryAfter(time.Second)
	}
	if last.State.Empty() || subjects.Token(last.State.Tenant) != tenant || !concerns(last.State, actor, q.CallID) {
		return call.Entry{}, envelope.NewError(envelope.CodeNotFound, fmt.Sprintf("no call %q is known to you", q.Ref))
	}
	return last, nil
}

// concerns reports whether the actor owns an attempt of the call, or names one of its call ids.
func concerns(s call.State, actor, callID string) bool {
	for _, a := range s.Attempts {
		if subjects.Token(a.Owner.Actor) == actor || callID != "" && a.Has(callID) {
			return true
		}
	}
	return false
}

// attempt finds the attempt that q asks for: that of its call id, or the newest.
func (q Query) attempt(s call.State) (call.Attempt, *envelope.Error) {
	if q.CallID == "" {
		return s.Last(), nil
	}
	a, ok := s.AttemptOf(q.CallID)
	if !ok {
		return a, envelope.NewError(envelope.CodeNotFound, fmt.Sprintf("no call id %q is bound to this call", q.CallID)).
			WithFix("leave the call id out for the newest attempt, or give the one that the request had")
	}
	return a, nil
}

// as returns the call id under which the actor is told of the call: the one that it names, or its
// own. With those of others it could ask in their names.
func (q Query) as(s call.State, actor string) string {
	for _, a := range slices.Backward(s.Attempts) {
		if q.CallID == "" && subjects.Token(a.Owner.Actor) == actor {
			return a.Owner.CallID
		}
	}
	return q.CallID
}

// Result returns the outcome of a call, or its acceptance while it has none.
func (d *Dispatcher) Result(ctx context.Context, tenant, actor string, q Query) (*envelope.Response, *envelope.Accepted, *envelope.Error) {
	s, refusal := d.State(ctx, tenant, actor, q)
	if refusal != nil {
		return nil, nil, refusal
	}
	a, refusal := q.attempt(s)
	if refusal != nil {
		return nil, nil, refusal
	}
	id := q.as(s, actor)
	if a.Open() {
		return nil, &envelope.Accepted{
			CallID: id, Ref: s.Ref(), Attempt: a.N, Joined: slices.Contains(a.Joined, id),
			DeadlineUnixMS: int64(a.Deadline), ToolVersion: s.Version,
		}, nil
	}
	o, err := settle.Load(ctx, d.CallLog, s, a.N)
	if err != nil {
		return nil, nil, envelope.NewError(envelope.CodeUnavailable, "the outcome could not be read").WithRetryAfter(time.Second)
	}
	return o.For(id, true), nil, nil
}

// Cancel ends a call at its owner's wish. A queued call never starts, a running one is killed;
// the answer says which it was. A joiner's cancel only detaches the joiner.
func (d *Dispatcher) Cancel(ctx context.Context, tenant, actor string, q Query) (Cancellation, *envelope.Error) {
	last, refusal := d.last(ctx, tenant, actor, q)
	if refusal != nil {
		return Cancellation{}, refusal
	}
	s := last.State
	a, refusal := q.attempt(s)
	if refusal != nil {
		return Cancellation{}, refusal
	}
	if q.CallID != "" && a.Owner.CallID != q.CallID || subjects.Token(a.Owner.Actor) != actor {
		d.Peers.Left(Leave{Tool: s.Tool, ID: s.ID, Attempt: a.N, CallID: q.CallID})
		return Cancellation{Told: "detached"}, nil
	}
	o, err := settle.Decide(ctx, d.CallLog, s, a.N, a.Admitted, call.Ending{
		Cause: call.Cancelled, By: call.ByCanceller, Nonce: d.NewNonce(), Now: call.At(d.Now()),
	}, draft(last, a.N), nil)
	if err != nil {
		return Cancellation{}, unsettled(err)
	}
	told := "decided"
	if o.Won || unheard(o.Attempt, d.Now()) {
		running := d.Killer.Kill(ctx, s.ID, a.N, a.Due())
		switch {
		case running || o.Won && o.Attempt.Claim != nil:
			told = "running"
		case o.Won:
			told = "queued"
		}
		d.Replies.Outcome(Inbox{Reply: a.Owner.Reply, ContentType: a.Owner.ContentType}, o.For(a.Owner.CallID, false))
	}
	return Cancellation{Told: told, Response: o.For(a.Owner.CallID, false)}, nil
}

// unheard reports whether an attempt ended by a cancel of which nobody may have been told: whoever
// wrote it did not learn that it stands, or died.
func unheard(a call.Attempt, now time.Time) bool {
	return a.Decision.By == call.ByCanceller && now.Before(a.Due())
}

func unsettled(err error) *envelope.Error {
	switch {
	case errors.Is(err, settle.ErrGone):
		return envelope.NewError(envelope.CodeNotFound, "the call is not retained any more")
	case errors.Is(err, call.ErrFull):
		return storeFull()
	}
	return envelope.NewError(envelope.CodeUnavailable, "the call log could not be reached").WithRetryAfter(time.Second)
}

// Why says in one sentence what a call is waiting for, or why it ended as it did (promise P8).
func (d *Dispatcher) Why(ctx context.Context, tenant, actor string, q Query) (string, *envelope.Error) {
	s, refusal := d.State(ctx, tenant, actor, q)
	if refusal != nil {
		return "", refusal
	}
	a, refusal := q.attempt(s)
	if refusal != nil {
		return "", refusal
	}
	if !a.Open() {
		return call.Explain(s, a.N, d.Now()), nil
	}
	return d.sighting(ctx, s, a).Explain(s, a.N, d.Now()), nil
}

// sighting asks the executors of the pool about an attempt.
func (d *Dispatcher) sighting(ctx context.Context, s call.State, a call.Attempt) (v call.Sighting) {
	var err error
	if v.Alive, err = d.Pools.Alive(ctx, s.Pool); err != nil {
		v.Alive = -1
	}
	if d.Finder != nil && a.Claim == nil {
		v.By, v.Since, _ = d.Finder.Find(ctx, s.ID, a.N)
	}
	return v
}
