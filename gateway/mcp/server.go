package mcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// Options say what a door shows, and how much it takes. The zero value is good.
type Options struct {
	Version  string       // of the program, which clients are told; default "devel"
	PageSize int          // tools on a page of a list; default 100
	Logger   *slog.Logger // nil discards
	// NewClient makes clients of callers that come over HTTP with tokens of their own. Without it nobody is asked for
	// one, and all call as the client that the door was made with.
	NewClient   func(toolbus.ClientOptions) (*toolbus.Client, error)
	MaxBody     int64 // bytes of a request; default 4 MiB
	MaxRequests int   // over HTTP at once, streams included, and calls on their way; default 4,096
	MaxSessions int   // of clients that have such; default 1,000
	// MaxConnections is the number of connections over HTTP at once, idle ones included; default 8,192. See
	// [Server.Bound].
	MaxConnections int
	// URL is the URL of the gateway as clients know it, behind a proxy for example, which the protected resource
	// metadata and answers with the status 401 name; nil is the path of [Server.Handler] at the host that the request
	// names.
	URL *url.URL
	// AuthorizationServers are the issuers of tokens of the bus that the protected resource metadata names; default
	// none.
	AuthorizationServers []string
	// SearchAbove is the number of tools above which there is one more, [SearchTool]; default 50, and none where it is
	// negative.
	SearchAbove int
	// TaskAfter is how long a call may take before it is answered with a task, to clients that know tasks; default 5 s,
	// and never where it is negative.
	TaskAfter time.Duration
	// Every is how often the door looks whether the tools have changed, to tell its clients; default 5 s.
	Every time.Duration
}

// The defaults.
const (
	DefaultPage        = 100
	DefaultBody        = 4 << 20
	DefaultRequests    = 4096
	DefaultSessions    = 1000
	DefaultConnections = 8192
	DefaultSearchAbove = 50
	DefaultTaskAfter   = 5 * time.Second
	defaultEvery       = 5 * time.Second
)

// filled returns o with the defaults.
func (o Options) filled() Options {
	o.Version, o.Logger = cmp.Or(o.Version, "devel"), cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.PageSize, o.MaxBody = cmp.Or(o.PageSize, DefaultPage), cmp.Or(o.MaxBody, DefaultBody)
	o.MaxRequests, o.MaxSessions = cmp.Or(o.MaxRequests, DefaultRequests), cmp.Or(o.MaxSessions, DefaultSessions)
	o.MaxConnections = cmp.Or(o.MaxConnections, DefaultConnections)
	o.SearchAbove, o.TaskAfter = cmp.Or(o.SearchAbove, DefaultSearchAbove), cmp.Or(o.TaskAfter, DefaultTaskAfter)
	o.Every = cmp.Or(o.Every, defaultEvery)
	return o
}

// Server lets MCP clients call the tools of a bus. Its methods are safe for concurrent use.
type Server struct {
	o         Options
	own       *toolbus.Client
	server    *sdk.Server
	catalogue catalogue
	searching *jsonschema.Schema // of the arguments of SearchTool
	instance  string             // of this door, in the names of its sessions
	open      context.Context
	end       context.CancelFunc
	callers   callers
	sessions  sessions
	requests  chan struct{} // one for each over HTTP
	answers   chan struct{} // one for each of these that is more than listening
	drains    sync.Mutex
	drained   int           // of answers that there are none of any more
	calls     chan struct{} // one for each on its way
}

