package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
)

// Options configure connections. Client is required, and Supervisor for servers that are processes.
type Options struct {
	Client      string // version of this build that servers get
	Supervisor  string // path of the supervisor program, from supervisor.Find
	Grace       time.Duration
	StderrBytes int64 // kept bytes of a process's standard error
	Older       bool  // greet with "initialize", as protocols before 2026-07-28 do
	Started     bool  // the server was started before, see [Server.StartMS]
	// ListsChanged is called when the server announces a change of its resources or prompts. It must not block, and may
	// be nil.
	ListsChanged func()
	// Tokens returns the access tokens for a server with a URL; nil sends none.
	Tokens Tokens

	greetAgain time.Duration // see Dial
}

// older is the last protocol version that begins with "initialize". A server that supports only such versions may
// ignore any other first message, or exit.
const older = "2025-11-25"

// Limits of one message, in bytes.
const (
	minFrame = 4 << 20 // limit of an unsolicited message and of a page of a list
)

// way is the transport of one connection, as the SDK uses it.
type way interface {
	mcp.Connection
	end(reason string, order supervisor.Command)
	usable() bool
	lost() *BrokenError // waits until a process has ended
}

// Conn is a connection to one server: to a process, or an HTTP session. It is safe for concurrent use.
type Conn struct {
	session *mcp.ClientSession
	older   bool
	router  *pendingRequests
	way     way
	broken  chan struct{}
	changed atomic.Bool
}

// Dial starts or reaches the server, whose references are resolved, and negotiates a version of the protocol. It takes
// at most the server's StartMS. A process that sends no message is greeted again with "initialize", after 15 s or a
// quarter of that time. If it sends none in the first half of that time, or exits without one, Dial starts it again and
// greets it with [Options.Older].
func Dial(ctx context.Context, s Server, o Options) (*Conn, error) {
	limit := s.start(o.Started)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if s.URL != "" || o.Older {
		return dial(ctx, s, o, limit)
	}
	first, stop := context.WithTimeout(ctx, limit/2)
	defer stop()
	c, err := dial(first, s, o, limit/2)
	if _, silent := errors.AsType[*silentError](err); !silent || ctx.Err() != nil {
		return c, err
	}
	o.Older = true
	return dial(ctx, s, o, limit)
}

// greetAgain is the longest time after which a process that sends no message is greeted again.
const greetAgain = 15 * time.Second

// silentError means that a server was started or reached, and sent no message.
type silentError struct{ error }

// Unwrap returns the wrapped error.
func (e *silentError) Unwrap() error { return e.error }

// dial is Dial with one process, which has until limit.
func dial(ctx context.Context, s Server, o Options, limit time.Duration) (*Conn, error) {
	began := time.Now()
	o.greetAgain = min(greetAgain, limit/2)
	c := &Conn{older: o.Older, broken: make(chan struct{})}
	c.router = newRouter(func() { c.changed.Store(true) })
	c.router.listsChanged = o.ListsChanged
	options := &mcp.ClientOptions{
		Capabilities:   &mcp.ClientCapabilities{},
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		// With handlers, servers of the newer protocol announce changes of their lists. The router handles the announcements
		// before the SDK.
		ToolListChangedHandler:     func(context.Context, *mcp.ToolListChangedRequest) {},
		PromptListChangedHandler:   func(context.Context, *mcp.PromptListChangedRequest) {},
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) {},
	}
	if s.ElicitMS > 0 {
		options.ElicitationHandler = c.router.elicit // it adds the capability
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "toolbus", Version: o.Client}, options)
	t := &transport{open: func(ctx context.Context) (way, error) { return open(ctx, s, o, c.router) }}
	session, err := client.Connect(ctx, t, greeting(o))
	c.way = t.way
	if err != nil {
		return nil, c.unreachable(ctx, discreet(err), began)
	}
	if p, is := c.way.(*process); is {
		c.older = o.Older || p.ignored()
	}
	c.session = session
	go func() {
		defer close(c.broken)
		_ = session.Wait() // way.lost returns how it ended
		_ = session.Close()
	}()
	return c, nil
}

// greeting selects the protocol version of the first message; nil selects the newest.
func greeting(o Options) *mcp.ClientSessionOptions {
	if o.Older {
		return &mcp.ClientSessionOptions{ProtocolVersion: older}
	}
	return nil
}

func open(ctx context.Context, s Server, o Options, r *pendingRequests) (way, error) {
	if s.URL != "" {
		return reach(ctx, s, o.Tokens, r)
	}
	return start(s, o, r)
}

// transport opens a way and keeps it.
type transport struct {
	open func(context.Context) (way, error)
	way  way
}

// Connect implements mcp.Transport.
func (t *transport) Connect(ctx context.Context) (mcp.Connection, error) {
	w, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	t.way = w
	return w, nil
}

// unreachable ends a server to which the connection failed, and returns the reason.
func (c *Conn) unreachable(ctx context.Context, err error, began time.Time) error {
	if c.way == nil {
		return err
	}
	if ctx.Err() != nil {
		waited := time.Since(began).Round(time.Millisecond)
		err = fmt.Errorf("it did not answer in time, for %v: %w", waited, context.Cause(ctx))
		c.way.end("it did not answer in time", supervisor.Terminate)
	}
	_ = c.way.Close()
	how := c.way.lost()
	if p, is := c.way.(*process); is && p.itself && ctx.Err() == nil {
		err = errors.New("it ended before it had answered: " + how.How)
	}
	if how.Stderr != "" {
		err = fmt.Errorf("%w; it wrote: %s", err, how.Stderr)
	}
	if c.router.heard.Load() == 0 {
		err = &silentError{err}
	}
	return err
}

