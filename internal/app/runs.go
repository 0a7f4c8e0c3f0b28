package app

import (
	"cmp"
	"context"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/policy/runstore"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// runEndpoints returns the endpoints for runs. The caller must guard them.
func runEndpoints(c *Conn, o DispatcherOptions) []rpc.Endpoint {
	s := &runstore.Service{
		Store: o.runs, Record: o.journal.Note, Now: c.Clock.Now,
		DefaultRole: cmp.Or(o.DefaultRole, dispatcher.DefaultRole),
		Policy: func(ctx context.Context) (*policy.Snapshot, error) {
			if err := o.policy.Confirm(ctx); err != nil {
				return nil, err
			}
			return o.policy.Current()
		},
	}
	return []rpc.Endpoint{
		aboutRuns(subjects.OpRunStart, s.Start),
		aboutRuns(subjects.OpRunChange, s.Change),
		aboutRuns(subjects.OpRunRepin, s.Repin),
		aboutRuns(subjects.OpRunShow, s.Show),
		rpc.NewEndpoint(subjects.OpRunList, func(ctx context.Context, _ call.Sender,
			q envelope.RunListRequest) (envelope.RunListResponse, *envelope.Error) {
			return s.List(ctx, q)
		}),
	}
}

// aboutRuns returns an endpoint whose function gets the sender of the request.
func aboutRuns[Q any](
	op string, do func(context.Context, runstore.Sender, Q) (envelope.RunResponse, *envelope.Error),
) rpc.Endpoint {
	return rpc.NewEndpoint(op, func(ctx context.Context, from call.Sender,
		q Q) (envelope.RunResponse, *envelope.Error) {
		by := operator(ctx, from)
		return do(ctx, runstore.Sender{Tenant: by.Tenant, Actor: by.Actor, Token: auth.FromContext(ctx)}, q)
	})
}