// New returns a door that looks at tools as client, which stays the caller's, and is whoever calls over
// [Server.Serve]. It is open until ctx ends; close it when it is not used any more.
func New(ctx context.Context, client *toolbus.Client, o Options) *Server {
	o = o.filled()
	d := &Server{o: o, own: client, instance: rand.Text()[:13], searching: searchArguments(), callers: callers{
		tenant: client.Options().Tenant, client: o.NewClient, requests: quota{most: o.MaxRequests},
		calls:  quota{most: o.MaxRequests},
		places: quota{most: maxCallers},
	}}
	d.open, d.end = context.WithCancel(ctx)
	for _, bound := range []*chan struct{}{&d.requests, &d.answers, &d.calls} {
		*bound = make(chan struct{}, o.MaxRequests)
	}
	has := &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{ListChanged: true}}
	if o.TaskAfter > 0 {
		has.AddExtension(tasks, nil)
	}
	d.server = sdk.NewServer(
		&sdk.Implementation{Name: "toolbus", Title: "Toolbus", Version: o.Version},
		&sdk.ServerOptions{
			Logger: o.Logger, Capabilities: has,
			GetSessionID: func() string { return d.instance + "-" + rand.Text() },
			SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { d.cacheable(c) },
		},
	)
	d.catalogue.changed = d.mirror
	d.server.AddReceivingMiddleware(d.receive)
	if o.TaskAfter > 0 {
		d.serveTasks()
	}
	return d
}

// cacheable says how long what was listed may be used: until the door has looked again.
func (d *Server) cacheable(c *sdk.Cacheable) {
	c.TTLMs, c.CacheScope = int(d.o.Every.Milliseconds()), "private"
}

// sender is whoever sent a request.
type sender struct {
	client    *toolbus.Client
	header    http.Header // of the request, over HTTP
	asking    asking
	web       bool // the request came over HTTP
	stateless bool // and is of no session
	protocol  string
	caller    *caller         // nil where nobody is asked for a token
	over      context.Context // of its connection; nil over HTTP
}

// receive answers what is about tools; everything else the library does.
func (d *Server) receive(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if extra := req.GetExtra(); extra != nil {
			defer d.runs(extra.Header)()
		}
		switch r := req.(type) {
		case *sdk.ListToolsRequest:
			by, err := d.senderOf(req, r.ProtocolVersion())
			if err != nil {
				return nil, err
			}
			return d.list(ctx, by, r)
		case *sdk.CallToolRequest:
			by, err := d.senderOf(req, r.ProtocolVersion())
			if err != nil {
				return nil, err
			}
			return d.callTool(ctx, by, r)
		case *taskRequest:
			by, err := d.senderOf(req, r.ProtocolVersion())
			if err != nil {
				return nil, err
			}
			return d.aboutTask(ctx, by, method, r)
		}
		if !served(method) {
			return nil, &jsonrpc.Error{
				Code:    jsonrpc.CodeMethodNotFound,
				Message: "there are tools here, and no " + method,
			}
		}
		res, err := next(ctx, method, req)
		if err == nil {
			d.greet(ctx, req, res)
		}
		return res, err
	}
}

// served reports whether the library answers a method: it would answer all those of MCP, and say that there is nothing.
func served(method string) bool {
	switch method {
	case "initialize", "ping", "server/discover", "subscriptions/listen":
		return true
	}
	return strings.HasPrefix(method, "notifications/")
}

// senderOf returns whoever sent a request.
func (d *Server) senderOf(req sdk.Request, protocol string) (*sender, error) {
	by := &sender{client: d.own, protocol: protocol}
	extra := req.GetExtra()
	if extra == nil {
		return by, nil
	}
	h := extra.Header
	by.header, by.asking = h, asking{session: h.Get(headerSession), id: h.Get(headerID)}
	by.web = h.Get(headerWeb) != ""
	by.stateless = by.web && by.asking.session == ""
	if !by.web && extra.TokenInfo != nil {
		by.over, _ = extra.TokenInfo.Extra[overKey].(context.Context)
	}
	if !by.web || d.callers.client == nil {
		return by, nil
	}
	if extra.TokenInfo != nil {
		by.caller, _ = extra.TokenInfo.Extra[callerKey].(*caller)
	}
	if by.caller == nil { // no request comes here without
		return nil, &jsonrpc.Error{Code: codeDenied, Message: noToken}
	}
	by.client = by.caller.client
	return by, nil
}

