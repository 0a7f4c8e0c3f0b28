package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/admission"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/answer"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// StateOf returns the state of the log that q names. It refuses an actor that may not see it, or whose token does not
// cover attempt n.
func (d *Dispatcher) StateOf(
	ctx context.Context, from call.Sender, q envelope.CallRef, n int,
) (call.State, *envelope.Error) {
	last, refusal := d.last(ctx, subjects.OpChunks, from, q)
	if a, ok := last.State.Attempt(n); refusal == nil && ok && !covered(ctx, a) {
		refusal = d.hidden(ctx, from, q.Ref)
	}
	return last.State, refusal
}

// last returns the last event of the log that q names, if the sender may see it by the service operation op.
func (d *Dispatcher) last(
	ctx context.Context, op string, from call.Sender, q envelope.CallRef,
) (call.Entry, *envelope.Error) {
	all := auth.SeesTenant(op, auth.FromContext(ctx))
	return d.entry(ctx, from, q.Ref, func(s call.State) bool {
		return subjects.Token(s.Tenant) == from.Tenant && (all || concerns(ctx, s, from.Actor, q.CallID))
	})
}

// OutputOwner returns the place of the large output of a call in the payload store. Every caller that got the outcome
// may read it. With a key scope of session or global these may be other actors than the owner, and the log does not
// list them. So the sender must know the SHA-256 of the output, which only the outcome and the output itself reveal.
func (d *Dispatcher) OutputOwner(
	ctx context.Context, from call.Sender, q envelope.PayloadRequest,
) (of subjects.PayloadOwner, _ *envelope.Error) {
	_, refusal := d.entry(ctx, from, q.Ref, func(s call.State) bool {
		i := slices.IndexFunc(s.Attempts, func(a call.Attempt) bool {
			return a.Decision != nil && a.Decision.OutputHash == q.SHA256 && covered(ctx, a)
		})
		if i < 0 || q.SHA256 == "" || subjects.Token(s.Tenant) != from.Tenant {
			return false
		}
		of = subjects.Owner{Tenant: s.Tenant, Actor: s.Attempts[i].Owner.Actor}.On(s.Pool)
		return true
	})
	return of, refusal
}

// entry returns the last event of the log that ref names, if may returns true for its state. The answer to a sender
// that may not see the call is that about a call that does not exist, but a denial of it is on record.
func (d *Dispatcher) entry(
	ctx context.Context, from call.Sender, ref string, may func(call.State) bool,
) (call.Entry, *envelope.Error) {
	key, err := subjects.ParseRef(ref)
	if err != nil {
		return call.Entry{}, notReference(ref)
	}
	if key.Tool == "" { // the reference contains only a digest of the tool id
		token, _, _ := strings.Cut(ref, ".")
		key.Tool, _ = d.Names.Named(token)
	}
	last, err := d.Head(ctx, key.Tool, key.ID)
	if err != nil {
		return call.Entry{}, logUnread(err)
	}
	switch {
	case last.State.Empty():
		return call.Entry{}, unknownCall(ref)
	case !may(last.State):
		return call.Entry{}, d.hidden(ctx, from, ref)
	}
	return last, nil
}

// hidden records the denial of a question about a call that the sender may not see, and returns the answer.
func (d *Dispatcher) hidden(ctx context.Context, from call.Sender, ref string) *envelope.Error {
	return d.RecordDenied(ctx, from, unknownCall(ref))
}

// covered is [check.Covers] for the sender of the service request that ctx belongs to.
func covered(ctx context.Context, a call.Attempt) bool { return check.Covers(auth.FromContext(ctx), a) }

func logUnread(err error) *envelope.Error {
	if refusal := answer.Damaged(err); refusal != nil {
		return refusal
	}
	return envelope.NewError(envelope.CodeUnavailable, "the call log could not be read").WithRetryAfter(time.Second)
}

// concerns reports whether the actor owns an attempt of the call, or knows a call id of one, and its token covers that
// attempt.
func concerns(ctx context.Context, s call.State, actor, callID string) bool {
	return slices.ContainsFunc(s.Attempts, func(a call.Attempt) bool {
		return (subjects.Token(a.Owner.Actor) == actor || callID != "" && a.Has(callID)) && covered(ctx, a)
	})
}

