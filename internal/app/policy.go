package app

import (
	"cmp"
	"context"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	policystore "github.com/seed-018f16cc/toolbus/internal/policy/store"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
)

// newPolicyService returns the service for the policy, which records each push.
func (d *dispatcherParts) newPolicyService() *policystore.Service {
	return &policystore.Service{
		Store: d.policy,
		Record: func(ctx context.Context, by call.Sender, q envelope.PolicyPushRequest) error {
			return d.note(ctx, d.pushed(by, q))
		},
	}
}

// pushed returns the record of a push of a policy set by an operator.
func (d *dispatcherParts) pushed(by call.Sender, q envelope.PolicyPushRequest) audit.Record {
	push := audit.PolicyPush{By: by.Tenant + "/" + by.Actor, Replaced: q.Expected, Reason: q.Reason}
	return push.About(by.Tenant, by.Actor, q.Versions, d.Clock.Now())
}

// allowAll does what DispatcherOptions.AllowAll says.
func (d *dispatcherParts) allowAll(ctx context.Context) error {
	o := d.options
	if !o.AllowAll {
		return nil
	}
	by := call.Sender{Tenant: client.DefaultTenant, Actor: policystore.AllowAllActor}
	return d.newPolicyService().AllowAll(ctx, by, cmp.Or(o.DefaultRole, check.DefaultRole),
		cmp.Or(o.DefaultLane, check.DefaultLane))
}

// warnOfNoPolicy warns at the first start that the bus has no policy.
func (d *dispatcherParts) warnOfNoPolicy() {
	if revision, ok := d.policy.Revision(); ok && revision == 0 && !d.served {
		d.Logger.Warn("every call is refused: the bus has no policy; write one with `toolbus policy init`, and put it in " +
			"force with `toolbus policy push`")
	}
}

// policyEndpoints returns the endpoints for the policy. The caller must guard them.
func (d *dispatcherParts) policyEndpoints() []rpc.Endpoint {
	s := d.newPolicyService()
	return []rpc.Endpoint{
		rpc.NewEndpoint(operation.PolicyPart, fromAny(s.Part)),
		rpc.NewEndpoint(operation.PolicyPush, fromNamed(func(ctx context.Context, by call.Sender,
			q envelope.PolicyPushRequest) (envelope.PolicyPushResponse, *envelope.Error) {
			describe(ctx, d.pushed(by, q))
			pushed, refusal := s.Push(ctx, by, q)
			amend(ctx, func(r *audit.Record) { r.Push = r.Push.Stored(pushed.Revision) })
			if refusal == nil { // it may have put an earlier set of allowAll in force again
				if err := d.allowAll(ctx); err != nil {
					d.Logger.Warn("the policy that allows all tools is that of earlier tools", "err", err)
				}
			}
			return pushed, refusal
		})),
		rpc.NewEndpoint(operation.PolicyHistory, fromAny(func(ctx context.Context, _ struct{}) (
			envelope.PolicyHistoryResponse, *envelope.Error) {
			return s.History(ctx)
		})),
		rpc.NewEndpoint(operation.PolicyRead, fromAny(s.Read)),
	}
}

// openPolicy returns the store of the policy. It has read the policy in force, so that the first call is decided.
func openPolicy(ctx context.Context, c *dispatcherProcess) (*policystore.Store, error) {
	s, err := policystore.Open(ctx, c.state.js, c.options.Tools.List(), c.copies, c.Logger)
	if err != nil {
		return nil, err
	}
	return s, s.Confirm(ctx)
}
