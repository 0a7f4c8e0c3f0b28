package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"golang.org/x/sync/singleflight"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/wait"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Describe asks what tools there are; with a tool, for that one and its schemas.
type Describe struct {
	Tool string `json:"tool,omitzero"`
}

// Description is the answer: the tools, and bus time, by which deadlines are compared.
type Description struct {
	NowUnixMS int64      `json:"now_unix_ms"`
	Tools     []ToolInfo `json:"tools"`
}

// ToolInfo is what callers may know of a tool.
type ToolInfo struct {
	ToolID           string            `json:"tool_id"`
	Version          string            `json:"tool_version"`
	Digest           string            `json:"digest,omitzero"`
	Title            string            `json:"title,omitzero"`
	Description      string            `json:"description,omitzero"`
	Owner            string            `json:"owner,omitzero"`
	Status           string            `json:"status"`
	Determinism      string            `json:"determinism"`
	Transport        string            `json:"transport,omitzero"`
	Pool             string            `json:"pool,omitzero"`
	Streaming        bool              `json:"streaming"`
	DryRun           bool              `json:"dry_run"`
	TimeoutDefaultMS int64             `json:"timeout_ms_default"`
	TimeoutMaxMS     int64             `json:"timeout_ms_max"`
	Functions        map[string]FnInfo `json:"functions"`
	Errors           []ToolErrorInfo   `json:"errors,omitzero"`
}

// FnInfo is what callers may know of a function; schemas are given only when asked for the tool.
type FnInfo struct {
	Description string         `json:"description,omitzero"`
	Request     jsontext.Value `json:"request,omitzero"`
	Response    jsontext.Value `json:"response,omitzero"`
}

// ToolErrorInfo is one error that a tool declares.
type ToolErrorInfo struct {
	Code       envelope.Code `json:"code"`
	ToolCode   string        `json:"tool_code"`
	HTTPStatus int           `json:"http_status,omitzero"`
	Message    string        `json:"message,omitzero"`
	Fix        string        `json:"fix,omitzero"`
}

// catalog caches descriptions, so that a call needs no extra round trip.
type catalog struct {
	asking singleflight.Group // by tool
	mu     sync.Mutex
	tools  map[string]*described
	// ahead is how far bus time is ahead of the local clock.
	ahead time.Duration
}

type described struct {
	info    ToolInfo
	fns     map[string]*function
	fetched time.Time
}

type function struct {
	name              string
	request, response *envelope.Schema
}

// freshDescription is how long a description is used; a newer build then shows up.
const freshDescription = 30 * time.Second

// Tools lists the tools.
func (c *Client) Tools(ctx context.Context) ([]ToolInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, describeTime)
	defer cancel()
	d, err := c.describe(ctx, "")
	return d.Tools, err
}

// Tool describes one tool with its schemas.
func (c *Client) Tool(ctx context.Context, id string) (ToolInfo, error) {
	t, refusal, err := c.tool(ctx, id, describeTime)
	switch {
	case err != nil:
		return ToolInfo{}, err
	case refusal != nil:
		return ToolInfo{}, errors.New(refusal.Message)
	}
	return t.info, nil
}

// How long a description is waited for, unless a call names a timeout of its own. A question or
// its answer may be lost, so it is asked again; who has an old description does not wait for a new
// one.
const (
	describeTime  = 5 * time.Second
	describeAgain = 400 * time.Millisecond
	describePause = 20 * time.Millisecond
	refreshTime   = 100 * time.Millisecond
)

// describe asks until ctx ends, which must have a deadline. That nobody is there to answer is an
// answer too.
func (c *Client) describe(ctx context.Context, tool string) (Description, error) {
	for {
		d, err := c.describeOnce(ctx, tool)
		if !lost(err) || !wait.For(ctx, describePause) {
			return d, err
		}
	}
}

// lost says whether a question or its answer may have been lost.
func lost(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrDisconnected)
}

func (c *Client) describeOnce(ctx context.Context, tool string) (Description, error) {
	ctx, cancel := context.WithTimeout(ctx, describeAgain)
	defer cancel()
	var d Description
	sent := c.Now()
	if refusal, err := c.ask(ctx, subjects.OpDescribe, Describe{Tool: tool}, &d); err != nil {
		return d, err
	} else if refusal != nil {
		return d, fmt.Errorf("%s", refusal.String())
	}
	trip := c.Now().Sub(sent)
	c.catalog.mu.Lock()
	defer c.catalog.mu.Unlock()
	c.catalog.ahead = time.UnixMilli(d.NowUnixMS).Sub(sent.Add(trip / 2))
	return d, nil
}

