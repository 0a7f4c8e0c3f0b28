package dispatcher

import (
	"context"
	"errors"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
	"github.com/seed-018f16cc/toolbus/internal/flow"
)

// Names for the refusals that no stage makes.
const (
	stageIntake    = "intake"    // before the request was decoded
	stageAdmission = "admission" // when it was placed in the log of its key
	stageFailure   = "failure"   // handling it panicked
)

// Steps of the gateway contract for the refusals that no stage makes.
const (
	stepReceive = 1
	stepRecord  = 9
)

// stands reports whether every dispatcher would refuse every copy of the request with this code. That is so if the
// refusal follows from the request or from the log of its key. It is not so if the reason may differ in another
// dispatcher or change with time: a full store, a lagging audit record, a clock, a missing payload, an unusable policy,
// a run.
func stands(c envelope.Code) bool {
	switch c {
	case envelope.CodePolicyVersion, envelope.CodeRunUnknown, envelope.CodeRunState:
		return false
	}
	return !c.Retryable() && c.Class() != envelope.ClassData
}

// refuse records a refusal and sends it. It writes nothing to the call log, so the key is not used up. If the refusal
// cannot be recorded, refuse sends no answer, and the client sends the request again; if the audit record is full, it
// sends R-CAP-AUDIT. notStarted is Provenance.NotStarted of the answer. It holds for the call if stands(e.Code), and
// otherwise for this copy of the request.
func (d *Dispatcher) refuse(ctx context.Context, r *check.Request, stage string, e *envelope.Error, notStarted bool) {
	in, req := r.In, r.Req
	id, counted, err := d.Records.Denied(ctx, recordOf(r, stage, e))
	full := errors.Is(err, audit.ErrRefused)
	if err != nil {
		d.Logger.Warn("refusal not recorded", "code", e.Code, "err", err)
	}
	switch {
	case full:
		id, counted = "", 0
		e = envelope.NewError(envelope.CodeAuditLag, "the audit record takes nothing").WithEffect(e.Details.Effect)
	case err != nil:
		return
	}
	p := envelope.Provenance{ToolID: in.Tool, Final: stands(e.Code), AuditEventID: id, Counted: counted,
		NotStarted: notStarted}
	callID, trace := "", ""
	if req != nil {
		callID, trace, p.ToolVersion = req.CallID, req.Context.TraceID, req.ToolVersion
	}
	if d.Trace.Event != nil {
		d.Trace.Event(ctx, r.Describe(call.TraceEvent{
			At: call.TraceRefused, Tool: in.Tool, Request: req, Stage: stage, Error: e,
		}))
	}
	d.Logger.InfoContext(ctx, "refused", "tool", in.Tool, "call_id", callID, "code", e.Code, "step", r.Step,
		"stage", stage)
	d.Replies.Outcome(in.ReplyAddress(), envelope.Failure(callID, e, p, envelope.Metrics{}).Correlated(trace))
}

// recordOf returns the record of a refusal. For a denial by policy, it has the true reason.
func recordOf(r *check.Request, stage string, e *envelope.Error) audit.Refusal {
	of := audit.Refusal{In: r.In, Req: r.Req, Error: e, Step: r.Step, Rule: stage}
	if r.Policy != nil {
		of.Policies = r.Policy.Versions()
	}
	if d := r.Denial; d != nil {
		of.Step, of.Rule = d.True.Step, d.True.Rule.String()
		if d.True.Code != d.Code { // the caller may not know the tool
			of.Error = envelope.NewError(d.True.Code, "").WithEffect(e.Details.Effect)
		}
	}
	return of
}

// RejectOverload refuses a request that was not decoded because too many messages of its sender wait. The effect in the
// answer is unknown, because another copy of the request may be admitted.
func (d *Dispatcher) RejectOverload(ctx context.Context, in *call.IncomingRequest, full *flow.QueueFullError) {
	check.Legible(in)
	in.ContentType = envelope.MediaType(in.ContentType)
	e := envelope.NewError(envelope.CodeQueue, full.Error()).WithRetryAfter(full.Wait)
	d.refuse(ctx, &check.Request{In: in, Step: stepReceive}, stageIntake, e.WithEffect(envelope.EffectUnknown), true)
}