// attempt returns the attempt of q.CallID, or the newest one if that is empty, and the last event of its log, if the
// sender may see them by the service operation op.
func (d *Dispatcher) attempt(
	ctx context.Context, op string, from call.Sender, q envelope.CallRef,
) (last call.Entry, a call.Attempt, refusal *envelope.Error) {
	if last, refusal = d.last(ctx, op, from, q); refusal != nil {
		return last, a, refusal
	}
	a, ok := last.State.Last(), true
	if q.CallID != "" {
		a, ok = last.State.AttemptOf(q.CallID)
	}
	switch {
	case !covered(ctx, a): // the actor may see only another attempt
		return last, a, d.hidden(ctx, from, q.Ref)
	case !ok:
		says := fmt.Sprintf("no call id %q is bound to this call", q.CallID)
		return last, a, envelope.NewError(envelope.CodeNotFound, says).
			WithFix("leave the call id out for the newest attempt, or give the one that the request had")
	}
	return last, a, nil
}

// callIDFor returns the call id for the answer to the actor: the one in q, or that of its own attempt. Operators get
// that of attempt a, which the audit record shows them anyhow. No other sender gets a call id of another actor, because
// with that it could send requests in the actor's name.
func callIDFor(ctx context.Context, s call.State, a call.Attempt, actor string, q envelope.CallRef) string {
	for _, a := range slices.Backward(s.Attempts) {
		if q.CallID == "" && subjects.Token(a.Owner.Actor) == actor && covered(ctx, a) {
			return a.Owner.CallID
		}
	}
	if q.CallID == "" && auth.SeesTenant(subjects.OpResult, auth.FromContext(ctx)) {
		return a.Owner.CallID
	}
	return q.CallID
}

// Result returns the outcome of a call, or its acceptance if it has no outcome yet. Operators may ask about all calls
// of their tenant.
func (d *Dispatcher) Result(
	ctx context.Context, from call.Sender, q envelope.CallRef,
) (none envelope.ResultResponse, _ *envelope.Error) {
	last, a, refusal := d.attempt(ctx, subjects.OpResult, from, q)
	if refusal != nil {
		return none, refusal
	}
	return d.standing(ctx, last.State, a, callIDFor(ctx, last.State, a, from.Actor, q))
}

// standing returns the outcome of attempt a of s, or its acceptance if it is open, in an answer for the call id.
func (d *Dispatcher) standing(
	ctx context.Context, s call.State, a call.Attempt, id string,
) (none envelope.ResultResponse, _ *envelope.Error) {
	if a.Open() {
		return envelope.ResultResponse{Accepted: &envelope.Accepted{
			CallID: id, Ref: s.Ref(), Attempt: a.N, Joined: slices.Contains(a.Joined, id),
			DeadlineUnixMS: int64(a.Deadline), ToolVersion: s.Version,
		}}, nil
	}
	o, err := d.Answers.Load(ctx, s, a.N)
	if err != nil {
		return none, envelope.NewError(envelope.CodeUnavailable, "the outcome could not be read").WithRetryAfter(time.Second)
	}
	return envelope.ResultResponse{Response: o.For(id, true)}, nil
}

// Cancel ends a call for its owner: a queued call never starts, and a running one is killed. The response reports which
// of both it was. A cancel of a joiner ends only the wait of the joiner.
func (d *Dispatcher) Cancel(
	ctx context.Context, from call.Sender, q envelope.CallRef,
) (none envelope.CancelResponse, _ *envelope.Error) {
	last, a, refusal := d.attempt(ctx, subjects.OpCancel, from, q)
	if refusal != nil {
		return none, refusal
	}
	s := last.State
	if q.CallID != "" && a.Owner.CallID != q.CallID || subjects.Token(a.Owner.Actor) != from.Actor {
		if q.CallID != a.Owner.CallID { // never detach the owner itself
			d.Control.JoinerLeft(envelope.JoinerLeft{Tool: s.Tool, ID: s.ID, Attempt: a.N, CallID: q.CallID})
		}
		return envelope.CancelResponse{Phase: "detached"}, nil
	}
	o, told, err := d.cancel(ctx, s, a, outcome.Draft{})
	if err != nil {
		return none, unsettled(err)
	}
	return envelope.CancelResponse{Phase: told, Response: o.For(a.Owner.CallID, false)}, nil
}