// searches reports whether there are so many tools that one finds others.
func (d *Server) searches(v *view) bool {
	return d.o.SearchAbove >= 0 && len(v.sorted) > d.o.SearchAbove
}

// listing is the answer to tools/list. Its tools are as their servers list them, with members that the library may
// not know.
type listing struct {
	sdk.ResultBase
	sdk.Cacheable
	ResultType string           `json:"resultType,omitempty"`
	Tools      []jsontext.Value `json:"tools"`
	NextCursor string           `json:"nextCursor,omitempty"`
}

// list answers tools/list: the tool that finds others first, and then all others by their names.
func (d *Server) list(ctx context.Context, by *sender, req *sdk.ListToolsRequest) (sdk.Result, error) {
	v, err := d.catalogue.of(ctx, by.client)
	if err != nil {
		return nil, unlisted(err)
	}
	cursor := ""
	if req.Params != nil {
		cursor = req.Params.Cursor
	}
	page, next, err := v.page(cursor, d.o.PageSize)
	if err != nil {
		return nil, err
	}
	res := &listing{Tools: make([]jsontext.Value, 0, len(page)+1), NextCursor: next}
	if by.protocol >= modern {
		res.ResultType = resultComplete
	}
	if cursor == "" && d.searches(v) {
		res.Tools = append(res.Tools, jsontext.Value(encoded(searchTool())))
	}
	for _, of := range page {
		res.Tools = append(res.Tools, of.shownTo(by.protocol))
	}
	d.cacheable(&res.Cacheable)
	return res, nil
}

// greet adds the instructions of the servers that tools come from to the answer with which a client begins. Clients
// that the bus does not answer for in time have none.
func (d *Server) greet(ctx context.Context, req sdk.Request, res sdk.Result) {
	var into *string
	switch r := res.(type) {
	case *sdk.InitializeResult:
		into = &r.Instructions
	case *sdk.DiscoverResult:
		into = &r.Instructions
	default:
		return
	}
	by, err := d.senderOf(req, "")
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, greetTime)
	defer cancel()
	if v, err := d.catalogue.of(ctx, by.client); err == nil {
		*into = v.instructions()
	}
}

// greetTime bounds how long the answer to initialize waits for the list of tools.
const greetTime = 2 * time.Second

// errClosed ends the waiting for a call when the door closes: the call goes on.
var errClosed = errors.New("the door is closed")

// closeTime is how long clients are waited for to take the answer that the door closes.
const closeTime = time.Second

// Close ends what the door holds for its clients, and tells those that wait for calls. The calls go on; whoever may ask
// for one again finds it behind any door.
func (d *Server) Close() {
	d.end()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	d.Drain(ctx)
	for s := range d.server.Sessions() {
		_ = s.Close() // nobody reads any more
	}
	d.callers.close()
}

// Drain waits until what was asked over HTTP is answered, or ctx ends. From then on there are no answers any more.
func (d *Server) Drain(ctx context.Context) {
	d.drains.Lock()
	defer d.drains.Unlock()
	for ; d.drained < cap(d.answers); d.drained++ {
		select {
		case d.answers <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
}

// Watch tells clients when the tools have changed since it was called, or since they were listed before. It does so
// until ctx ends.
func (d *Server) Watch(ctx context.Context) {
	tick := time.NewTicker(d.o.Every)
	defer tick.Stop()
	for last := d.catalogue.latest(); ; {
		looking, cancel := context.WithTimeout(ctx, d.o.Every)
		v, err := d.catalogue.of(looking, d.own)
		cancel()
		if err == nil {
			if last != nil && v.sum != last.sum {
				d.changed()
			}
			last = v
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// changed makes the library tell all clients: it does so when a tool is added to its own list, which nobody is shown.
func (d *Server) changed() {
	d.server.AddTool(&sdk.Tool{Name: "changed", InputSchema: map[string]any{"type": "object"}}, nil)
}
