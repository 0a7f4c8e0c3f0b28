package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// known returns the description of a tool, or nil if dispatchers have no such tool. It asks again until that time if it
// gets no answer, because dispatchers may be starting.
func (c *Client) known(ctx context.Context, as toolIn, until time.Time) (*described, error) {
	for {
		t, err := c.tool(ctx, as, time.Until(until))
		pause := describePause
		if refused, ok := errors.AsType[*Refusal](err); ok {
			pause = max(pause, time.Duration(refused.Reason.Details.RetryAfterMS)*time.Millisecond)
		}
		if !c.silent(err) || !timer.Sleep(ctx, min(pause, time.Until(until))) || time.Until(until) <= 0 {
			return t, err
		}
	}
}

// silent reports whether err is no lasting answer of the bus: none came, the dispatcher is not ready yet, or the token
// has expired and will be renewed. The server allows nothing to a connection with an expired token. The renewal
// connects again.
func (c *Client) silent(err error) bool {
	refused, ok := errors.AsType[*Refusal](err)
	return ok && refused.Reason.Code.AutoRetry() || lost(err) || errors.Is(err, rpc.ErrNoDispatcher) ||
		errors.Is(err, nats.ErrPermissionViolation) && c.Token != nil &&
			auth.Entitled(c.Token(), subjects.Service(subjects.OpDescribe, c.Tenant, c.Actor))
}

// fill makes the request of a call. It refuses only a request that cannot be sent, so that dispatchers refuse and
// record all others. An error means that dispatchers could not be asked for a description.
func (c *Client) fill(e *pendingCall) (refusal *envelope.Error, err error) {
	asked := time.Now()
	var t *described
	if valid(e.call.Timeout) {
		t, err = c.known(e.ctx, e.call.as(), e.Deadline)
	}
	e.requests(c, t)
	refusal = c.calls.May(c.Token, c.subject(e.call.Tool))
	if refused, ok := errors.AsType[*Refusal](err); ok && !c.silent(err) {
		e.undescribed, err = refused.Reason, nil // a dispatcher refuses the call, too
	}
	if refusal != nil || err != nil {
		return refusal, err
	}
	c.isDue(e)
	if !e.fits(t) && t != nil && t.fetched.Before(asked) {
		if t = c.renewed(e.ctx, t, e.Deadline); t != nil { // a newer build may have the function
			e.requests(c, t)
			c.isDue(e)
			e.fits(t)
		}
	}
	return e.sendable(), nil
}

// valid reports whether a timeout of a call is in the range of the wire; 0 is the tool's own.
func valid(timeout time.Duration) bool {
	return timeout == 0 || timeout >= time.Millisecond && timeout.Milliseconds() <= envelope.MaxTimeoutMS
}

// renewed returns the description of another build of the tool than t, if there is one now. It waits for as long as for
// a first one: what t refuses, another build may take.
func (c *Client) renewed(ctx context.Context, t *described, until time.Time) *described {
	fresh, err := c.fetchOnce(ctx, t.as, min(describeTime, time.Until(until)))
	if err != nil || fresh == nil || fresh.info.Digest == t.info.Digest {
		return nil
	}
	return fresh
}

// fits fills in what the description t of the tool says. It reports whether the tool has the function.
func (e *pendingCall) fits(t *described) bool {
	if e.req.Input == nil {
		e.req.Input = jsontext.Value("{}")
	}
	e.fn, e.unnamed, e.described = nil, nil, t != nil
	e.keyRequired = t != nil && t.info.KeyRequirement == envelope.KeyRequired
	if t == nil {
		e.req.Fn = cmp.Or(e.req.Fn, envelope.DefaultFunction) // the tool is refused, whatever the function
		return false
	}
	fn, refusal := t.function(e.req.Fn)
	if e.pool = t.info.Pool; refusal != nil {
		if e.req.Fn == "" {
			e.unnamed = refusal
		}
		return false
	}
	e.fn, e.req.Fn = fn, fn.name
	return true
}

