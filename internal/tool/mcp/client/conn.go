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

// Options say how servers are reached. Client and Supervisor are required.
type Options struct {
	Client      string // the version of this build, as servers are told it
	Supervisor  string // the program that ends processes, as supervisor.Find returns one
	Grace       time.Duration
	StderrBytes int64 // of what a process writes there, how much is kept
	Older       bool  // the server is known for one that is greeted as protocols before 2026-07-28 have it
}

// older is the last protocol that is greeted by "initialize". A server that knows no other may be silent to whatever
// comes before that, or end.
const older = "2025-11-25"

// Bounds of one message, in bytes.
const (
	minFrame = 4 << 20 // what may come without being asked for, and what a page of a list may take
)

// way is how messages get to a server and back, as the SDK uses it.
type way interface {
	mcp.Connection
	end(reason string, order supervisor.Command)
	usable() bool
	lost() *BrokenError // waits until it is
}

// Conn is a connection to one server: a process, or a session. It is safe for concurrent use.
type Conn struct {
	session *mcp.ClientSession
	older   bool
	router  *pendingRequests
	way     way
	broken  chan struct{}
	changed atomic.Bool
}

// Dial starts or reaches the server, in which all is resolved, and agrees with it on a version of the protocol. It
// takes no longer than the server's StartMS. A process that has said nothing after half of it, or ends, is started a
// second time, and greeted as older ones expect it.
func Dial(ctx context.Context, s Server, o Options) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, s.start())
	defer cancel()
	if s.URL != "" || o.Older {
		return dial(ctx, s, o)
	}
	first, stop := context.WithTimeout(ctx, s.start()/2)
	defer stop()
	c, err := dial(first, s, o)
	if _, silent := errors.AsType[*silentError](err); !silent || ctx.Err() != nil {
		return c, err
	}
	o.Older = true
	return dial(ctx, s, o)
}

// silentError means that a process was started, and has said nothing.
type silentError struct{ error }

// Unwrap implements what errors.Is looks for.
func (e *silentError) Unwrap() error { return e.error }

func dial(ctx context.Context, s Server, o Options) (*Conn, error) {
	c := &Conn{older: o.Older, broken: make(chan struct{})}
	c.router = newRouter(func() { c.changed.Store(true) })
	client := mcp.NewClient(&mcp.Implementation{Name: "toolbus", Version: o.Client}, &mcp.ClientOptions{
		Capabilities:   &mcp.ClientCapabilities{},
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		// So that servers of the newer protocol say when their tools change; the router hears it first.
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {},
	})
	t := &transport{open: func(ctx context.Context) (way, error) { return open(ctx, s, o, c.router) }}
	session, err := client.Connect(ctx, t, greeting(o))
	c.way = t.way
	if err != nil {
		return nil, c.unreachable(ctx, discreet(err))
	}
	c.session = session
	go func() {
		defer close(c.broken)
		_ = session.Wait() // how it ended, the way tells
		_ = session.Close()
	}()
	return c, nil
}

// greeting says which protocol is spoken first: nil is the newest.
func greeting(o Options) *mcp.ClientSessionOptions {
	if o.Older {
		return &mcp.ClientSessionOptions{ProtocolVersion: older}
	}
	return nil
}

func open(ctx context.Context, s Server, o Options, r *pendingRequests) (way, error) {
	if s.URL != "" {
		return reach(ctx, s, r)
	}
	return start(s, o, r)
}

// transport opens a way once, and keeps it.
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

// unreachable ends what there is of a server that could not be connected to, and says why it could not.
func (c *Conn) unreachable(ctx context.Context, err error) error {
	if c.way == nil {
		return err
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("it did not answer in time: %w", context.Cause(ctx))
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

// Broken is closed when nothing is left of the connection.
func (c *Conn) Broken() <-chan struct{} { return c.broken }

// Usable reports whether the connection is not about to end.
func (c *Conn) Usable() bool {
	select {
	case <-c.broken:
		return false
	default:
		return c.way.usable()
	}
}

// Changed reports whether the server has said, since this was last asked, that its tools have changed.
func (c *Conn) Changed() bool { return c.changed.Swap(false) }

// Instructions returns what the server tells clients about its use, "" for nothing.
func (c *Conn) Instructions() string { return c.session.InitializeResult().Instructions }

// About says what the server calls itself, and which version of the protocol is spoken.
func (c *Conn) About() (name, version, protocol string) {
	about := c.session.InitializeResult()
	if about.ServerInfo != nil {
		name, version = about.ServerInfo.Name, about.ServerInfo.Version
	}
	return name, version, about.ProtocolVersion
}

// Older reports whether the server had to be greeted as [Options.Older] says.
func (c *Conn) Older() bool { return c.older }

// Close ends the connection, and the process if there is one. It returns when nothing is left of it.
func (c *Conn) Close() {
	_ = c.way.Close()
	_ = c.session.Close()
	<-c.broken
}

// End is Close, for a reason that the calls are told which are under way.
func (c *Conn) End(reason string) {
	c.way.end(reason, supervisor.Terminate)
	c.Close()
}

// Request is one call of a tool.
type Request struct {
	Tool      string
	Arguments jsontext.Value // an object
	Meta      map[string]any
	Limit     int64                // bytes of the answer
	Progress  func(jsontext.Value) // the params of each notification; it must not block; may be nil
}

// Call calls a tool, and returns when the server has answered or ctx ends, which the server is told. Other errors are
// those of this package, and *jsonrpc.Error for what the server calls one.
func (c *Conn) Call(ctx context.Context, r Request) (Answer, error) {
	params := &mcp.CallToolParams{Meta: mcp.Meta{}, Name: r.Tool, Arguments: r.Arguments}
	maps.Copy(params.Meta, r.Meta) // the SDK adds what is of this connection
	f := &flight{limit: r.Limit, progress: r.Progress, shorten: toNothing}
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

// toNothing is what the SDK is told of the result of a tool.
func toNothing(jsontext.Value) jsontext.Value { return jsontext.Value(`{"content":[]}`) }

// fly makes one request, and returns the result as the server wrote it.
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

// failed says why there is no answer.
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
	case !f.sent.Load(): // what is said then, the SDK says
		return &NotSentError{discreet(cmp.Or(err, errors.New("no answer")))}
	case isSaid:
		return said
	case c.isBroken():
		return c.way.lost()
	}
	return &BrokenError{How: discreet(cmp.Or(err, errors.New("no answer"))).Error()}
}

// isBroken reports whether the connection is, or is about to be.
func (c *Conn) isBroken() bool {
	select {
	case <-c.broken:
		return true
	case <-time.After(politeness):
		return false
	}
}

// Ping asks the server whether it is there, and returns nil when it says anything at all. A server that is no process
// is not asked.
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
