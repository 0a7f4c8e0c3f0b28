package dispatcher

import (
	"context"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Authenticate checks the token of a request for the service operation op, and whether its role may send it. It records
// a refusal before it returns.
func (d *Dispatcher) Authenticate(ctx context.Context, op string, from call.Sender,
	c call.Credential) (*auth.Principal, *envelope.Error) {
	p, refusal := d.Checks.Authenticate(op, from, c)
	if refusal != nil {
		return nil, d.RecordDenied(ctx, from, refusal)
	}
	return p, nil
}

// RecordDenied records the refusal of a service request, and returns the error to answer with: refusal, or R-CAP-AUDIT
// if it could not be recorded.
func (d *Dispatcher) RecordDenied(ctx context.Context, from call.Sender, refusal *envelope.Error) *envelope.Error {
	return d.RecordRefusedAct(ctx, from, nil, refusal)
}

// RecordRefusedAct is RecordDenied for the refusal of an operation that changes something. of is a record of it.
func (d *Dispatcher) RecordRefusedAct(ctx context.Context, from call.Sender, of *audit.Record,
	refusal *envelope.Error) *envelope.Error {
	r := audit.Refusal{
		In: &call.IncomingRequest{From: Named(from)}, Error: refusal, Step: audit.StepIdentity, Rule: audit.RuleService,
		Of: of,
	}
	if _, _, err := d.Records.Denied(ctx, r); err != nil {
		return envelope.NewError(envelope.CodeAuditLag, "").WithCause(err.Error())
	}
	return refusal
}

// Named returns the sender with its names decoded from subject tokens. A name that cannot be decoded is empty.
func Named(from call.Sender) (to call.Sender) {
	to.Tenant, _ = subjects.ParseToken(from.Tenant) // empty if it is too long to be decoded
	to.Actor, _ = subjects.ParseToken(from.Actor)
	return to
}
