package admission

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/answer"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
)

// Deny refuses a request after it has read the log of its key. If the call id of the request already belongs to an
// attempt, the answer is about that attempt instead: a stage that refuses the request now must not change the outcome
// of a call that was admitted before. If the log cannot be read, Deny sends no answer, and the client sends the
// request again. The answer tells of the log only what the sender may know, see knownTo.
func (m *Admission) Deny(ctx context.Context, r *check.Request, refusal *check.Refusal) {
	last, err := m.Head(ctx, r.Req.ToolID, envelope.CallKeyID(r.In.From.Tenant, r.Req))
	if m.Answers.FoundDamaged(ctx, r.In.From.Tenant, r.Req.ToolID, err) != nil {
		// The sender may not know that: the call may be of another actor.
		m.Answers.Refuse(ctx, r, refusal.Stage, refusal.Error.WithEffect(envelope.EffectUnknown), false)
		return
	}
	if err != nil {
		m.Logger.Warn("denial not delivered: the call log cannot be read", "call", r.Req.CallID, "err", err)
		return
	}
	if a, bound := last.State.AttemptOf(r.Req.CallID); bound && !ofAnother(a, r) {
		m.Admit(ctx, r.Recall(last.State), last.State)
		return
	}
	if !r.Holds() {
		c, again := m.Checks.Check(ctx, r)
		if again == nil { // what refused it has changed
			m.Admit(ctx, c, last.State)
			return
		}
		refusal = again
	}
	if refusal.Unproven {
		m.Answers.Refuse(ctx, r, refusal.Stage, refusal.Error, !answer.Stands(refusal.Error.Code))
		return
	}
	known := knownTo(r, last.State)
	effect, lost := answer.EffectSoFar(known), m.lost(r, last.State)
	switch {
	case otherInput(known, r):
		effect = envelope.EffectNone
	case lost && !r.Harmless():
		effect = envelope.EffectUnknown
	default:
		earlier(refusal.Error, known)
	}
	m.Answers.Refuse(ctx, r, refusal.Stage, refusal.Error.WithEffect(effect), known.Untouched() && !lost)
}

// earlier adds to the refusal of a version that is not served how to get the outcome of the call that its key has.
func earlier(e *envelope.Error, s call.State) {
	if e.Code == envelope.CodeVersion && !s.Empty() {
		const says = "the key has a call of version %s: `toolbus result %s` shows its outcome"
		e.WithCause(fmt.Sprintf(says, s.Version, s.Ref()))
	}
}

// lost reports whether the log of a request is empty, and may have held an attempt of it.
func (m *Admission) lost(r *check.Request, s call.State) bool {
	return s.Empty() && r.MayHaveExpired(m.Now())
}

// knownTo returns the log s as the sender of a request that a stage refuses may know it: all of it if the sender opened
// an attempt, and otherwise nothing. A key may be shared, and then the effect of another actor's call would tell that
// the tool exists.
func knownTo(r *check.Request, s call.State) call.State {
	if s.OwnedBy(r.In.From.Actor) {
		return s
	}
	return call.State{}
}

// ofAnother reports whether another actor has opened the attempt with the call id of a request.
func ofAnother(a call.Attempt, r *check.Request) bool {
	return a.Owner.CallID == r.Req.CallID && a.Owner.Actor != r.In.From.Actor
}

// otherInput reports whether the request certainly has another fingerprint than the call with the log s. It returns
// false for an input in the payload store, which is not read here.
func otherInput(s call.State, r *check.Request) bool {
	if s.Empty() || r.In.InputRef != "" {
		return false
	}
	fingerprint, err := envelope.Fingerprint(r.Req)
	return err == nil && fingerprint != s.Fingerprint
}

// turnDown refuses a request for a reason that no stage has found, see refuse.
func (m *Admission) turnDown(
	ctx context.Context, q *queue, s call.State, a *arrival, refusal *envelope.Error,
) (_ call.State, again bool) {
	return m.refuse(ctx, q, s, a, &check.Refusal{Stage: answer.StageAdmission, Error: refusal})
}

// refuse refuses a request after it has read the log again: s may be old, and a request whose call id belongs to an
// attempt must not be refused. It returns true if the log has changed, so that the request must be placed again.
func (m *Admission) refuse(
	ctx context.Context, q *queue, s call.State, a *arrival, refusal *check.Refusal,
) (_ call.State, again bool) {
	last, err := m.Head(ctx, a.Ask.Pinned.Tool, a.Ask.Pinned.ID)
	switch {
	case m.Answers.RefuseDamaged(ctx, a.Request, err):
		return s, false
	case err != nil: // perhaps the request belongs to an attempt: no answer; the client sends it again
		m.Logger.Warn("refusal not delivered: the call log cannot be read", "call", q.ID, "err", err)
		return s, false
	case last.State.Seq != s.Seq:
		return q.Found(s.Seq, last.State), true
	}
	if !a.Holds() {
		if _, denied := m.Checks.Check(ctx, a.Request); denied != nil {
			refusal = denied
		}
	}
	if refusal.Unproven {
		m.Answers.Refuse(ctx, a.Request, refusal.Stage, refusal.Error, !answer.Stands(refusal.Error.Code))
		return s, false
	}
	known := knownTo(a.Request, s)
	if refusal.Stage == answer.StageAdmission { // the sender may join the call
		a.Step, known = answer.StepRecord, s
	}
	a.unsure = a.unsure || m.lost(a.Request, s)
	m.Answers.Refuse(ctx, a.Request, refusal.Stage, refusal.Error.WithEffect(a.effect(known, refusal.Error.Code)),
		known.Untouched() && !a.unsure)
	return s, false
}

// effect returns the effect of a's call to report in a refusal. If a has another input than the call of the key, it is
// another call, and has no effect.
func (a *arrival) effect(s call.State, code envelope.Code) envelope.Effect {
	effect := answer.EffectSoFar(s)
	switch {
	case code == envelope.CodeKeyReused:
		return envelope.EffectNone
	case a.unsure && effect == envelope.EffectNone && !a.Ask.Pinned.HasNoEffect():
		return envelope.EffectUnknown
	}
	return effect
}

// barred returns the refusal of a request that [call.Admit] refuses with the code. For a key that is reused it says
// what differs from the call of the key. Tool and function cannot differ, because the key is theirs.
func barred(s call.State, a *arrival, code envelope.Code) *envelope.Error {
	if code == envelope.CodeKeyReused && a.Ask.Pinned.ArgsHash == s.ArgsHash {
		return envelope.NewError(code, "the idempotency key belongs to a call with the same input and another "+differs(a)).
			WithFix("send that call as it was, or use a fresh key")
	}
	return envelope.NewError(code, "").WithRetryAfter(retryHint(code))
}

// differs names what besides the input may make a request another call.
func differs(a *arrival) string {
	if in := a.Req.Context.MCPInput; in != nil && in.Answers() {
		return "context.scope, context.env or answer"
	}
	return "context.scope or context.env"
}

func retryHint(c envelope.Code) time.Duration {
	if c.Retryable() {
		return time.Second
	}
	return 0
}
