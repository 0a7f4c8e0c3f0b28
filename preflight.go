package toolbus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/accounts"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/ijson"
	"github.com/seed-018f16cc/toolbus/internal/wait"
	"github.com/seed-018f16cc/toolbus/schema"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// known returns the description of a tool for a call, which has until then to be sent at all: a
// dispatcher may be starting, so unlike elsewhere it is no answer that nobody listens.
func (c *Client) known(ctx context.Context, id string, until time.Time) (*described, *envelope.Error, error) {
	for {
		t, refusal, err := c.tool(ctx, id, time.Until(until))
		pause := describePause
		if refused, ok := errors.AsType[*Refusal](err); ok {
			pause = max(pause, time.Duration(refused.Reason.Details.RetryAfterMS)*time.Millisecond)
		}
		if !c.silent(err) || !wait.For(ctx, min(pause, time.Until(until))) || time.Until(until) <= 0 {
			return t, refusal, err
		}
	}
}

// silent says whether err means that the bus gave no answer, or one that will be another when the token is renewed or
// the dispatcher ready: a connection that was made with an expired token may do nothing else, and is made anew then.
func (c *Client) silent(err error) bool {
	refused, ok := errors.AsType[*Refusal](err)
	return ok && refused.Reason.Code.AutoRetry() || lost(err) || errors.Is(err, bus.ErrNobody) ||
		errors.Is(err, nats.ErrPermissionViolation) && c.Token != nil &&
			accounts.Entitled(c.Token(), subjects.Service(subjects.OpDescribe, c.Tenant, c.Actor))
}

// prepare builds the request of a call and checks it before it is sent. A
// refusal is what the dispatcher would answer; an error means that the bus could not be asked.
func (c *Client) prepare(e *errand) (refusal *envelope.Error, err error) {
	asked := time.Now()
	t, refusal, err := c.known(e.ctx, e.call.Tool, e.Deadline)
	e.requests(c, t)
	refusal = cmp.Or(refusal, c.calls.May(c.Token, c.subject(e.call.Tool)))
	if refusal != nil || err != nil {
		return refusal, err
	}
	c.isDue(e)
	if e.fn, refusal = fit(e.req, t); refusal == nil || t.fetched.After(asked) {
		return refusal, nil
	}
	if t = c.renewed(e.ctx, t, e.Deadline); t != nil { // no refusal by what the tool was
		e.requests(c, t)
		c.isDue(e)
		e.fn, refusal = fit(e.req, t)
	}
	return refusal, nil
}

// renewed returns the description of another build of the tool than t, if there is one now. It waits for as long as for
// a first one: what t refuses, another build may take.
func (c *Client) renewed(ctx context.Context, t *described, until time.Time) *described {
	fresh, err := c.fetchOnce(ctx, t.info.ToolID, min(describeTime, time.Until(until)))
	if err != nil || fresh == nil || fresh.info.Digest == t.info.Digest {
		return nil
	}
	return fresh
}

// fit fills in what the description of the tool says, and checks the request by it.
func fit(req *envelope.Request, t *described) (*function, *envelope.Error) {
	fn, refusal := t.function(req.Fn)
	if refusal != nil {
		return nil, refusal
	}
	req.Fn = fn.name
	if req.Input == nil {
		req.Input = jsontext.Value("{}")
	}
	return fn, check(req, fn.request)
}

// check lists all that is wrong with a request before it is sent, in the words of the dispatcher. It
// fills in the key, which depends on an input that is right.
func check(req *envelope.Request, input *schema.Schema) *envelope.Error {
	if len(req.Input) > envelope.MaxPayload {
		return envelope.NewError(envelope.CodeLimit,
			fmt.Sprintf("the input is %d bytes, at most %d are allowed", len(req.Input), envelope.MaxPayload))
	}
	if bad := ijson.Check(req.Input); len(bad) > 0 {
		return envelope.InputFault(schema.Below("/input", bad))
	}
	if req.Constraints.IdempotencyKey == "" {
		key, err := envelope.StableKey(req.ToolID, req.Fn, req.ToolVersion, req.Input)
		if err != nil {
			return envelope.NewError(envelope.CodeMalformed, "").WithCause(err.Error())
		}
		req.Constraints.IdempotencyKey = key
	}
	refusal := checkHead(req)
	if refusal != nil && refusal.Code != envelope.CodeSchema {
		return refusal
	}
	bad := input.ValidateChecked(req.Input)
	if len(bad) == 0 {
		return refusal
	}
	bad = schema.Below("/input", bad)
	if refusal != nil {
		bad = append(refusal.Details.Violations, bad...)
	}
	return envelope.NewError(envelope.CodeSchema, "").WithViolations(bad...)
}

// checkHead checks a request but for its input, which may be large.
func checkHead(req *envelope.Request) *envelope.Error {
	if req.Plain() {
		return nil
	}
	head := *req
	head.Input = jsontext.Value("{}")
	return head.Check()
}

// tooShort refuses a timeout that the unit of the wire cannot say.
func tooShort() *envelope.Error {
	return envelope.NewError(envelope.CodeSchema, "").WithViolations(schema.Violation{
		Pointer: "/constraints/timeout_ms", Rule: "minimum",
		Message: "the timeout must be at least 1 ms, or left out for the tool's own",
	})
}

// request fills in what the call leaves open.
func (c *Client) request(call Call, t *described) *envelope.Request {
	req := &envelope.Request{
		CallID: call.CallID, ToolID: call.Tool, ToolVersion: cmp.Or(call.Version, "*"), Fn: call.Fn,
		Input: call.Input, Context: call.Context, DryRun: call.DryRun, Provenance: call.Provenance,
		Constraints: envelope.Constraints{
			TimeoutMS: call.Timeout.Milliseconds(), IdempotencyKey: call.Key, IdempotencyScope: call.KeyScope,
			Priority: call.Priority, PreferStreaming: call.Chunk != nil, RetryPolicy: call.Retry,
			CacheKey: call.CacheKey, Budget: call.Budget, MemoryMBLimit: call.MemoryMBLimit, NetAllowlist: call.NetAllowlist,
		},
	}
	if req.CallID == "" {
		req.CallID = uuid.NewString()
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
	ctx.TraceID = cmp.Or(ctx.TraceID, uuid.NewString())
	ctx.Env, ctx.Timezone = cmp.Or(ctx.Env, c.Env), cmp.Or(ctx.Timezone, c.Timezone)
	if ctx.Scopes == nil {
		ctx.Scopes = c.Scopes
	}
	run, lane := c.Bound()
	ctx.RunID, ctx.LaneID = cmp.Or(ctx.RunID, run), cmp.Or(ctx.LaneID, lane)
	return req
}
