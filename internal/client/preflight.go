package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/client/catalogue"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// preflight makes the request of the call. It refuses only a request that cannot be sent, so that dispatchers refuse
// and record all others. An error means that dispatchers could not be asked for a description.
func (p *pendingCall) preflight() (refusal *envelope.Error, err error) {
	c, asked := p.client, time.Now()
	var t *catalogue.Tool
	if isValid(p.call.Timeout) {
		t, err = c.Await(p.Context(), p.call.key(), p.Deadline)
	}
	p.fill(t)
	refusal = c.permissions.May(c.Token, subjects.Call(c.Tenant, c.Actor, p.call.Tool))
	if refused, ok := errors.AsType[*operation.Refusal](err); ok && !c.IsSilent(err) {
		p.undescribed, err = refused.Reason, nil // a dispatcher refuses the call, too
	}
	if refusal != nil || err != nil {
		return refusal, err
	}
	p.setDeadline()
	if !p.name(t) && t != nil && t.Fetched.Before(asked) {
		if t = c.Newer(p.Context(), t, p.Deadline); t != nil { // a newer build may have the function
			p.fill(t)
			p.setDeadline()
			p.name(t)
		}
	}
	return p.sendable(), nil
}

// setDeadline notes when the call is to be answered, now that its request says so.
func (p *pendingCall) setDeadline() {
	if timeout := time.Duration(p.req.Constraints.TimeoutMS) * time.Millisecond; isValid(p.call.Timeout) {
		p.client.calls.Due(&p.Call, p.started.Add(timeout))
	}
}

// fill makes the request of the call, for a tool that is described by t. A timeout that will be refused stays as it is.
func (p *pendingCall) fill(t *catalogue.Tool) {
	p.req = p.client.request(p.call, t)
	if t != nil {
		p.longest = time.Duration(t.Info.TimeoutMaxMS) * time.Millisecond
	}
	k := &p.req.Constraints
	if !isValid(p.call.Timeout) {
		return
	}
	timeout := p.atMost(time.Duration(k.TimeoutMS) * time.Millisecond).Milliseconds()
	k.DeadlineUnixMS -= k.TimeoutMS - timeout
	k.TimeoutMS = timeout
}

// isValid reports whether a timeout of a call is in the range of the wire; 0 is the tool's own.
func isValid(timeout time.Duration) bool {
	return timeout == 0 || timeout >= time.Millisecond && timeout.Milliseconds() <= envelope.MaxTimeoutMS
}

// name fills in what the description t of the tool says. It reports whether the tool has the function.
func (p *pendingCall) name(t *catalogue.Tool) bool {
	if p.req.Input == nil {
		p.req.Input = jsontext.Value("{}")
	}
	p.fn, p.unnamed, p.described = nil, nil, t != nil
	p.keyRequired = t != nil && t.Info.KeyRequirement == envelope.KeyRequired
	if t == nil {
		p.req.Fn = cmp.Or(p.req.Fn, envelope.DefaultFunction) // the tool is refused, whatever the function
		return false
	}
	fn, refusal := t.Function(p.req.Fn)
	if p.pool = t.Info.Pool; refusal != nil {
		if p.req.Fn == "" {
			p.unnamed = refusal
		}
		return false
	}
	p.fn, p.req.Fn = fn, fn.Name
	return true
}

// sendable returns why the request cannot be sent; nil if it can. It fills in the key.
func (p *pendingCall) sendable() *envelope.Error {
	req := p.req
	switch {
	case len(req.Input) > envelope.MaxPayload:
		return envelope.NewError(envelope.CodeLimit,
			fmt.Sprintf("the input is %d bytes, at most %d are allowed", len(req.Input), envelope.MaxPayload))
	case len(req.Input) > envelope.MaxInline && !p.described: // nobody knows whose executors are to read it
		return cmp.Or(p.undescribed, envelope.NoTool(req.ToolID, nil))
	}
	bad := ijson.Check(req.Input)
	noJSON := func(v jsonschema.Violation) bool { return v.Rule == ijson.RuleSyntax }
	p.inexact = jsonschema.Below("/input", bad)
	if slices.ContainsFunc(bad, noJSON) || len(bad) > 0 && !utf8.Valid(req.Input) {
		return envelope.InputFault(p.inexact).WithFix(fixNoJSON)
	}
	switch {
	case p.keyless():
		req.Constraints.IdempotencyKey = "" // a dispatcher refuses the call, and records that
	case req.Constraints.IdempotencyKey == "":
		key, err := envelope.StableKey(req.ToolID, req.Fn, req.ToolVersion, req.Input)
		if err != nil {
			key = "refused-" + req.CallID // it is no I-JSON
		}
		req.Constraints.IdempotencyKey = key
	}
	return nil
}