// tool returns the description of a tool, from the cache while it is fresh, and waits for it for
// a while at the most.
func (c *Client) tool(ctx context.Context, id string, atMost time.Duration) (*described, *envelope.Error, error) {
	if !utf8.ValidString(id) {
		return nil, noTool(id), nil // and it cannot be asked for
	}
	c.catalog.mu.Lock()
	t := c.catalog.tools[id]
	c.catalog.mu.Unlock()
	if t != nil && time.Since(t.fetched) < freshDescription {
		return t, nil, nil
	}
	if t != nil {
		atMost = min(atMost, refreshTime)
	}
	fresh, err := c.fetchOnce(ctx, id, atMost)
	switch {
	case err != nil && t != nil:
		return t, nil, nil // the old description is better than no call
	case err != nil:
		return nil, nil, err
	case fresh == nil:
		return nil, noTool(id), nil
	}
	return fresh, nil, nil
}

func noTool(id string) *envelope.Error {
	return envelope.NewError(envelope.CodeToolUnknown, fmt.Sprintf("there is no tool %q", id))
}

// fetchOnce asks for the description of a tool; callers who want the same at the same time share
// one question. There is no such tool when it returns nothing.
func (c *Client) fetchOnce(ctx context.Context, id string, atMost time.Duration) (*described, error) {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	answer := c.catalog.asking.DoChan(id, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), atMost)
		defer cancel()
		return c.fetch(ctx, id)
	})
	select {
	case a := <-answer:
		t, _ := a.Val.(*described)
		return t, a.Err
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %w", subjects.OpDescribe, ctx.Err())
	}
}

func (c *Client) fetch(ctx context.Context, id string) (*described, error) {
	d, err := c.describe(ctx, id)
	if err != nil || len(d.Tools) != 1 {
		return nil, err
	}
	t, err := compile(d.Tools[0])
	if err != nil {
		return nil, err
	}
	c.catalog.mu.Lock()
	defer c.catalog.mu.Unlock()
	if c.catalog.tools == nil || len(c.catalog.tools) > 10_000 {
		c.catalog.tools = map[string]*described{}
	}
	c.catalog.tools[id] = t
	return t, nil
}

func compile(info ToolInfo) (*described, error) {
	d := &described{info: info, fns: map[string]*function{}, fetched: time.Now()}
	for name, fn := range info.Functions {
		request, err := envelope.CompileSchema(info.ToolID+"/"+name+"/request", fn.Request, nil)
		if err != nil {
			return nil, fmt.Errorf("schema of %s %s: %w", info.ToolID, name, err)
		}
		response, err := envelope.CompileSchema(info.ToolID+"/"+name+"/response", fn.Response, nil)
		if err != nil {
			return nil, fmt.Errorf("schema of %s %s: %w", info.ToolID, name, err)
		}
		d.fns[name] = &function{name: name, request: request, response: response}
	}
	return d, nil
}

// known returns the description of a tool for a call, which has until then to be sent at all: a
// dispatcher may be starting, so unlike elsewhere it is no answer that nobody listens.
func (c *Client) known(ctx context.Context, id string, until time.Time) (*described, *envelope.Error, error) {
	for {
		t, refusal, err := c.tool(ctx, id, time.Until(until))
		if !silent(err) || !wait.For(ctx, min(describePause, time.Until(until))) || time.Until(until) <= 0 {
			return t, refusal, err
		}
	}
}

// silent says whether err means that the bus gave no answer.
func silent(err error) bool { return lost(err) || errors.Is(err, errNobody) }

// prepare builds the request of a call and checks it before it is sent (000 §4.2, §4.3). A
// refusal is what the dispatcher would answer; an error means that the bus could not be asked.
func (c *Client) prepare(ctx context.Context, call Call, until time.Time) (*envelope.Request, *function, *envelope.Error, error) {
	if call.Timeout != 0 && call.Timeout < time.Millisecond {
		return c.request(call, nil), nil, tooShort(), nil
	}
	t, refusal, err := c.known(ctx, call.Tool, until)
	req := c.request(call, t)
	if err != nil {
		return req, nil, nil, err
	}
	if refusal != nil {
		return req, nil, refusal, nil
	}
	fn, refusal := t.function(call.Fn)
	if refusal != nil {
		return req, nil, refusal, nil
	}
	req.Fn = fn.name
	if req.Input == nil {
		req.Input = jsontext.Value("{}")
	}
	return req, fn, check(req, fn.request), nil
}

