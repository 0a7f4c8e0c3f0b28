package app

import (
	"context"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/writer"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokenstore"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/gate"
	"github.com/seed-018f16cc/toolbus/question"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// openAuthority returns what the deployment knows of tokens, which it follows until stop; nil without keys. When it
// returns everything has been read: nobody is let in before it is known what was revoked.
func openAuthority(ctx context.Context, c *Conn) (s *tokenstore.Store, stop func(), err error) {
	if c.Keys == nil {
		return nil, func() {}, nil
	}
	s, err = tokenstore.Open(ctx, c.JS, c.Keys, tokenstore.Options{Now: c.Clock.Now, Logger: c.Logger})
	if err != nil {
		return nil, nil, err
	}
	following, end := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() { defer close(done); s.Run(following) }()
	stop = func() { end(); <-done }
	select {
	case <-s.Ready():
		return s, stop, nil
	case <-ctx.Done():
		stop()
		return nil, nil, ctx.Err()
	}
}

// renew exchanges a token, also one that has expired: it vouches for its holder in that alone.
func renew(ctx context.Context, c *Conn, s *tokenstore.Service, from call.Sender) (
	a question.TokenAnswer, _ *envelope.Error) {
	p, refusal := gate.Renews(s.Store.Checker(), c.Clock.Now(), from, call.By(ctx))
	if refusal != nil {
		return a, refusal
	}
	return s.Renew(ctx, p)
}

// tokenEndpoints answer questions about tokens; none without a store. The first one asks by itself what vouches
// for a question, the others are to be guarded.
func tokenEndpoints(c *Conn, store *tokenstore.Store, journal *writer.Journal) []bus.Endpoint {
	if store == nil {
		return nil
	}
	s := &tokenstore.Service{Store: store, Record: journal.Note}
	return []bus.Endpoint{
		bus.Answering(subjects.OpTokenRenew, func(ctx context.Context, from call.Sender,
			_ struct{}) (question.TokenAnswer, *envelope.Error) {
			return renew(ctx, c, s, from)
		}),
		bus.Answering(subjects.OpTokenNarrow, func(ctx context.Context, _ call.Sender,
			q question.Narrow) (question.TokenAnswer, *envelope.Error) {
			return s.Narrow(ctx, auth.From(ctx), q)
		}),
		bus.Answering(subjects.OpTokenIssue, func(ctx context.Context, _ call.Sender,
			q question.Issue) (question.TokenAnswer, *envelope.Error) {
			return s.Issue(ctx, auth.From(ctx), q)
		}),
		bus.Answering(subjects.OpTokenRevoke, func(ctx context.Context, _ call.Sender,
			q question.Revoke) (question.RevokeAnswer, *envelope.Error) {
			return s.Revoke(ctx, auth.From(ctx), q)
		}),
		bus.Answering(subjects.OpTokenList, func(ctx context.Context, _ call.Sender,
			q question.TokenList) (question.Credentials, *envelope.Error) {
			return s.List(ctx, auth.From(ctx), q)
		}),
		bus.Answering(subjects.OpKeyRotate, func(ctx context.Context, _ call.Sender,
			q question.Rotate) (question.Rotation, *envelope.Error) {
			return s.Rotate(ctx, auth.From(ctx), q)
		}),
	}
}
