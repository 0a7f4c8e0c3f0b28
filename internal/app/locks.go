package app

import (
	"context"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/internal/policy/lockstore"
	"github.com/seed-018f16cc/toolbus/internal/policy/replica"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
)

// openLocks returns the store of the safety locks, whose board is kept up to date until stop is called.
func openLocks(ctx context.Context, c *dispatcherProcess) (s *lockstore.Store, stop func(), err error) {
	if s, err = lockstore.Open(ctx, c.state.js, c.copies, c.Logger); err != nil {
		return nil, nil, err
	}
	return s, startAll(ctx, s.Run), nil
}

// lockEndpoints returns the endpoints for safety locks. The caller must guard them: they are for operators.
func (d *dispatcherParts) lockEndpoints() []rpc.Endpoint {
	s := &lockstore.Service{
		Store: d.locks, Record: d.note, Now: d.Clock.Now, Policy: d.policyNow,
	}
	return []rpc.Endpoint{
		rpc.NewEndpoint(operation.Lock, fromNamed(s.Lock)),
		rpc.NewEndpoint(operation.Unlock, fromNamed(s.Unlock)),
		rpc.NewEndpoint(operation.LockKill, fromAny(d.killLocked)),
		rpc.NewEndpoint(operation.Locks, fromAny(func(ctx context.Context, _ struct{}) (
			envelope.LocksResponse, *envelope.Error) {
			return s.List(ctx)
		})),
	}
}

// killLocked reads the locks first: another dispatcher may just have set the one that the request names.
func (d *dispatcherParts) killLocked(
	ctx context.Context, q envelope.LockKillRequest,
) (a envelope.LockKillResponse, _ *envelope.Error) {
	if err := d.locks.Refresh(ctx); err != nil {
		return a, replica.Answer(err, "the control bucket")
	}
	return d.dispatcher.KillLocked(ctx, q)
}

// operator returns the names of the sender of a request: those of its token or, without tokens, those of its subject.
func operator(ctx context.Context, from call.Sender) call.Sender {
	if p := auth.FromContext(ctx); p != nil {
		return call.Sender{Tenant: p.Tenant, Actor: p.Actor}
	}
	return dispatcher.Named(from)
}
