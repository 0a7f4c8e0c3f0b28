package app

import (
	"cmp"
	"context"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/policy/runstore"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
)

// runEndpoints returns the endpoints for runs. The caller must guard them.
func (d *dispatcherParts) runEndpoints() []rpc.Endpoint {
	s := &runstore.Service{
		Store: d.runs, Record: d.note,
		DefaultRole: cmp.Or(d.options.DefaultRole, check.DefaultRole),
		Policy:      d.policyNow,
	}
	return []rpc.Endpoint{
		rpc.NewEndpoint(operation.RunStart, aboutRuns(s.Start)),
		rpc.NewEndpoint(operation.RunChange, aboutRuns(s.Change)),
		rpc.NewEndpoint(operation.RunRepin, aboutRuns(s.Repin)),
		rpc.NewEndpoint(operation.RunShow, aboutRuns(s.Show)),
		rpc.NewEndpoint(operation.RunList, fromAny(s.List)),
	}
}

// policyNow returns the policy in force, as it is after the call.
func (d *dispatcherParts) policyNow(ctx context.Context) (*policy.Snapshot, error) {
	if err := d.policy.Confirm(ctx); err != nil {
		return nil, err
	}
	return d.policy.Current()
}

// aboutRuns returns a handler whose function gets the sender of the request.
func aboutRuns[Q any](
	do func(context.Context, runstore.Sender, Q) (envelope.RunResponse, *envelope.Error),
) handler[Q, envelope.RunResponse] {
	return func(ctx context.Context, from call.Sender, q Q) (envelope.RunResponse, *envelope.Error) {
		by := operator(ctx, from)
		return do(ctx, runstore.Sender{Tenant: by.Tenant, Actor: by.Actor, Token: auth.FromContext(ctx)}, q)
	}
}
