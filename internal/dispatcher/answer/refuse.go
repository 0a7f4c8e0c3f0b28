package answer

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
	StageAdmission = "admission" // when it was placed in the log of its key
	stageFailure   = "failure"   // handling it panicked
)

// Steps of the gateway contract for the refusals that no stage makes.
const (
	stepReceive = 1
	StepRecord  = 9
)

// Stands reports whether every dispatcher would refuse every copy of the request with this code. That is so if the
// refusal follows from the request or from the log of its key. It is not so if the reason may differ in another
// dispatcher or change with time: a full store, a lagging audit record, a clock, a missing payload, an unusable policy,
// a run. An operator may decide about a damaged log. While dispatchers have different tools, a refusal that depends on
// these does not stand either.
func Stands(c envelope.Code) bool {
	switch c {
	case envelope.CodePolicyVersion, envelope.CodeRunUnknown, envelope.CodeRunState, envelope.CodeLogDamaged:
		return false
	}
	return !c.Retryable() && c.Class() != envelope.ClassData
}

// Refuse records a refusal and sends it. It writes nothing to the call log, so the key is not used up. If the refusal
// cannot be recorded, Refuse sends no answer, and the client sends the request again. It sends R-CAP-AUDIT if the audit
// record is full, and R-CAP-STORE if the server stores nothing. notStarted is Provenance.NotStarted of the answer. It
// holds for the call if Stands(e.Code), and otherwise for this copy of the request.
func (a *Answers) Refuse(ctx context.Context, r *check.Request, stage string, e *envelope.Error, notStarted bool) {
	a.refuse(ctx, r, stage, e, notStarted, Stands(e.Code) && !a.disputed(r, stage))
}

// RefuseDamaged refuses a request if err says that the log of its key is damaged, and reports whether it does. The
// refusal is final once an operator has ended the key.
func (a *Answers) RefuseDamaged(ctx context.Context, r *check.Request, err error) bool {
	refusal := a.FoundDamaged(ctx, r.In.From.Tenant, r.In.Tool, err)
	if refusal == nil {
		return false
	}
	damaged, _ := errors.AsType[*call.DamagedError](err)
	r.Step = StepRecord
	a.refuse(ctx, r, StageAdmission, refusal, false, damaged.Refused)
	return true
}

// FoundDamaged is [Damaged] for the log of a call of a tenant. It has the damage listed for operators.
func (a *Answers) FoundDamaged(ctx context.Context, tenant, tool string, err error) *envelope.Error {
	damaged, ok := errors.AsType[*call.DamagedError](err)
	if ok && !damaged.Refused {
		a.Logger.Error("a call whose log is damaged is refused", "tenant", tenant, "tool", tool, "err", err)
		if a.Damage != nil {
			a.Damage(ctx, envelope.DamagedCall{Ref: damaged.Ref, Tenant: tenant, Tool: tool, End: damaged.End,
				Newest: damaged.Newest, Expires: damaged.Expires.UTC()})
		}
	}
	return Damaged(err)
}

func (a *Answers) refuse(
	ctx context.Context, r *check.Request, stage string, e *envelope.Error, notStarted, final bool,
) {
	in, req := r.In, r.Req
	id, counted, err := a.denied(ctx, refusalRecord(r, stage, e))
	full := errors.Is(err, audit.ErrRefused)
	if err != nil {
		a.Logger.Warn("refusal not recorded", "code", e.Code, "err", err)
	}
	switch {
	case full:
		id, counted = "", 0
		e = envelope.NewError(envelope.CodeAuditLag, "the audit record takes nothing").WithEffect(e.Details.Effect)
		final = false
	case err != nil && a.StoresNothing():
		id, counted, final = "", 0, false
		e = NotStored().WithEffect(e.Details.Effect)
	case err != nil:
		return
	}
	p := envelope.Provenance{
		ToolID: in.Tool, Final: final, AuditEventID: id, Counted: counted, NotStarted: notStarted,
	}
	callID, trace := "", ""
	if req != nil {
		callID, trace, p.ToolVersion = req.CallID, req.Context.TraceID, req.ToolVersion
	}
	if a.Trace.Event != nil {
		refused := r.Describe(call.TraceEvent{
			At: call.TraceRefused, Tool: in.Tool, Request: req, Stage: stage, Step: r.Step, Record: id, Counted: counted,
			Error: e,
		})
		refused.State.Tenant = in.From.Tenant
		a.Trace.Event(ctx, refused)
	}
	a.replies.Outcome(in.ReplyAddress(), envelope.Failure(callID, e, p, envelope.Metrics{}).Correlated(trace))
}