// check lists all that is wrong with a request before it is sent, in the words of the dispatcher. It
// fills in the key, which depends on an input that is right.
func check(req *envelope.Request, input *envelope.Schema) *envelope.Error {
	if len(req.Input) > envelope.MaxPayload {
		return envelope.NewError(envelope.CodeLimit, fmt.Sprintf("the input is %d bytes, at most %d are allowed", len(req.Input), envelope.MaxPayload))
	}
	if bad := envelope.CheckIJSON(req.Input); len(bad) > 0 {
		return envelope.InputFault(prefixed("/input", bad))
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
	bad = prefixed("/input", bad)
	if refusal != nil {
		bad = append(refusal.Details.Violations, bad...)
	}
	return envelope.NewError(envelope.CodeSchema, "").WithViolations(bad...)
}

// checkHead checks a request but for its input, which may be large.
func checkHead(req *envelope.Request) *envelope.Error {
	head := *req
	head.Input = jsontext.Value("{}")
	body, err := envelope.EncodeRequest(envelope.ContentJSON, &head)
	if err != nil {
		e := envelope.NewError(envelope.CodeMalformed, "").WithCause(err.Error())
		if at, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
			e.WithViolations(envelope.Violation{Pointer: string(at.JSONPointer), Rule: "utf8", Message: at.Err.Error()})
		}
		return e
	}
	_, e := envelope.DecodeRequest(envelope.ContentJSON, body)
	return e
}

// tooShort refuses a timeout that the unit of the wire cannot say.
func tooShort() *envelope.Error {
	return envelope.NewError(envelope.CodeSchema, "").WithViolations(envelope.Violation{
		Pointer: "/constraints/timeout_ms", Rule: "minimum", Message: "the timeout must be at least 1 ms, or left out for the tool's own",
	})
}

func (t *described) function(fn string) (*function, *envelope.Error) {
	if fn == "" && len(t.fns) == 1 {
		for _, only := range t.fns {
			return only, nil
		}
	}
	if f := t.fns[fn]; f != nil {
		return f, nil
	}
	return nil, envelope.NewError(envelope.CodeFnUnknown, fmt.Sprintf("tool %q has no function %q", t.info.ToolID, fn))
}

func prefixed(prefix string, bad []envelope.Violation) []envelope.Violation {
	for i := range bad {
		bad[i].Pointer = prefix + bad[i].Pointer
	}
	return bad
}

// request fills in what the call leaves open.
func (c *Client) request(call Call, t *described) *envelope.Request {
	req := &envelope.Request{
		CallID: call.CallID, ToolID: call.Tool, ToolVersion: either(call.Version, "*"), Fn: call.Fn,
		Input: call.Input, Context: call.Context, DryRun: call.DryRun,
		Constraints: envelope.Constraints{
			TimeoutMS: call.Timeout.Milliseconds(), IdempotencyKey: call.Key, IdempotencyScope: call.KeyScope,
			Priority: call.Priority, PreferStreaming: call.Chunk != nil, RetryPolicy: call.Retry,
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
	c.catalog.mu.Lock()
	now := c.Now().Add(c.catalog.ahead)
	c.catalog.mu.Unlock()
	req.Constraints.DeadlineUnixMS = now.UnixMilli() + req.Constraints.TimeoutMS
	ctx := &req.Context
	ctx.ActorID = c.Actor
	ctx.TraceID = either(ctx.TraceID, uuid.NewString())
	ctx.Env, ctx.Timezone = either(ctx.Env, c.Env), either(ctx.Timezone, c.Timezone)
	if ctx.Scopes == nil {
		ctx.Scopes = c.Scopes
	}
	return req
}

var errNobody = errors.New("no dispatcher is listening on this bus (start one with `toolbus dev` or `dispatcher`)")

// ask sends one request to the service and decodes the answer.
func (c *Client) ask(ctx context.Context, op string, question, answer any) (*envelope.Error, error) {
	data, err := json.Marshal(question)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
	}
	msg, err := c.requestMsg(ctx, subjects.Service(op, c.Tenant, c.Actor), data)
	if errors.Is(err, nats.ErrNoResponders) {
		return nil, fmt.Errorf("%s: %w", op, errNobody)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if msg.Header.Get(subjects.HeaderKind) == kindRefusal {
		refusal := new(envelope.Error)
		if err := json.Unmarshal(msg.Data, refusal); err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		return refusal, nil
	}
	if err := json.Unmarshal(msg.Data, answer); err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return nil, nil
}