// deny refuses a request after it has read the log of its key. If the call id of the request already belongs to an
// attempt, the answer is about that attempt instead: a stage that refuses the request now must not change the outcome
// of a call that was admitted before. If the log cannot be read, deny sends no answer, and the client sends the request
// again.
func (d *Dispatcher) deny(ctx context.Context, r *check.Request, stage string, refusal *envelope.Error) {
	in, req := r.In, r.Req
	last, err := d.CallLog.Read(ctx, req.ToolID, envelope.CallKeyID(in.From.Tenant, req))
	if err != nil {
		d.Logger.Warn("denial not delivered: the call log cannot be read", "call", req.CallID, "err", err)
		return
	}
	if _, bound := last.State.AttemptOf(req.CallID); bound {
		d.admit(ctx, r.Recall(last.State), last.State)
		return
	}
	effect := effectSoFar(last.State)
	if otherInput(last.State, r) {
		effect = envelope.EffectNone
	}
	d.refuse(ctx, r, stage, refusal.WithEffect(effect), last.State.Untouched())
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

// effectSoFar returns the effect of a call that its log proves, over all attempts, for a caller whose request for a
// further attempt, or to join one, is refused.
func effectSoFar(s call.State) envelope.Effect {
	effect := envelope.EffectNone
	if s.HasNoEffect() {
		return effect
	}
	for _, a := range s.Attempts {
		switch {
		case a.Open():
			effect = envelope.EffectUnknown
		case a.Decision.Effect == envelope.EffectApplied:
			return envelope.EffectApplied
		case a.Decision.Effect != envelope.EffectNone:
			effect = envelope.EffectUnknown
		}
	}
	return effect
}

// turnDown refuses a request after it has read the log again: s may be old, and a request whose call id belongs to an
// attempt must not be refused. It returns true if the log has changed, so that the request must be placed again.
func (d *Dispatcher) turnDown(
	ctx context.Context, l *keyQueue, s call.State, a *arrival, refusal *envelope.Error,
) (_ call.State, again bool) {
	last, err := d.CallLog.Read(ctx, a.Ask.Pinned.Tool, a.Ask.Pinned.ID)
	switch {
	case err != nil: // perhaps the request belongs to an attempt: no answer; the client sends it again
		d.Logger.Warn("refusal not delivered: the call log cannot be read", "call", l.id, "err", err)
		return s, false
	case last.State.Seq != s.Seq:
		return l.found(s.Seq, last.State), true
	}
	refusal = refusal.WithEffect(a.effect(s, refusal.Code))
	a.Step = stepRecord
	d.refuse(ctx, a.Request, stageAdmission, refusal, s.Untouched() && !a.unsure)
	return s, false
}

// effect returns the effect of a's call to report in a refusal. If a has another input than the call of the key, it is
// another call, and has no effect.
func (a *arrival) effect(s call.State, code envelope.Code) envelope.Effect {
	effect := effectSoFar(s)
	switch {
	case code == envelope.CodeKeyReused:
		return envelope.EffectNone
	case a.unsure && effect == envelope.EffectNone && !a.Ask.Pinned.HasNoEffect():
		return envelope.EffectUnknown
	}
	return effect
}

func retryHint(c envelope.Code) time.Duration {
	if c.Retryable() {
		return time.Second
	}
	return 0
}

func storeFull() *envelope.Error {
	return envelope.NewError(envelope.CodeStoreFull, "").WithRetryAfter(time.Second)
}

// capacity returns a refusal if the deployment cannot take another attempt. It is not checked for requests that join an
// attempt or get a stored outcome.
func (d *Dispatcher) capacity() *envelope.Error {
	switch {
	case d.Capacity.AuditBehind() > d.AuditLag:
		return envelope.NewError(envelope.CodeAuditLag, "").WithRetryAfter(time.Second)
	case d.Capacity.LogFull():
		return storeFull()
	}
	return nil
}