// cancel ends attempt a of s, unless it has an outcome, kills its run, and tells its owner. told is the phase of
// [envelope.CancelResponse].
func (d *Dispatcher) cancel(
	ctx context.Context, s call.State, a call.Attempt, draft outcome.Draft,
) (o outcome.Stored, told string, err error) {
	o, err = outcome.Resolve(ctx, d.CallLog, s, a.N, a.Admitted, call.Completion{
		Cause: call.Cancelled, By: call.ByCanceller, Nonce: d.NewNonce(), Now: call.At(d.Now()),
	}, draft.WithIgnoredWarnings(a), nil)
	if err != nil {
		return o, "", err
	}
	o.Emit(ctx, &d.Trace)
	told = "decided"
	if o.Won || mayBeUnnotified(o.Attempt, d.Now()) {
		running := d.Control.Kill(ctx, s.Pool, s.ID, a.N, a.Due())
		switch {
		case !o.Won: // it ended before, although its processes may just be ending
		case running || o.Attempt.Claim != nil:
			told = "running"
		default:
			told = "queued"
		}
		d.Answers.TellOwner(o)
	}
	return o, told, nil
}

// mayBeUnnotified reports whether an attempt was ended by a cancel whose executor and owner may not have been notified,
// because the dispatcher that wrote it died or got no acknowledgement.
func mayBeUnnotified(a call.Attempt, now time.Time) bool {
	return a.Decision.By == call.ByCanceller && now.Before(a.Due())
}

func unsettled(err error) *envelope.Error {
	switch {
	case errors.Is(err, outcome.ErrAttemptGone):
		return envelope.NewError(envelope.CodeNotFound, "the call is not retained any more")
	case errors.Is(err, call.ErrFull):
		return admission.StoreFull()
	}
	return envelope.NewError(envelope.CodeUnavailable, "the call log could not be reached").WithRetryAfter(time.Second)
}

// Why returns a sentence that says what a call waits for, or why it ended as it did, and one that says by which policy
// it was allowed. If the attempt may have run before its last claim, a sentence says so. Operators may ask about all
// calls of their tenant.
func (d *Dispatcher) Why(
	ctx context.Context, from call.Sender, q envelope.CallRef,
) (none envelope.WhyResponse, _ *envelope.Error) {
	last, a, refusal := d.attempt(ctx, subjects.OpWhy, from, q)
	if refusal != nil {
		return none, refusal
	}
	s, says := last.State, ""
	if a.Open() {
		says = d.sighting(ctx, s, a).Explain(s, a.N, d.Now())
	} else {
		says = call.ExplainEnd(s, a, d.failure(ctx, s, a))
	}
	says = strings.TrimSpace(says + " " + call.LostBefore(s, a, d.Lease))
	return envelope.WhyResponse{Sentence: strings.TrimSpace(says + "\n" + a.Owner.Allowed())}, nil
}

// failure returns the error of the outcome of attempt a of s, or nil if it has none that can be read.
func (d *Dispatcher) failure(ctx context.Context, s call.State, a call.Attempt) *envelope.Error {
	if a.Decision.Status == envelope.Success {
		return nil
	}
	o, err := d.Answers.Load(ctx, s, a.N)
	if err != nil {
		return nil
	}
	return o.Response.Error
}

// sighting asks the executors of the pool where an attempt runs, and how many of them are live. The limits of its tool
// are those that this dispatcher has, if it has the version.
func (d *Dispatcher) sighting(ctx context.Context, s call.State, a call.Attempt) (v call.RunLocation) {
	var err error
	if v.Alive, err = d.Pools.Alive(ctx, s.Pool); err != nil {
		v.Alive = -1
	}
	if a.Claim == nil {
		v.By, v.Since, _ = d.Control.Locate(ctx, s.Pool, s.ID, a.N)
	}
	if m, refusal := d.Catalog.Get(s.Tool, s.Version); m != nil && refusal == nil {
		v.Limits = m.Limits
	}
	return v
}
