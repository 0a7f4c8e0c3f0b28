package app

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/deadletter"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher"
	"github.com/seed-018f16cc/toolbus/internal/health"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// endpoints returns the endpoints of the dispatcher's service.
func (d *dispatcherParts) endpoints() []rpc.Endpoint {
	looking := make(chan struct{}, 1)
	all := slices.Concat([]rpc.Endpoint{
		rpc.NewEndpoint(operation.Result, d.dispatcher.Result),
		rpc.NewEndpoint(operation.Cancel, d.dispatcher.Cancel),
		rpc.NewEndpoint(operation.Answer, d.dispatcher.Answer),
		rpc.NewEndpoint(operation.Why, d.dispatcher.Why),
		rpc.NewEndpoint(operation.Trace, d.trace),
		rpc.NewEndpoint(operation.CallList, d.dispatcher.OpenCalls),
		rpc.NewEndpoint(operation.Describe, fromAny(d.describe)),
		rpc.NewEndpoint(operation.Inventory, fromAny(func(context.Context, struct{}) (envelope.Inventory, *envelope.Error) {
			loaded := d.options.Tools.Inventory(d.Instance)
			loaded.NoAuth, loaded.Settings = !d.Identity, d.settings()
			if d.Keys != nil {
				loaded.Profile = d.Keys.Profile
			}
			return loaded, nil
		})),
		rpc.NewEndpoint(operation.Executors, fromAny(d.listExecutors)),
		rpc.NewEndpoint(operation.Chunks, d.chunks),
		rpc.NewEndpoint(operation.Stored, fromAny(d.stored)),
		rpc.NewEndpoint(operation.Health, fromAny(func(ctx context.Context, _ struct{}) (envelope.Health, *envelope.Error) {
			// The answers of the servers are megabytes, and more in a flood of requests: serve one health request at a time.
			select {
			case looking <- struct{}{}:
				defer func() { <-looking }()
			case <-ctx.Done():
				return envelope.Health{}, envelope.NewError(envelope.CodeQueue, "other questions about health are answered first")
			}
			return d.look(ctx), nil
		})),
		rpc.NewEndpoint(operation.Replay, d.replay),
		rpc.NewForwarder(operation.Payload, d.payload),
	}, d.lockEndpoints(), d.repairEndpoints(), d.tokenEndpoints(), d.policyEndpoints(), d.runEndpoints())
	for i, e := range all {
		op := operation.Named(e.Op)
		if op.Act {
			all[i] = d.acting(e)
		} else {
			all[i] = recorded(d.dispatcher, e)
		}
		if !op.Expired {
			all[i] = guarded(d.dispatcher, all[i])
		}
	}
	return all
}

// handler handles the requests of an operation.
type handler[Q, A any] func(ctx context.Context, from call.Sender, q Q) (A, *envelope.Error)

// fromAny returns a handler whose function does not depend on the sender.
func fromAny[Q, A any](do func(context.Context, Q) (A, *envelope.Error)) handler[Q, A] {
	return func(ctx context.Context, _ call.Sender, q Q) (A, *envelope.Error) { return do(ctx, q) }
}

// fromNamed returns a handler whose function gets the names of the sender.
func fromNamed[Q, A any](do handler[Q, A]) handler[Q, A] {
	return func(ctx context.Context, from call.Sender, q Q) (A, *envelope.Error) {
		return do(ctx, operator(ctx, from), q)
	}
}

// look makes the checks of `toolbus doctor` that a dispatcher can make.
func (d *dispatcherParts) look(ctx context.Context) envelope.Health {
	var tools []envelope.ToolInfo
	for _, m := range d.options.Tools.List() {
		tools = append(tools, envelope.ToolInfo{
			ToolID: m.ToolID, Version: m.Semver, Digest: m.Digest, Status: string(m.Status), Pool: m.Pool,
		})
	}
	checks := health.Look(ctx, d.JS, d.Clock.Now(), tools, d.dispatcher.Deadlines.Waiting())
	checks = append(checks, health.Damaged(d.copies.Damaged())...)
	return envelope.Health{Checks: append(checks, deployed(ctx, d.node)...)}
}

// deployed checks a deployment that has keys against its profile.
func deployed(ctx context.Context, c *node) []envelope.Check {
	if c.Keys == nil {
		return nil
	}
	want := health.Want{Profile: c.Keys.Profile, Fsync: &c.Fsync}
	user, err := byKey(c.Keys.System)
	if err != nil {
		return []envelope.Check{envelope.Failed("servers", err.Error(), "")}
	}
	sys, err := bus.Dial(c.URL, "toolbus-health", append(append([]nats.Option{}, c.Connect...), user)...)
	if err != nil {
		return []envelope.Check{envelope.Failed("servers", err.Error(), bus.ConnectHint(err))}
	}
	defer sys.Close()
	return append(health.Placed(ctx, c.JS, want), health.Servers(ctx, sys, want)...)
}

// guarded returns an endpoint that authenticates each request and passes the principal in the context.
func guarded(d *dispatcher.Dispatcher, e rpc.Endpoint) rpc.Endpoint {
	answer := e.Handle
	e.Handle = func(ctx context.Context, from call.Sender, body []byte) (any, *envelope.Error) {
		p, refusal := d.Authenticate(ctx, e.Op, from, call.CredentialFromContext(ctx))
		if refusal != nil {
			return nil, refusal
		}
		return answer(auth.NewContext(ctx, p), from, body)
	}
	return e
}

