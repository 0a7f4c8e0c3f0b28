package app

import (
	"context"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokenstore"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
)

// openAuthority returns the store of keys and revocations, which follows the bucket until stop is called. It returns a
// nil store if c has no keys. Before it returns, the store has read the whole bucket, so that no revoked token is
// accepted.
func openAuthority(ctx context.Context, c *dispatcherProcess) (s *tokenstore.Store, stop func(), err error) {
	if c.Keys == nil {
		return nil, func() {}, nil
	}
	s, err = tokenstore.Open(ctx, c.state.js, c.Keys, tokenstore.Options{
		Now: c.Clock.Now, Logger: c.Logger, Copies: c.copies,
	})
	if err != nil {
		return nil, nil, err
	}
	stop = startAll(ctx, s.Run)
	select {
	case <-s.Ready():
		return s, stop, nil
	case <-ctx.Done():
		stop()
		return nil, nil, ctx.Err()
	}
}

// renew exchanges a token for a new one. The token may have expired: AuthenticateRenewal accepts it for this operation
// only.
func renew(ctx context.Context, c *node, s *tokenstore.Service, from call.Sender) (
	a envelope.TokenResponse, _ *envelope.Error) {
	p, refusal := auth.AuthenticateRenewal(s.Store.Verifier(), c.Clock.Now(), from, call.CredentialFromContext(ctx))
	if refusal != nil {
		return a, refusal
	}
	return s.Renew(ctx, p)
}

// tokenEndpoints returns the endpoints for tokens, or nil without a store. The first one authenticates its requests
// itself. The caller must guard the others.
func (d *dispatcherParts) tokenEndpoints() []rpc.Endpoint {
	if d.tokens == nil {
		return nil
	}
	s := &tokenstore.Service{Store: d.tokens, Record: d.note}
	return []rpc.Endpoint{
		rpc.NewEndpoint(operation.TokenRenew, func(ctx context.Context, from call.Sender, _ struct{}) (
			envelope.TokenResponse, *envelope.Error) {
			a, refusal := renew(ctx, d.node, s, from)
			d.tally.renewal(refusal)
			return a, refusal
		}),
		rpc.NewEndpoint(operation.TokenNarrow, byToken(s.Narrow)),
		rpc.NewEndpoint(operation.TokenIssue, byToken(s.Issue)),
		rpc.NewEndpoint(operation.TokenRevoke, byToken(s.Revoke)),
		rpc.NewEndpoint(operation.TokenList, byToken(s.List)),
		rpc.NewEndpoint(operation.KeyRotate, byToken(s.Rotate)),
	}
}

// byToken returns a handler whose function gets the principal of the request.
func byToken[Q, A any](do func(context.Context, *auth.Principal, Q) (A, *envelope.Error)) handler[Q, A] {
	return func(ctx context.Context, _ call.Sender, q Q) (A, *envelope.Error) {
		return do(ctx, auth.FromContext(ctx), q)
	}
}