// NotStored returns the refusal of a request that the server does not store.
func NotStored() *envelope.Error {
	return envelope.NewError(envelope.CodeStoreFull, "the NATS server answers, and stores nothing: its disk may be full").
		WithRetryAfter(5 * time.Second).
		WithFix("call again later, with the same key; the operator must make room on the disk of the server and restart " +
			"it: `toolbus doctor` names it")
}

// unstoredRecord is how long a refusal waits for its record if the server stores nothing. The record is in another
// stream, which may still be written.
const unstoredRecord = 200 * time.Millisecond

// denied records a refusal. It does not wait long for a server that stores nothing.
func (a *Answers) denied(ctx context.Context, r audit.Refusal) (id string, counted uint64, err error) {
	if a.StoresNothing() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, unstoredRecord)
		defer cancel()
	}
	return a.records.Denied(ctx, r)
}

// stepTool is the first step of the gateway contract that depends on the tools that a dispatcher has loaded.
const stepTool = 5

// disputed reports whether a dispatcher with other tools may take the request that a stage of this one refuses.
func (a *Answers) disputed(r *check.Request, stage string) bool {
	return a.ToolsDiffer != nil && r.Step >= stepTool && stage != StageAdmission && a.ToolsDiffer()
}

// refusalRecord returns the record of a refusal. For a denial by policy, it has the true reason.
func refusalRecord(r *check.Request, stage string, e *envelope.Error) audit.Refusal {
	record := audit.Refusal{In: r.In, Req: r.Req, Error: e, Step: r.Step, Rule: stage}
	if r.Policy != nil {
		record.Policies = r.Policy.Versions()
		record.Basis = basis(r, record.Policies)
	}
	if r.Lock != nil {
		record.Lock = audit.LockInForce(*r.Lock)
	}
	if d := r.Denial; d != nil {
		record.Step, record.Rule = d.True.Step, d.True.Rule.String()
		if d.True.Code != e.Code { // the caller may not know the tool
			record.Error = envelope.NewError(d.True.Code, "").WithEffect(e.Details.Effect)
		}
	}
	return record
}

// basis returns what the policy has decided the request by, or nil if it had not decided about its run. Versions are
// those of the policy.
func basis(r *check.Request, versions envelope.PolicyVersions) *audit.Basis {
	f, ok := r.Facts()
	if !ok {
		return nil
	}
	b := &audit.Basis{Scope: audit.HashScope(f.Scope)}
	if run := f.Run; run != nil {
		b.Run = &audit.RunBasis{State: string(run.State), Unfit: run.Unfit, Foreign: run.Foreign}
		if run.Pinned != versions {
			b.Run.Policies = run.Pinned
		}
	}
	return b
}

// RejectOverload refuses a request that was not decoded because too many messages of its sender wait. The effect in the
// answer is unknown, because another copy of the request may be admitted.
func (a *Answers) RejectOverload(ctx context.Context, in *call.IncomingRequest, full *flow.QueueFullError) {
	check.Legible(in)
	in.ContentType = envelope.MediaType(in.ContentType)
	e := envelope.NewError(envelope.CodeQueue, full.Error()).WithRetryAfter(full.Wait)
	a.Refuse(ctx, &check.Request{In: in, Step: stepReceive}, stageIntake, e.WithEffect(envelope.EffectUnknown), true)
}

// Failed logs the panic p, and answers the requests that caused it. Without an answer, clients would send them again,
// and make other dispatchers panic.
func (a *Answers) Failed(ctx context.Context, p any, all ...*check.Request) {
	a.Panicked("a request", p)
	for _, r := range all {
		a.Safely("a refusal", func() {
			e := envelope.NewError(envelope.CodeInternal, "the dispatcher failed at this request; its log says where")
			a.Refuse(ctx, r, stageFailure, e, false) // notStarted is false: the call may have been admitted
		})
	}
}

// EffectSoFar returns the effect of a call that its log proves, over all attempts, for a caller whose request for a
// further attempt, or to join one, is refused.
func EffectSoFar(s call.State) envelope.Effect {
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