// recorded returns an endpoint that writes a refusal to the audit record if its class is A-AUTH. The dispatcher itself
// records denied questions about calls of others, which it answers as those about calls that do not exist.
func recorded(d *dispatcher.Dispatcher, e rpc.Endpoint) rpc.Endpoint {
	answer := e.Handle
	e.Handle = func(ctx context.Context, from call.Sender, body []byte) (any, *envelope.Error) {
		said, refusal := answer(ctx, from, body)
		if refusal != nil && refusal.Code.Class() == envelope.ClassAuth {
			return nil, d.RecordDenied(ctx, from, refusal)
		}
		return said, refusal
	}
	return e
}

// stored answers with a page of a stream of the audit record or the dead letters. An auditor without the scope for all
// tenants gets only the records of its own tenant, and no dead letters.
func (d *dispatcherParts) stored(ctx context.Context, q envelope.StreamReadRequest) (page envelope.StreamReadResponse,
	_ *envelope.Error) {
	if p := auth.FromContext(ctx); p != nil && p.Role != auth.Operator && !p.Has(auth.ScopeAudit) {
		if q.Tenant == "" {
			q.Tenant = p.Tenant
		}
		if q.Tenant != p.Tenant || q.Stream == subjects.DeadStream {
			return page, envelope.NewError(envelope.CodeForbidden, "that is not of the tenant "+p.Tenant+" alone").
				WithFix("ask for the record of your tenant, or with a token for all: scope " + auth.ScopeAudit)
		}
	}
	page, err := reader.ServePage(ctx, d.bulk.js, q)
	if err != nil {
		return page, envelope.NewError(envelope.CodeUnavailable, "the record could not be read").WithCause(err.Error())
	}
	page.Now = d.Clock.Now()
	return page, nil
}

// replay replays a dead letter on behalf of the sender.
func (d *dispatcherParts) replay(ctx context.Context, from call.Sender, q envelope.ReplayRequest) (
	a envelope.ResultResponse, _ *envelope.Error) {
	letter, err := deadletter.DeadLetterAt(ctx, reader.Streams(d.bulk.js), q.Letter)
	switch {
	case errors.Is(err, deadletter.ErrNoDeadLetter):
		return a, envelope.NewError(envelope.CodeNotFound, err.Error()).WithFix("give the number of a dead letter")
	case err != nil:
		return a, envelope.NewError(envelope.CodeUnavailable, "the dead letter could not be read").
			WithRetryAfter(time.Second).WithCause(err.Error())
	}
	by := cmp.Or(auth.FromContext(ctx), &auth.Principal{Tenant: from.Tenant, Actor: from.Actor})
	return d.dispatcher.Replay(ctx, by.Tenant+"/"+by.Actor, dispatcher.DeadLetter{
		Seq: letter.Seq, Attempt: letter.Attempt, State: letter.State, Body: letter.Body,
	}, q.Again)
}

// payload answers with one part of the large output of a call.
func (d *dispatcherParts) payload(
	ctx context.Context, from call.Sender, q envelope.PayloadRequest,
) (any, *envelope.Error) {
	of, refusal := d.dispatcher.OutputOwner(ctx, from, q)
	if refusal != nil {
		return nil, refusal
	}
	subject := of.Payload(q.SHA256, q.Part)
	if q.Direct {
		to, body := streaming.GetNewest(subjects.PayloadsStream, subject)
		return rpc.Forward{To: to, Body: body}, nil
	}
	m, err := d.bulk.payloads.Newest(ctx, subject)
	switch {
	case err != nil:
		return nil, envelope.NewError(envelope.CodeUnavailable, "the output could not be read").WithCause(err.Error())
	case m == nil:
		return nil, envelope.NewError(envelope.CodePayloadMissing, "")
	}
	return envelope.PayloadResponse{Body: m.Data}, nil
}

func (d *dispatcherParts) chunks(
	ctx context.Context, from call.Sender, q envelope.ChunksRequest,
) (a envelope.ChunksResponse, _ *envelope.Error) {
	s, refusal := d.dispatcher.StateOf(ctx, from, envelope.CallRef{Ref: q.Ref, CallID: q.CallID}, q.Attempt)
	if refusal != nil {
		return a, refusal
	}
	if run, ok := s.Attempt(q.Attempt); ok && q.Fence == 0 {
		q.Fence = run.Fence()
	}
	at := streaming.Position{Run: streaming.Run{Attempt: q.Attempt, Fence: q.Fence}, Index: q.Index, After: q.After}
	source := streaming.NewStoreSource(d.executors.Chunks, func(r streaming.Run) string {
		a, _ := s.Attempt(r.Attempt)
		return chunkSubject(d.Identity, s, a, r.Fence)
	})
	frame, err := source.Fetch(ctx, at, min(max(q.MaxBytes, 1), bus.MaxChunkBytes))
	switch {
	case errors.Is(err, streaming.ErrExpired):
		return envelope.ChunksResponse{Fence: q.Fence, Expired: true}, nil
	case err != nil:
		return a, envelope.NewError(envelope.CodeUnavailable, "the chunks could not be read").WithCause(err.Error())
	}
	return envelope.ChunksResponse{Header: frame.Header(), Body: frame.Body(), Fence: q.Fence}, nil
}
