package toolbus

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/client"
)

// DefaultTenant and DefaultActor are used when a client names no tenant or actor.
const (
	DefaultTenant = client.DefaultTenant
	DefaultActor  = client.DefaultActor
)

// ClientOptions say who calls. The zero value is a development client.
type ClientOptions struct {
	Tenant   string // default "default"; at most 100 characters as a token, see docs/limits.md
	Actor    string // default "agent://local"; the same
	Env      string // prod, staging or dev; default "dev"
	Timezone string // default "UTC"
	Scopes   []string
	// Token returns the token of the actor, as it is now; nil is that of the connection, if it has one.
	Token func() string
	// StableKeys gives each call without a Key the key that [StableKey] computes, in the place of a fresh one. It is for
	// a caller that must find a call again after a crash and stores nothing. Equal calls are then one call: the second
	// one replays the success of the first one for 24 h (limits.retention_s of the tool), whatever has changed since. So
	// do not set it for tools that read what may change, or write what others may overwrite.
	StableKeys bool
	Logger     *slog.Logger // one INFO line per call; nil discards
}

// Client calls tools. It keeps the duties of the agent: it gives keys to calls, retries only what may be retried, and
// checks outputs. It refuses only requests that it cannot send; dispatchers check all others, and record what they
// refuse. Its methods are safe for concurrent use.
type Client struct{ own *client.Client }

// Call is what to call. Tool is required; the other zero values are defaults.
type Call struct {
	Tool     string
	Version  string // semver range; default "*"
	Function string // may be left out where the tool has one function
	Input    jsontext.Value
	// Timeout is at least 1 ms; default: the tool's own, and 5 s while nobody says what that is; never longer than ctx
	// has.
	Timeout time.Duration
	// Key is the idempotency key, 16 to 256 characters. Calls with one key and the same input are one call: the second
	// one joins the first one while that runs, and replays its success for 24 h (limits.retention_s of the tool). By
	// default each Call of a client gets a fresh random key, which its retries share; [Response.Key] and [KeyOf] say
	// which. A caller that may crash before it has the answer needs a key that it can find again: one of its own that it
	// stores before it calls, or a stable one, see [ClientOptions.StableKeys].
	Key      string
	KeyScope envelope.KeyScope
	Priority envelope.Priority
	DryRun   bool
	// Retry says how often, and when, the library makes the call again after a retryable error; default 3 attempts, 200 ms
	// to 2 s, full jitter. A call of a tool that is neither pure nor idempotent is made again only if the answer proves
	// that no executor started it (Provenance.NotStarted), whatever Retry says. See also CallID.
	Retry      *RetryPolicy
	Provenance jsontext.Value // an object
	// CallID names this request; default: a fresh one. A request with the same id and the same Key gets the same
	// outcome, so the library makes a call with a CallID once, whatever Retry says. To try again, call with the same Key
	// and another CallID.
	CallID string
	// Context has the trace, session, role, run and lane of the call, and more. Empty members are filled in: ActorID,
	// Scopes, Env and Timezone from the client, TraceID with a fresh UUID, RunID and LaneID from the client's token if
	// that is bound to a run or a lane ([Client.Bound]). RoleID is recorded as it is; tokens name no role of an agent.
	Context RequestContext
	// OnAccepted, if not nil, is called when the call has become durable, but not where the outcome comes before the
	// acceptance, as a stored one does. Call returns after this function does, and OnChunk: one that blocks keeps the
	// answer from being in time.
	OnAccepted func(Accepted)
	// OnChunk, if not nil, makes the call prefer streaming and gets its chunks in order, without
	// gap or duplicate. A chunk with another fence is of another run of the call, whose chunks
	// begin anew with index 0: what came before is void. A success without all of its chunks is an
	// error, unless it is a stored one (replayed): then a warning says that they have expired. An
	// error of this function ends the chunks, not the call; Call returns it when that has ended.
	OnChunk func(Chunk) error
}

