package caller

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
)

// DefaultTenant and DefaultActor apply if ClientOptions leaves the field empty and the connection has no caller:
// neither its options nor the credentials name one.
const (
	DefaultTenant = client.DefaultTenant
	DefaultActor  = client.DefaultActor
)

// ClientOptions identifies the caller of a [Client]. The zero value suits a development client.
type ClientOptions struct {
	Tenant   string   // default: that of the connection, else "default"; at most 100 characters, see docs/limits.md
	Actor    string   // default: that of the connection, else "agent://local"; at most 100 characters
	Env      string   // prod, staging or dev; default "dev"
	Timezone string   // default "UTC"
	Scopes   []string // permissions that the calls claim
	// Token returns the current token of the actor. nil uses the token of the connection, if it has one.
	Token func() string
	// StableKeys gives each call without a Key the key that [StableKey] computes, instead of a random one. It is for a
	// caller that must find a call again after a crash and stores nothing. Equal calls are then one call: the second one
	// replays the success of the first one for 24 h (limits.retention_s of the tool), whatever has changed since. So do
	// not set it for tools that read data which may change, or write data which others may overwrite.
	StableKeys bool
	Logger     *slog.Logger // logs one line of level INFO per call; nil discards
}

// Client calls tools. It gives an idempotency key to each call, repeats a call only where that is safe, and checks
// outputs. It refuses only requests that it cannot send. Dispatchers check all others, and record their refusals. Make
// one with [Connect]. Its methods are safe for concurrent use.
type Client struct {
	own  *client.Client
	link *link.Link // closed with the client; nil if others use the connection
}

// New returns a client for package toolbus, on a connection that it shares with executors and dispatchers.
func New(l *link.Link, o ClientOptions) (*Client, error) {
	own, err := l.Client(client.Options{
		Tenant: o.Tenant, Actor: o.Actor, Env: o.Env, Timezone: o.Timezone, Scopes: o.Scopes, Token: o.Token,
		StableKeys: o.StableKeys, Logger: o.Logger,
	})
	if err != nil {
		return nil, err
	}
	return &Client{own: own}, nil
}

// Call describes one call of a function of a tool. Tool is required; the other zero values are defaults.
type Call struct {
	Tool     string
	Version  string         // semver range; default "*"
	Function string         // may be empty if the tool has one function
	Input    jsontext.Value // must fit the request schema of the function
	// Timeout is the time from the start of Call until the deadline, 1 ms to 10 min; any other is refused. The deadline is
	// never later than that of ctx. Default: the default timeout of the tool, or 5 s while the client does not know it. A
	// timeout above the maximum of the tool is cut to it: Provenance.PolicyApplied of the response then has timeout-cut,
	// and its Warnings say so. A program of a tool gets SIGTERM up to 300 ms before the deadline.
	Timeout time.Duration
	// Key is the idempotency key, 16 to 256 characters. Calls of one actor with one key and the same input are one call:
	// the second one joins the first one while that runs. After a retryable_error it runs again, and otherwise it gets the
	// same outcome for 24 h (limits.retention_s of the tool). After another error, repair its cause and call with a new
	// key, which runs the tool again. If the effect is unknown, find out first whether it took place, or it may take place
	// twice. By default each Call of a client gets a fresh random key, which its retries share; Response.Key and [KeyOf]
	// say which. A caller that may crash before it has the answer needs a key that it can find again: one of its own that
	// it stores before it calls, or a stable one, see [ClientOptions.StableKeys].
	Key string
	// KeyScope says which callers share Key. Default: all clients of one actor, with any of its tokens. The actor is the
	// whole name: agent://bob/sub is another one than agent://bob. [envelope.ScopeSession] shares it in the session of
	// Context, and [envelope.ScopeGlobal] among all actors of the tenant: use that if several actors may try the same
	// thing. All callers must choose the same scope.
	KeyScope envelope.KeyScope
	Priority envelope.Priority
	DryRun   bool
	// Retry sets the number of attempts that the client makes after retryable errors, and the pauses between them. nil
	// means 3 attempts with pauses of 200 ms to 2 s and full jitter. If the tool is neither pure nor idempotent, the
	// client repeats the call only if the answer proves that no executor started it (Provenance.NotStarted). See also
	// CallID.
	Retry      *envelope.RetryPolicy
	Provenance jsontext.Value // an object
	// CallID is the id of this request; default: a random one. Requests with the same id and Key get the same outcome, so
	// the client makes a call with a CallID once, whatever Retry says. To try again, call with the same Key and another
	// CallID.
	CallID string
	// Context holds the trace, session, role, run and lane of the call, and more. The client fills in empty members:
	// ActorID, Scopes, Env and Timezone from its options, TraceID with a new UUID, and RunID and LaneID from its token if
	// that is bound to a run or a lane ([Client.Bound]). Dispatchers fill in what is
	// still empty, and refuse a RoleID that the token does not carry.
	Context envelope.RequestContext
	// OnAccepted, if not nil, is called when the call has become durable. It is not called if the outcome arrives before
	// the acceptance, as a stored outcome does. Call does not return while OnAccepted or OnChunk runs: a function that
	// blocks can delay the answer past the deadline.
	OnAccepted func(envelope.Accepted)
	// OnChunk, if not nil, makes the call prefer streaming. It gets the chunks in order, without gaps and duplicates. A
	// chunk with another fence belongs to another run of the call: its chunks begin again with index 0, and those of the
	// former run are void. A success without all of its chunks is an error. If a stored success is replayed and its
	// chunks have expired, the response has a warning instead. After an error of OnChunk the client delivers no more
	// chunks, but the call goes on; Call returns the error when the call has ended.
	OnChunk func(envelope.Chunk) error
}