// fixNoJSON is the fix for an input that is cut, or is not JSON at all.
const fixNoJSON = "the input is not JSON in UTF-8, or was cut: send one whole JSON value"

// keyless reports whether the call has no key of its caller, although the manifest requires one: a key that the client
// makes would not join a second call of the same intention.
func (p *pendingCall) keyless() bool { return p.keyRequired && !p.keyed }

// fixKeyless is the fix of the refusal of a keyless call.
const fixKeyless = "the tool requires an idempotency key of its caller: choose one that names the intention, such as " +
	"the number of an order, and send it with the call"

// advised adds to an answer what a dispatcher cannot know: the names of the functions, if the call named none, and the
// line and column of a violation within the input. It also says that the tool requires a key.
func (p *pendingCall) advised(r *envelope.Response) *envelope.Response {
	if r.Error == nil {
		return r
	}
	switch {
	case r.Error.Code != envelope.CodeSchema:
	case p.keyless():
		r.Error.WithFix(fixKeyless)
	case p.unnamed != nil:
		r.Error.WithFix(p.unnamed.Fix)
	}
	for i, v := range r.Error.Details.Violations {
		if v.Pointer == "/fn" && p.unnamed != nil {
			r.Error.Details.Violations[i].Message = p.unnamed.Message
		}
		same := func(o jsonschema.Violation) bool { return o.Pointer == v.Pointer && o.Rule == v.Rule }
		if at := slices.IndexFunc(p.inexact, same); at >= 0 {
			r.Error.Details.Violations[i].Message = p.inexact[at].Message
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
func (c *Client) request(call Call, t *catalogue.Tool) *envelope.Request {
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
		req.Constraints.TimeoutMS = catalogue.MaxWait.Milliseconds()
		if t != nil {
			req.Constraints.TimeoutMS = max(t.Info.TimeoutDefaultMS, 1)
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

// Draft returns the request that [Client.Call] would send first for a call, and does not send it. It fills in what the
// call leaves open, like Call, and returns a refusal if a dispatcher would refuse the call because it has no key. The
// call must name a tool and a function.
func (c *Client) Draft(ctx context.Context, call Call) (*envelope.Request, error) {
	t, err := c.Find(ctx, call.key(), catalogue.MaxWait)
	if err != nil {
		return nil, err
	}
	call, keyed := c.withKey(call)
	p := pendingCall{call: call, keyed: keyed, req: c.request(call, t)}
	p.name(t)
	refusal := p.sendable()
	if refusal == nil && p.keyless() {
		refusal = envelope.NewError(envelope.CodeSchema, "").WithFix(fixKeyless)
	}
	if refusal != nil {
		return nil, &operation.Refusal{Reason: refusal}
	}
	return p.req, nil
}

// binding caches the run and the lane of the client's token. Decoding a token takes longer than the rest of building a
// request, so it is decoded once. The zero value is empty. It is safe for concurrent use.
type binding struct{ last atomic.Pointer[bound] }

// bound is the run and the lane that one token is bound to; "" is any.
type bound struct{ token, run, lane string }

// find returns the binding of a token; the zero value for one that cannot be decoded, which dispatchers refuse.
func (b *binding) find(token string) *bound {
	if last := b.last.Load(); last != nil && last.token == token {
		return last
	}
	claims, _ := auth.Inspect(token) // the zero value if it cannot be decoded
	next := &bound{token, claims.Run, claims.Lane}
	b.last.Store(next)
	return next
}

// Bound returns the run and the lane that the client's token is bound to; "" is any. Calls of the client get them as
// context.run_id and context.lane_id unless [Call.Context] sets others, which dispatchers refuse with A-AUTH-SCOPE.
func (c *Client) Bound() (run, lane string) {
	if c.Token == nil {
		return "", ""
	}
	b := c.binding.find(c.Token())
	return b.run, b.lane
}