// Call makes a call and returns the response of its success, at the latest 100 ms after the deadline; a deadline of ctx
// is the call's, if it is the earlier one. Every other end is an error and no response:
//
//   - an [Error] for the three other outcomes, for what the bus refused, and where the bus gives no answer at all. If
//     [Error.Final] is false, the call may still run: the same call with [Error.Key] asks again.
//   - the error of ctx if the caller cancelled it, and the error of OnChunk: the call may still run; the same call
//     with the key that [KeyOf] returns finds it.
//   - any other error if the request could not be sent, such as [ErrClosed].
//
// When the server does not accept the credentials of the [Conn] any more, the code is A-AUTH-REVOKED or A-AUTH-EXPIRED,
// at once. A function of the call that panics makes Call panic with the same value and where it did.
func (c *Client) Call(ctx context.Context, call Call) (*Response, error) {
	return succeeded(c.own.Call(ctx, client.Call(call)))
}

// StreamItem is an element of a streamed call: a chunk, or at the end the response of the success.
type StreamItem struct {
	Chunk    *Chunk
	Response *Response
}

// Stream makes a call and yields its chunks as they come, then the response of its success or the error that
// [Client.Call] returns. Ending the loop early leaves the call running; cancel it if it is not wanted any more.
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

// Result returns the response of the success of a call. A call without an outcome is an [Error] with Pending true. An
// output that cannot be had is what it is for [Client.Call]: an error with Final false.
func (c *Client) Result(ctx context.Context, ref CallRef) (*Response, error) {
	a, err := c.own.Result(ctx, ref)
	if err != nil || a.Response != nil {
		return succeeded(a.Response, err)
	}
	e := envelope.NewError(envelope.CodeTimeout, "the call has no outcome yet").WithEffect(envelope.EffectUnknown)
	return nil, &Error{reason: e.WithFix("ask again later, or cancel the call"), pending: true}
}

// Cancel ends a call. Only the owner's cancel decides; a joiner's detaches the joiner.
func (c *Client) Cancel(ctx context.Context, ref CallRef) (CancelResponse, error) {
	a, err := c.own.Cancel(ctx, ref)
	return a, ofBus(err)
}

// Why says in one sentence what a call waits for, or why it ended as it did.
func (c *Client) Why(ctx context.Context, ref CallRef) (string, error) {
	sentence, err := c.own.Why(ctx, ref)
	return sentence, ofBus(err)
}

// Tools returns the descriptions of all tools that dispatchers have, sorted by id.
func (c *Client) Tools(ctx context.Context) ([]ToolInfo, error) {
	tools, err := c.own.Tools(ctx)
	return tools, ofBus(err)
}

// Tool returns the description of a tool.
func (c *Client) Tool(ctx context.Context, id string) (ToolInfo, error) {
	info, err := c.own.Tool(ctx, id)
	return info, ofBus(err)
}

// NarrowToken asks for a token with less rights than the client's own, for a part of what it does: a sub-agent, a run.
// It ends with the client's token at the latest, and is revoked with it.
func (c *Client) NarrowToken(ctx context.Context, r NarrowRequest) (TokenResponse, error) {
	a, err := c.own.Narrow(ctx, r)
	return a, ofBus(err)
}

// Options returns the options of the client with the defaults filled in.
func (c *Client) Options() ClientOptions {
	o := c.own.Options
	return ClientOptions{
		Tenant: o.Tenant, Actor: o.Actor, Env: o.Env, Timezone: o.Timezone, Scopes: o.Scopes, Token: o.Token,
		StableKeys: o.StableKeys, Logger: o.Logger,
	}
}

// Bound returns the run and the lane that the client's token is bound to; "" is any. Calls of the client get them as
// context.run_id and context.lane_id unless [Call.Context] sets others, which dispatchers refuse with A-AUTH-SCOPE.
func (c *Client) Bound() (run, lane string) { return c.own.Bound() }

// Close ends the client; calls in flight get a local answer at their deadline, and what watches these ends with the
// last one. Closing it again does nothing.
func (c *Client) Close() error { return c.own.Close() }

// StableKey returns the idempotency key that a client with [ClientOptions.StableKeys] gives to a call: a hash of its
// Tool, Function, Version and Input. The order of members and white space in Input make no difference. Function must be
// set. Programs in other languages compute the same key, see docs/wire.md. It is for a caller that must find a call
// again after a crash and stores nothing. Calls with one key replay a success for 24 h (limits.retention_s of the
// tool): a caller that writes A, B and then A again with stable keys leaves B.
func StableKey(call Call) (string, error) {
	if call.Function == "" {
		return "", errors.New("a stable key depends on the function: set Call.Function")
	}
	return client.StableKey(client.Call(call))
}