// Call makes a call and returns the response of its success. It returns at the latest 100 ms after the deadline, which
// is the earlier one of Timeout and the deadline of ctx. If the call has no success, Call returns one of these errors
// and no response:
//
//   - an [Error] for the three other outcomes, for a refusal of the bus, and if the bus does not answer by the
//     deadline. If [Error.Final] is false, the call may still run: the same call with [Error.Key] asks again.
//   - the error of ctx if the caller cancelled it, or the error of OnChunk. The call may still run: the same call with
//     the key that [KeyOf] returns finds it.
//   - another error if the client could not send the request, such as [ErrClosed].
//
// If the server no longer accepts the credentials of the connection, Call returns at once with the code A-AUTH-REVOKED
// or A-AUTH-EXPIRED. If OnAccepted or OnChunk panics, or ends its goroutine, Call panics with a value that prints the
// original value and its stack.
func (c *Client) Call(ctx context.Context, call Call) (*envelope.Response, error) {
	return succeeded(c.own.Call(ctx, client.Call(call)))
}

// StreamItem is one item of [Client.Stream]: a chunk, or the response of the success as the last item. The other field
// is nil.
type StreamItem struct {
	Chunk    *envelope.Chunk
	Response *envelope.Response
}

// Stream makes a call and yields its chunks as they arrive, then the response of its success or the error that
// [Client.Call] returns. If the loop ends early, the call goes on; end it with [Client.Cancel].
func (c *Client) Stream(ctx context.Context, call Call) iter.Seq2[StreamItem, error] {
	return func(yield func(StreamItem, error) bool) {
		for item, err := range c.own.Stream(ctx, client.Call(call)) {
			if item.Response != nil || err != nil {
				item.Response, err = succeeded(item.Response, err)
			}
			if !yield(StreamItem(item), err) {
				return
			}
		}
	}
}

// Result returns the response of a call that has ended with success. It does not wait: if the call has no outcome yet,
// the error is an [Error] whose Pending is true. If the output cannot be fetched, the error is an [Error] whose Final
// is false.
func (c *Client) Result(ctx context.Context, ref envelope.CallRef) (*envelope.Response, error) {
	a, err := c.State(ctx, ref)
	if err != nil || a.Response != nil {
		return succeeded(a.Response, err)
	}
	e := envelope.NewError(envelope.CodeTimeout, "the call has no outcome yet").WithEffect(envelope.EffectUnknown)
	return nil, &Error{reason: e.WithFix("ask again later, or cancel the call"), pending: true}
}

// State returns how a call stands: its acceptance, or its response once it has one, which may be of any status. It does
// not wait. If the output cannot be fetched, the response is a statement of the client whose Provenance.Final is false.
func (c *Client) State(ctx context.Context, ref envelope.CallRef) (envelope.ResultResponse, error) {
	a, err := c.own.Result(ctx, ref)
	return a, ErrorOf(err)
}

// Cancel ends a call of the actor of the client, also if another client made it. If ref names a call id, Cancel ends
// the call only if the request with that id opened the attempt. If that request joined the attempt, or if another
// actor opened it, Cancel ends only the wait of that request.
func (c *Client) Cancel(ctx context.Context, ref envelope.CallRef) (envelope.CancelResponse, error) {
	a, err := c.own.Cancel(ctx, ref)
	return a, ErrorOf(err)
}

// Answer answers a question that the tool of a running call asks, see [envelope.OpenQuestion]. Only the caller that
// opened the attempt may answer. Answers after the first one have no effect.
func (c *Client) Answer(ctx context.Context, q envelope.AnswerRequest) error {
	return ErrorOf(c.own.Answer(ctx, q))
}

