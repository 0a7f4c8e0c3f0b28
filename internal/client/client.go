package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/client/catalogue"
	"github.com/seed-018f16cc/toolbus/internal/client/exchange"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// DefaultTenant and DefaultActor are used when the options name no tenant or actor.
const (
	DefaultTenant = "default"
	DefaultActor  = "agent://local"
)

// Options configure a client. toolbus.ClientOptions describes the fields of the same names.
type Options struct {
	Tenant     string
	Actor      string
	Env        string
	Timezone   string
	Scopes     []string
	Token      func() string // the token of the actor, as it is now; nil for a bus that asks for none
	StableKeys bool
	// Payloads fetches and stores what is too large to travel inline; without it such calls
	// are refused.
	Payloads *streaming.Payloads
	Now      func() time.Time // local clock; default time.Now
	Logger   *slog.Logger     // one INFO line per call; nil discards
	Hooks
}

// Hooks report the state of a connection whose token is renewed. The zero value is a connection that the server always
// accepts, with a token that nothing renews.
type Hooks struct {
	// IsPermissionDenied returns the reason why the server does not accept the connection any more; nil while it does.
	IsPermissionDenied func() error
	// OnRefused calls do each time that IsPermissionDenied begins to return an error, until forget is called.
	OnRefused func(do func()) (forget func())
	Crowded   func() error // returns [bus.ErrCrowded] while the server has no room for the connection
	Renews    func() bool  // the token is renewed if it has expired
}

// withDefaults returns the hooks without nil functions, but for Renews.
func (h Hooks) withDefaults() Hooks {
	if h.IsPermissionDenied == nil {
		h.IsPermissionDenied = func() error { return nil }
	}
	if h.OnRefused == nil {
		h.OnRefused = func(func()) (forget func()) { return func() {} }
	}
	if h.Crowded == nil {
		h.Crowded = func() error { return nil }
	}
	return h
}

// Client calls tools. It keeps the duties of the agent: it gives keys to calls, retries only what may be retried, and
// checks outputs. It refuses only requests that it cannot send; dispatchers check all others, and record what they
// refuse. Its methods are safe for concurrent use.
type Client struct {
	Options
	*catalogue.Catalogue
	permissions auth.CallPermissions
	binding     binding
	bound       bool // the token is bound: the server lets it hear no live chunks

	inbox   *rpc.Inbox
	crew    *flow.WorkerPool[func()]
	calls   *exchange.Calls
	sender  exchange.Sender
	forget  func() // ends the call of Release when the server refuses the connection
	watches sync.WaitGroup
	closing sync.Once
}

// New returns a client that uses nc, and does not close it. Close the client when done. A connection of
// [bus.DialCaller] writes many messages with one system call under load. A connection that the program makes with
// nats.go does not.
func New(nc *nats.Conn, o Options) (*Client, error) {
	o.Tenant, o.Actor = cmp.Or(o.Tenant, DefaultTenant), cmp.Or(o.Actor, DefaultActor)
	o.Env, o.Timezone = cmp.Or(o.Env, "dev"), cmp.Or(o.Timezone, "UTC")
	if err := errors.Join(checkName("tenant", o.Tenant), checkName("actor", o.Actor)); err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Hooks = o.Hooks.withDefaults()
	inbox, err := rpc.OpenInbox(nc, o.Tenant, o.Actor, o.Token)
	if err != nil {
		return nil, err
	}
	c := &Client{
		Options: o, Catalogue: catalogue.New(inbox, o.Now), inbox: inbox, calls: exchange.NewCalls(),
		crew: flow.NewWorkerPool(func(job func()) { job() }),
	}
	c.sender = exchange.Sender{Inbox: inbox, Calls: c.calls, Crew: c.crew, Payloads: o.Payloads, Renews: o.Renews}
	if o.Token != nil {
		claims, _ := auth.Inspect(o.Token()) // dispatchers refuse what is no token of theirs
		c.bound = claims.Bound()
	}
	c.forget = c.OnRefused(c.calls.Release)
	status := nc.StatusChanged(nats.CONNECTED)
	c.watches.Go(func() {
		defer nc.RemoveStatusListener(status)
		exchange.Watch(c.calls, status)
	})
	return c, nil
}