// Broken returns a channel that is closed when the connection, and the server's process if it has one, has ended.
func (c *Conn) Broken() <-chan struct{} { return c.broken }

// Usable reports whether the connection accepts requests. It returns false as soon as the connection begins to end.
func (c *Conn) Usable() bool {
	select {
	case <-c.broken:
		return false
	default:
		return c.way.usable()
	}
}

// Changed reports whether the server has announced a change of its tools since the last call of Changed.
func (c *Conn) Changed() bool { return c.changed.Swap(false) }

// Instructions returns the server's instructions for clients, or "".
func (c *Conn) Instructions() string { return c.session.InitializeResult().Instructions }

// About returns the name and version that the server reports, and the negotiated protocol version.
func (c *Conn) About() (name, version, protocol string) {
	about := c.session.InitializeResult()
	if about.ServerInfo != nil {
		name, version = about.ServerInfo.Name, about.ServerInfo.Version
	}
	return name, version, about.ProtocolVersion
}

// Older reports whether the server answers only if it is greeted as with [Options.Older].
func (c *Conn) Older() bool { return c.older }

// Close ends the connection, and the server's process if it has one. It returns when no process is left.
func (c *Conn) Close() {
	_ = c.way.Close()
	_ = c.session.Close()
	<-c.broken
}

// End is Close with a reason, which becomes the error of the running calls.
func (c *Conn) End(reason string) {
	c.way.end(reason, supervisor.Terminate)
	c.Close()
}

// Request is one call of a tool, or of another method.
type Request struct {
	Tool      string
	Method    Method         // "" calls Tool
	Arguments jsontext.Value // JSON object: the arguments of the tool, or the parameters of the method
	Meta      map[string]any
	Limit     int64                // largest answer, in bytes
	Progress  func(jsontext.Value) // called with the params of each progress notification; must not block; may be nil
	Input     Input
	// Caller and Elicit are for questions of the server in the middle of the call. Caller names who gets them, and Elicit
	// asks them: it takes the params of elicitation/create and returns the result. Elicit returns when the call has ended,
	// and may be nil.
	Caller string
	Elicit func(params jsontext.Value) (jsontext.Value, error)
}

// Call calls a tool, or another method. It returns when the server has answered or ctx ends. When ctx ends, the SDK
// sends a cancellation to the server. The error is one of this package, *jsonrpc.Error if the server returned one, or
// the cause of ctx.
func (c *Conn) Call(ctx context.Context, r Request) (Answer, error) {
	if r.Method != "" {
		return c.ask(ctx, r)
	}
	params := &mcp.CallToolParams{Meta: mcp.Meta{}, Name: r.Tool, Arguments: r.Arguments}
	maps.Copy(params.Meta, r.Meta) // the SDK adds members of this connection
	r.Input.addTo(&params.RequestState, &params.InputResponses, params.Meta, c.asksCallers())
	f := &flight{limit: r.Limit, progress: r.Progress, shorten: toNothing, caller: r.Caller, elicit: r.Elicit}
	raw, err := c.fly(ctx, f, func(ctx context.Context) error {
		if r.Progress != nil {
			params.SetProgressToken(f.token)
		}
		_, err := c.session.CallTool(ctx, params)
		return err
	})
	if err != nil {
		return Answer{}, err
	}
	return answerOf(raw, f.mended)
}

// toNothing returns an empty result, which the SDK gets in place of the result of a tool.
func toNothing(jsontext.Value) jsontext.Value { return jsontext.Value(`{"content":[]}`) }

// fly sends one request, and returns its result as the server wrote it.
func (c *Conn) fly(ctx context.Context, f *flight, send func(context.Context) error) (jsontext.Value, error) {
	inner, end := context.WithCancelCause(context.WithValue(ctx, flightKey{}, f))
	defer end(nil)
	f.end = end
	c.router.begin(f)
	defer c.router.end(f)
	err := send(inner)
	if f.answer != nil && err == nil {
		return f.answer, nil
	}
	return nil, c.failed(ctx, f, err)
}

// failed returns the error of a request without an answer.
func (c *Conn) failed(ctx context.Context, f *flight, err error) error {
	said, isSaid := errors.AsType[*jsonrpc.Error](err)
	switch {
	case ctx.Err() != nil:
		if !f.sent.Load() {
			return &NotSentError{context.Cause(ctx)}
		}
		return context.Cause(ctx)
	case f.failure.Load() != nil:
		return *f.failure.Load()
	case !f.sent.Load(): // then an error comes from the SDK, not from the server
		return &NotSentError{discreet(cmp.Or(err, errors.New("no answer")))}
	case isSaid:
		return said
	case c.isBroken():
		return c.way.lost()
	}
	return &BrokenError{How: discreet(cmp.Or(err, errors.New("no answer"))).Error()}
}

// isBroken reports whether the connection has ended, or ends within politeness.
func (c *Conn) isBroken() bool {
	select {
	case <-c.broken:
		return true
	case <-time.After(politeness):
		return false
	}
}

// Ping pings a server that is a process. It returns nil if the server sends any message. For a server with a URL it
// returns nil without a request.
func (c *Conn) Ping(ctx context.Context) error {
	if _, is := c.way.(*process); !is {
		return nil
	}
	before := c.router.heard.Load()
	if err := c.session.Ping(ctx, nil); c.router.heard.Load() == before {
		return err
	}
	return nil
}