// Why returns a text that says what a call waits for, or why it ended as it did, and which policy allowed it.
func (c *Client) Why(ctx context.Context, ref envelope.CallRef) (string, error) {
	sentence, err := c.own.Why(ctx, ref)
	return sentence, ErrorOf(err)
}

// Trace returns the events of a call: its attempts with their requests, joins, claims, runs and outcomes. A call id in
// ref selects one attempt.
func (c *Client) Trace(ctx context.Context, ref envelope.CallRef) (envelope.TraceResponse, error) {
	a, err := c.own.Trace(ctx, ref)
	return a, ErrorOf(err)
}

// OpenCalls yields the calls of the caller that have no outcome yet, oldest first, as far as its token may see them. It
// asks for them page by page. A call that the caller has only joined is not listed. After an error it ends.
func (c *Client) OpenCalls(ctx context.Context) iter.Seq2[envelope.OpenCall, error] {
	return client.OpenCalls(ctx, c.own, "", ErrorOf)
}

// Tools returns the descriptions of the tools of which the policy could allow the caller at least one call, sorted by
// id. It promises nothing: each call is decided by itself. An operator's token gets all tools. The descriptions have no
// schemas: [Client.Tool] returns those of one tool.
func (c *Client) Tools(ctx context.Context) ([]envelope.ToolInfo, error) {
	tools, err := c.own.Tools(ctx)
	return tools, ErrorOf(err)
}

// Describe is Tools with what else dispatchers say of the bus, such as the digests of the policy in force.
func (c *Client) Describe(ctx context.Context) (envelope.DescribeResponse, error) {
	d, err := c.own.Describe(ctx, envelope.DescribeRequest{})
	return d, ErrorOf(err)
}

// DescribeTools returns the descriptions of all tools that q selects, sorted by id, with what else dispatchers say of
// the bus. Without RoleID they are those of each role of the token; with All, for an operator, those of the bus.
func (c *Client) DescribeTools(ctx context.Context, q envelope.DescribeRequest) (envelope.DescribeResponse, error) {
	d, err := c.own.Describe(ctx, q)
	return d, ErrorOf(err)
}

// DescribeTool returns the description of the tool that q names, with its schemas, if DescribeTools would list it.
func (c *Client) DescribeTool(ctx context.Context, q envelope.DescribeRequest) (envelope.ToolInfo, error) {
	info, err := c.own.ToolIn(ctx, q)
	return info, ErrorOf(err)
}

// Tool returns the description of the tool with that id, and the schemas of its functions, if Tools would list it.
func (c *Client) Tool(ctx context.Context, id string) (envelope.ToolInfo, error) {
	info, err := c.own.Tool(ctx, id)
	return info, ErrorOf(err)
}

// NarrowToken has a dispatcher issue a token with fewer rights than the client's own, for example for a sub-agent or
// one run. The new token expires no later than the client's token, and is revoked with it.
func (c *Client) NarrowToken(ctx context.Context, r envelope.NarrowRequest) (envelope.TokenResponse, error) {
	a, err := c.own.Narrow(ctx, r)
	return a, ErrorOf(err)
}

// Options returns the options of the client with the defaults filled in.
func (c *Client) Options() ClientOptions {
	o := c.own.Options
	return ClientOptions{
		Tenant: o.Tenant, Actor: o.Actor, Env: o.Env, Timezone: o.Timezone, Scopes: o.Scopes, Token: o.Token,
		StableKeys: o.StableKeys, Logger: o.Logger,
	}
}

// Bound returns the run and the lane that the client's token is bound to; "" means not bound. The client sends them as
// context.run_id and context.lane_id of each call unless [Call.Context] sets others, which dispatchers refuse with
// A-AUTH-SCOPE.
func (c *Client) Bound() (run, lane string) { return c.own.Bound() }

// Close ends the client, and the connection that [Connect] opened. Calls that still run return at their deadline with
// an [Error] whose Final is false. Further calls of Close do nothing.
func (c *Client) Close() error {
	err := c.own.Close()
	if c.link != nil {
		c.link.Close()
	}
	return err
}

// StableKey returns the idempotency key that a client with [ClientOptions.StableKeys] gives to a call: a hash of its
// Tool, Function, Version and Input. The order of members and white space in Input make no difference. Function must be
// set. docs/wire.md specifies the key for programs in other languages. A stable key is for a caller that must find a
// call again after a crash and stores nothing. Calls with one key replay a success for 24 h (limits.retention_s of the
// tool): if a caller writes A, then B, then A again with stable keys, the third call writes nothing, and B stays.
func StableKey(call Call) (string, error) {
	if call.Function == "" {
		return "", errors.New("a stable key depends on the function: set Call.Function")
	}
	return client.StableKey(client.Call(call))
}