// sendable returns why the request cannot be sent; nil if it can. It fills in the key.
func (e *pendingCall) sendable() *envelope.Error {
	req := e.req
	switch {
	case len(req.Input) > envelope.MaxPayload:
		return envelope.NewError(envelope.CodeLimit,
			fmt.Sprintf("the input is %d bytes, at most %d are allowed", len(req.Input), envelope.MaxPayload))
	case e.keyRequired && !e.keyed:
		return missingKey(req.ToolID)
	case len(req.Input) > envelope.MaxInline && !e.described: // nobody knows whose executors are to read it
		return cmp.Or(e.undescribed, envelope.NoTool(req.ToolID, nil))
	}
	bad := ijson.Check(req.Input)
	noJSON := func(v jsonschema.Violation) bool { return v.Rule == ijson.RuleSyntax }
	e.inexact = jsonschema.Below("/input", bad)
	if slices.ContainsFunc(bad, noJSON) || len(bad) > 0 && !utf8.Valid(req.Input) {
		return envelope.InputFault(e.inexact)
	}
	if req.Constraints.IdempotencyKey == "" {
		key, err := envelope.StableKey(req.ToolID, req.Fn, req.ToolVersion, req.Input)
		if err != nil {
			key = "refused-" + req.CallID // it is no I-JSON
		}
		req.Constraints.IdempotencyKey = key
	}
	return nil
}

// missingKey returns the refusal of a call without a key of its caller, where the manifest requires one: a key that the
// client makes would not join a second call of the same intention.
func missingKey(tool string) *envelope.Error {
	return envelope.NewError(envelope.CodeSchema, fmt.Sprintf("the tool %q requires an idempotency key", tool)).
		WithFix("choose a key that names the intention, such as the number of an order, and send it with the call").
		WithViolations(ijson.NewViolation("/constraints/idempotency_key", "required", "is missing"))
}

// advised adds to an answer what a dispatcher cannot know: the names of the functions, if the call named none, and the
// line and column of a violation within the input.
func (e *pendingCall) advised(r *envelope.Response) *envelope.Response {
	if r.Error == nil {
		return r
	}
	if e.unnamed != nil && r.Error.Code == envelope.CodeSchema {
		r.Error.WithFix(e.unnamed.Fix)
	}
	for i, v := range r.Error.Details.Violations {
		same := func(o jsonschema.Violation) bool { return o.Pointer == v.Pointer && o.Rule == v.Rule }
		if at := slices.IndexFunc(e.inexact, same); at >= 0 {
			r.Error.Details.Violations[i].Message = e.inexact[at].Message
		}
	}
	return r
}

// freshID returns a random UUID, with one allocation less than uuid.NewString.
func freshID() string {
	var id uuid.UUID
	_, _ = rand.Read(id[:])                         // never fails
	id[6], id[8] = id[6]&0x0f|0x40, id[8]&0x3f|0x80 // version 4
	return id.String()
}

// request fills in what the call leaves open.
func (c *Client) request(call Call, t *described) *envelope.Request {
	req := &envelope.Request{
		CallID: call.CallID, ToolID: call.Tool, ToolVersion: cmp.Or(call.Version, "*"), Fn: call.Function,
		Input: call.Input, Context: call.Context, DryRun: call.DryRun, Provenance: call.Provenance,
		Constraints: envelope.Constraints{
			TimeoutMS: call.Timeout.Milliseconds(), IdempotencyKey: call.Key, IdempotencyScope: call.KeyScope,
			Priority: call.Priority, PreferStreaming: call.OnChunk != nil, RetryPolicy: call.Retry,
		},
	}
	if req.CallID == "" {
		req.CallID = freshID()
	}
	if call.Timeout == 0 {
		req.Constraints.TimeoutMS = describeTime.Milliseconds()
		if t != nil {
			req.Constraints.TimeoutMS = max(t.info.TimeoutDefaultMS, 1)
		}
	}
	req.Constraints.DeadlineUnixMS = c.BusTime().UnixMilli() + req.Constraints.TimeoutMS
	ctx := &req.Context
	ctx.ActorID = c.Actor
	if ctx.TraceID == "" {
		ctx.TraceID = freshID()
	}
	ctx.Env, ctx.Timezone = cmp.Or(ctx.Env, c.Env), cmp.Or(ctx.Timezone, c.Timezone)
	if ctx.Scopes == nil {
		ctx.Scopes = c.Scopes
	}
	run, lane := c.Bound()
	ctx.RunID, ctx.LaneID = cmp.Or(ctx.RunID, run), cmp.Or(ctx.LaneID, lane)
	return req
}