// checkName refuses the name of a tenant or an actor that does not fit into a subject. Dispatchers compare the names in
// a request with those in its subject.
func checkName(what, name string) error {
	if !utf8.ValidString(name) {
		return fmt.Errorf("client: the %s %q is not valid UTF-8: correct it", what, name)
	}
	if _, err := subjects.ParseToken(subjects.Token(name)); err != nil {
		return fmt.Errorf("client: the %s %.40q… is too long for a subject: use at most %d characters, each but letters, "+
			"digits and - counting three times per byte",
			what, name, maxName)
	}
	return nil
}

// maxName is the largest length of the name of a tenant or an actor as a token of a subject, in bytes.
const maxName = 100

// Close ends the client. Calls in flight get a local answer at their deadline. Close does not wait for them. A second
// Close does nothing.
func (c *Client) Close() (err error) {
	c.closing.Do(func() {
		c.forget()
		c.crew.Close()
		if c.calls.End() {
			c.watches.Wait()
		}
		err = c.inbox.Close()
	})
	return err
}

// Call is what to call. The fields are those of toolbus.Call, in the same order, and are described there.
type Call struct {
	Tool       string
	Version    string
	Function   string
	Input      jsontext.Value
	Timeout    time.Duration
	Key        string
	KeyScope   envelope.KeyScope
	Priority   envelope.Priority
	DryRun     bool
	Retry      *envelope.RetryPolicy
	Provenance jsontext.Value
	CallID     string
	Context    envelope.RequestContext
	OnAccepted func(envelope.Accepted)
	OnChunk    func(envelope.Chunk) error
}

// Call makes a call and returns its outcome, at the latest 100 ms after the deadline. An error outcome is a response,
// and no Go error. A Go error stands for a call without an outcome: the client could not send the call, ctx was
// cancelled, or OnChunk returned an error. A function of the call that panics makes Call panic with an
// [exchange.Panic].
func (c *Client) Call(ctx context.Context, call Call) (*envelope.Response, error) {
	started := time.Now()
	call, keyed := c.withKey(call)
	m := c.callWithDeadline(ctx, call, keyed, started)
	if barred := c.IsPermissionDenied(); barred != nil && m.Err != nil && m.Request != nil {
		timeout := time.Duration(m.Request.Constraints.TimeoutMS) * time.Millisecond
		r := c.silence(m.Request, started.Add(timeout)).excludedResponse(barred, false)
		r.Key = m.Request.Constraints.IdempotencyKey
		return r, nil
	}
	if m.Err != nil {
		return nil, withCallKey(m.Err, call)
	}
	c.logOutcome(ctx, m.Request, m.Response, time.Since(started))
	m.Response.Key = m.Request.Constraints.IdempotencyKey
	return m.Response, nil
}

// key returns the tool of the call as its role sees it.
func (c Call) key() catalogue.Key { return catalogue.Key{Tool: c.Tool, RoleID: c.Context.RoleID} }

// withKey returns the call with a fresh key if it has none, unless the client makes stable keys. keyed is false if the
// key is fresh.
func (c *Client) withKey(call Call) (_ Call, keyed bool) {
	if keyed = call.Key != "" || c.StableKeys; !keyed {
		call.Key = freshID()
	}
	return call, keyed
}

// logOutcome logs a call at level INFO, and a summary of its input at level DEBUG.
func (c *Client) logOutcome(ctx context.Context, req *envelope.Request, r *envelope.Response, took time.Duration) {
	if !c.Logger.Enabled(ctx, slog.LevelInfo) {
		return
	}
	if c.Logger.Enabled(ctx, slog.LevelDebug) {
		c.Logger.DebugContext(ctx, "tool call input", "tool_id", req.ToolID, "fn", req.Fn, "call_id", req.CallID,
			"input", inputSummary(req.Input))
	}
	var code envelope.Code
	if r.Error != nil {
		code = r.Error.Code
	}
	c.Logger.InfoContext(ctx, "tool call", "tool_id", req.ToolID, "fn", req.Fn, "call_id", req.CallID, "status", r.Status,
		"duration_ms", took.Milliseconds(), "error.code", code)
}

// key names the log of the call that a request is for.
func (c *Client) key(req *envelope.Request) subjects.Key {
	return subjects.Key{Tool: req.ToolID, ID: envelope.CallKeyID(c.Tenant, req)}
}
