package dispatcher

import (
	"context"
	"errors"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/flow"
)

// stands reports whether a refusal with this code holds whichever dispatcher a copy of the request meets: what
// follows from the request, or from the log of its key, does. Whatever may be otherwise in another dispatcher, or
// here a moment later, does not: a full store, a record that lags, a clock, a payload that was not found.
func stands(c envelope.Code) bool { return !c.Retryable() && c.Class() != envelope.ClassData }

// refuse answers without leaving a log: the key is not consumed. What cannot be recorded is not
// answered either, so that nothing is denied unrecorded; the caller asks again. It is told where that
// is of no use, because the record is full. notStarted is that of the answer's provenance: a refusal that does
// not stand speaks of this copy of the request, one that stands of the call.
func (d *Dispatcher) refuse(ctx context.Context, r request, stage string, e *envelope.Error, notStarted bool) {
	in, req := r.in, r.req
	id, counted, err := d.Records.Denied(ctx, in, req, e)
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
	callID := ""
	if req != nil {
		callID, p.ToolVersion = req.CallID, req.ToolVersion
	}
	if d.Trace.Event != nil {
		d.Trace.Event(ctx, call.TraceEvent{At: call.TraceRefused, Tool: in.Tool, Request: req, Stage: stage, Error: e})
	}
	d.Logger.InfoContext(ctx, "refused", "tool", in.Tool, "call_id", callID, "code", e.Code, "stage", stage)
	d.Replies.Outcome(in.ReplyAddress(), envelope.Failure(callID, e, p, envelope.Metrics{}))
}

// RejectOverload refuses a request that was not read, since too much of its sender waits. Others must not wait for
// that. Nothing is known of its call: another copy may be admitted.
func (d *Dispatcher) RejectOverload(ctx context.Context, in *call.IncomingRequest, full *flow.QueueFullError) {
	legible(in)
	in.ContentType = envelope.MediaType(in.ContentType)
	e := envelope.NewError(envelope.CodeQueue, full.Error()).WithRetryAfter(full.Wait)
	d.refuse(ctx, request{in: in}, stageIntake, e.WithEffect(envelope.EffectUnknown), true)
}

// deny refuses a request that may not be admitted, or not any more, after looking into the log of its key. One
// that is bound to an attempt already is answered by that: a denial governs execution, and must not change what
// this call was or will be told. When the log cannot be read nothing is told: nobody knows
// then, and the caller asks again.
func (d *Dispatcher) deny(ctx context.Context, r request, stage string, refusal *envelope.Error) {
	in, req := r.in, r.req
	last, err := d.CallLog.Read(ctx, req.ToolID, envelope.CallKeyID(in.From.Tenant, req))
	if err != nil {
		d.Logger.Warn("denial not delivered: the call log cannot be read", "call", req.CallID, "err", err)
		return
	}
	if _, bound := last.State.AttemptOf(req.CallID); bound {
		d.admit(ctx, recalled(r, last.State))
		return
	}
	effect := effectSoFar(last.State)
	if otherInput(last.State, r) {
		effect = envelope.EffectNone
	}
	d.refuse(ctx, r, stage, refusal.WithEffect(effect), last.State.Untouched())
}

// recalled is a denied request that is to be told what became of its call, and nothing else.
func recalled(r request, s call.State) *caller {
	return &caller{request: r, known: s, ask: call.AdmitRequest{
		Owner: call.Owner{CallID: r.req.CallID, Actor: r.in.From.Actor}, Pinned: s.Pinned, Fingerprint: s.Fingerprint,
		Deadline: call.At(wished(r.in, r.req)),
	}}
}

// otherInput reports whether the request is known to have another input than the call whose log is s. One
// that travels by claim-check has not been read here.
func otherInput(s call.State, r request) bool {
	if s.Empty() || r.in.InputRef != "" {
		return false
	}
	fingerprint, err := envelope.Fingerprint(r.req)
	if envelope.IsFormer(s.Fingerprint) {
		fingerprint, err = envelope.FormerFingerprint(r.req, r.req.Input)
	}
	return err == nil && fingerprint != s.Fingerprint
}

// effectSoFar is what the log of a call proves of its effect, for a caller that is refused an attempt, or to
// join one: the attempts that it has had may have had one.
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

// turnDown refuses a request, after making sure that s, of which it may not be the first that
// this dispatcher hears, is all there is: what is bound to an attempt is never refused. It
// reports whether the log had moved, so that the request has to be looked at again.
func (d *Dispatcher) turnDown(
	ctx context.Context, l *keyQueue, s call.State, a *caller, refusal *envelope.Error,
) (_ call.State, again bool) {
	last, err := d.CallLog.Read(ctx, a.ask.Pinned.Tool, a.ask.Pinned.ID)
	switch {
	case err != nil: // not known to be bound or not: no answer; the caller asks again
		d.Logger.Warn("refusal not delivered: the call log cannot be read", "call", l.id, "err", err)
		return s, false
	case last.State.Seq != s.Seq:
		return l.found(s.Seq, last.State), true
	}
	refusal = refusal.WithEffect(a.effect(s, refusal.Code))
	d.refuse(ctx, a.request, stageAdmission, refusal, s.Untouched() && !a.unsure)
	return s, false
}

// effect is what is known of the effect of a's call when a is refused. Another input under its key is another call.
func (a *caller) effect(s call.State, code envelope.Code) envelope.Effect {
	effect := effectSoFar(s)
	switch {
	case code == envelope.CodeKeyReused:
		return envelope.EffectNone
	case a.unsure && effect == envelope.EffectNone && !a.ask.Pinned.HasNoEffect():
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

// tooLate refuses a request that waited here for longer than it had.
func tooLate() *envelope.Error {
	return envelope.NewError(envelope.CodeTimeout, "the deadline had passed before the call was admitted")
}

// late reports whether the deadline of a request has passed by this dispatcher's clock.
func (d *Dispatcher) late(a *caller) bool { return !a.ask.Deadline.Time().After(d.Now()) }

// capacity says whether the deployment can take one more attempt; repeats of what it has taken
// already are not asked.
func (d *Dispatcher) capacity() *envelope.Error {
	switch {
	case d.Capacity.AuditBehind() > d.AuditLag:
		return envelope.NewError(envelope.CodeAuditLag, "").WithRetryAfter(time.Second)
	case d.Capacity.LogFull():
		return storeFull()
	}
	return nil
}
