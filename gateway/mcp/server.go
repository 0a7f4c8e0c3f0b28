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
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// Options configures a [Server]. The zero value uses all defaults.
type Options struct {
	Version  string       // version of the program, for clients; default "devel"
	PageSize int          // largest number of tools in one answer to tools/list; default 100
	Logger   *slog.Logger // nil discards
	// NewClient makes the client of an HTTP caller that sends its own token. If it is nil, HTTP callers need no token, and
	// all calls use the client that [New] got.
	NewClient   func(toolbus.ClientOptions) (*toolbus.Client, error)
	MaxBody     int64 // largest request in bytes; default 4 MiB
	MaxRequests int   // largest number of HTTP requests at once, including streams, and of running calls; default 4,096
	MaxSessions int   // largest number of sessions of clients that use sessions; default 1,000
	// MaxConnections is the largest number of HTTP connections, including idle ones; default 8,192. [Server.Bound]
	// enforces it.
	MaxConnections int
	// URL is the URL of the endpoint that clients use, for example that of a proxy. The protected resource metadata and
	// answers with status 401 contain it. nil means the path of [Server.Handler] at the host of the request.
	URL *url.URL
	// AuthorizationServers are the URLs of the token issuers that the protected resource metadata lists; default none.
	AuthorizationServers []string
	Search               Search
	// TaskAfter is the time after which a running call is answered with a task, if the client supports tasks; default 5 s.
	// A negative time means never.
	TaskAfter time.Duration
	// HTTPHold is the time for which an answer over HTTP is held back. One that is ready by then is application/json, and
	// a later one an event of a stream. Default 10 s.
	HTTPHold time.Duration
	// HTTPComment is the interval of comments in event streams, which keep connections open. Default 15 s.
	HTTPComment time.Duration
	// Connect makes the client of a gateway that was made without one. [Server.Watch] calls it once. It waits for the bus
	// until ctx ends. Until it returns, and if it fails, the list of tools is empty.
	Connect func(ctx context.Context) (*toolbus.Client, error)
	// Connected reports whether the connection to the bus is up. A call that begins while it is down waits 5 s for it, and
	// ends unsent. If Connected is nil, such a call waits until its deadline.
	Connected func() bool
	// Role, Lane and Scope are those of calls whose requests do not name them.
	Role, Lane string
	Scope      map[string]string
	// Every is the interval at which the gateway checks whether the tools have changed; default 5 s. While there are
	// clients, it notices another policy within 700 ms.
	Every time.Duration
}

// Search says how clients search for tools.
type Search struct {
	// Above is the number of tools above which the list has [envelope.MCPSearchTool] in addition; default 50. A negative
	// number means never.
	Above int
	// Only says whether a list has only the tools in Pinned, those that the client has found in its session, and the two
	// tools of the gateway, [envelope.MCPSearchTool] and [envelope.MCPCallTool]. If it is nil, lists of 100 tools or more
	// are such lists, unless the client is known to search for tools itself, or Above is negative.
	Only   *bool
	Pinned []string // names or ids of tools
}

// Defaults of [Options].
const (
	DefaultPage        = 100
	DefaultBody        = 4 << 20
	DefaultRequests    = 4096
	DefaultSessions    = 1000
	DefaultConnections = 8192
	DefaultSearchAbove = 50
	defaultSearchOnly  = 100 // tools
	DefaultTaskAfter   = 5 * time.Second
	defaultHTTPHold    = 10 * time.Second
	defaultHTTPComment = 15 * time.Second
	defaultEvery       = 5 * time.Second
)

// filled returns o with the defaults filled in.
func (o Options) filled() Options {
	o.Version, o.Logger = cmp.Or(o.Version, "devel"), cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.PageSize, o.MaxBody = cmp.Or(o.PageSize, DefaultPage), cmp.Or(o.MaxBody, DefaultBody)
	o.MaxRequests, o.MaxSessions = cmp.Or(o.MaxRequests, DefaultRequests), cmp.Or(o.MaxSessions, DefaultSessions)
	o.MaxConnections = cmp.Or(o.MaxConnections, DefaultConnections)
	o.Search.Above, o.TaskAfter = cmp.Or(o.Search.Above, DefaultSearchAbove), cmp.Or(o.TaskAfter, DefaultTaskAfter)
	o.HTTPHold, o.HTTPComment = cmp.Or(o.HTTPHold, defaultHTTPHold), cmp.Or(o.HTTPComment, defaultHTTPComment)
	o.Every = cmp.Or(o.Every, defaultEvery)
	return o
}

// Server is an MCP gateway: MCP clients list and call the tools of a bus with it. Make one with [New]. Its methods are
// safe for concurrent use.
type Server struct {
	o   Options
	own atomic.Pointer[viewer] // with a nil client until Connect returns
	listedState
	server    *sdk.Server
	catalogue catalogue
	searching *jsonschema.Schema // of the arguments of nameSearch
	short     shortLists
	listens   *subscriptions
	instance  string // of this gateway, in the names of its sessions
	open      context.Context
	end       context.CancelFunc
	callers   callers
	repeated  repeated
	sessions  sessions
	requests  chan struct{} // holds an element for each HTTP request
	answers   chan struct{} // holds an element for each HTTP request that gets an answer
	drains    sync.Mutex
	drained   int           // elements of answers that Drain has taken
	calls     chan struct{} // holds an element for each running call
}

// listedState holds the lists that clients and Watch have got last.
type listedState struct {
	bare   atomic.Bool          // a list was empty because there was no bus
	newest atomic.Pointer[view] // the list of Watch; before it, the first that a client got; nil: none
	behind atomic.Bool          // a client has listed by another policy than that of newest
}

// New returns a gateway that lists tools with client, and makes the calls of [Server.Serve] with it. It does not close
// client. If client is nil, Options.Connect makes it, which is for [Server.Serve] only. When ctx ends, waits for calls
// end as with [Server.Close]. Close the gateway when done.
func New(ctx context.Context, client *toolbus.Client, o Options) *Server {
	o = o.filled()
	d := &Server{o: o, instance: rand.Text()[:13], callers: callers{
		client: o.NewClient, requests: quota{most: o.MaxRequests}, calls: quota{most: o.MaxRequests},
		places: quota{most: maxCallers},
	}}
	d.searching = argumentsOf(searchTool())
	d.own.Store(&viewer{client: client})
	if client != nil {
		d.callers.tenant = client.Options().Tenant
	}
	d.open, d.end = context.WithCancel(ctx)
	for _, bound := range []*chan struct{}{&d.requests, &d.answers, &d.calls} {
		*bound = make(chan struct{}, o.MaxRequests)
	}
	capabilities := &sdk.ServerCapabilities{
		Tools:       &sdk.ToolCapabilities{ListChanged: true},
		Resources:   &sdk.ResourceCapabilities{ListChanged: true},
		Prompts:     &sdk.PromptCapabilities{ListChanged: true}, // see greet
		Completions: &sdk.CompletionCapabilities{},
	}
	if o.TaskAfter > 0 {
		capabilities.AddExtension(tasks, nil)
	}
	d.server = sdk.NewServer(
		&sdk.Implementation{Name: "toolbus", Title: "Toolbus", Version: o.Version},
		&sdk.ServerOptions{
			Logger: o.Logger, Capabilities: capabilities,
			GetSessionID:     func() string { return d.instance + "-" + rand.Text() },
			SubscribeHandler: subscribing, UnsubscribeHandler: unsubscribing,
			SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { d.o.cacheable(c) },
		},
	)
	d.listens = newSubscriptions(d)
	d.sessions.server, d.sessions.most = d.server, o.MaxSessions
	d.repeated.server, d.repeated.log = d.server, o.Logger
	d.catalogue.changed = d.repeated.mirror
	d.short = shortLists{
		o: o, server: d.server, open: d.open, changed: d.changed, calling: argumentsOf(callTool()),
	}
	d.server.AddReceivingMiddleware(d.receive)
	d.server.AddSendingMiddleware(d.short.sending)
	d.server.AddResourceTemplate(resultTemplate(), d.readResult)
	if o.TaskAfter > 0 {
		d.serveTasks()
	}
	return d
}

// cacheable sets the time for which a client may cache a list: until the gateway checks for changes again.
func (o *Options) cacheable(c *sdk.Cacheable) {
	c.TTLMs, c.CacheScope = int(o.Every.Milliseconds()), "private"
}

// sender describes the client that sent a request.
type sender struct {
	client    *toolbus.Client
	tools     *viewer     // with the same client
	header    http.Header // of the request, over HTTP
	asking    asking
	web       bool // the request came over HTTP
	stateless bool // and belongs to no session
	protocol  string
	caller    *caller         // nil if the gateway needs no tokens
	over      context.Context // of its connection; nil over HTTP
}

// receive answers requests about tools. It passes all others to the library.
func (s *Server) receive(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if extra := req.GetExtra(); extra != nil {
			defer s.sessions.run(extra.Header)()
		}
		switch r := req.(type) {
		case *sdk.ListToolsRequest:
			peer, err := s.senderOf(req, r.ProtocolVersion())
			if err != nil {
				return nil, err
			}
			return s.list(ctx, peer, r)
		case *sdk.CallToolRequest:
			peer, err := s.senderOf(req, r.ProtocolVersion())
			if err != nil {
				return nil, err
			}
			return s.callTool(ctx, peer, r)
		case *taskRequest:
			peer, err := s.senderOf(req, r.ProtocolVersion())
			if err != nil {
				return nil, err
			}
			return s.aboutTask(ctx, peer, method, r)
		case *sdk.ListResourcesRequest, *sdk.ListResourceTemplatesRequest, *sdk.ReadResourceRequest,
			*sdk.ListPromptsRequest, *sdk.GetPromptRequest, *sdk.CompleteRequest:
			return s.ofServers(ctx, method, req, next)
		case *sdk.SubscribeRequest, *sdk.UnsubscribeRequest, *sdk.SubscriptionsListenRequest:
			return s.listens.receive(ctx, method, req, next)
		}
		if !served(method) {
			return nil, notServed(method)
		}
		res, err := next(ctx, method, req)
		if err == nil {
			s.greet(ctx, req, res)
		}
		return res, err
	}
}

// served reports whether the library may answer a method. The library would answer every method of MCP, for example
// with an empty list of prompts.
func served(method string) bool {
	switch method {
	case "initialize", "ping", "server/discover", "subscriptions/listen",
		methodResources, methodTemplates, methodRead:
		return true
	}
	return strings.HasPrefix(method, "notifications/")
}

// notServed returns the error for a method that the gateway does not serve.
func notServed(method string) error {
	return &jsonrpc.Error{
		Code:    jsonrpc.CodeMethodNotFound,
		Message: "method not supported: the gateway and its servers do not serve " + method,
	}
}

// senderOf returns the sender of a request.
func (s *Server) senderOf(req sdk.Request, protocol string) (*sender, error) {
	own := s.own.Load()
	peer := &sender{client: own.client, tools: own, protocol: protocol}
	extra := req.GetExtra()
	if extra == nil {
		return peer, nil
	}
	h := extra.Header
	peer.header, peer.asking = h, asking{session: h.Get(headerSession), id: h.Get(headerID)}
	peer.web = h.Get(headerWeb) != ""
	peer.stateless = peer.web && peer.asking.session == ""
	if !peer.web && extra.TokenInfo != nil {
		peer.over, _ = extra.TokenInfo.Extra[overKey].(context.Context)
	}
	if !peer.web || s.callers.client == nil {
		return peer, nil
	}
	if extra.TokenInfo != nil {
		peer.caller, _ = extra.TokenInfo.Extra[callerKey].(*caller)
	}
	if peer.caller == nil { // admitted lets no request pass without a caller
		return nil, &jsonrpc.Error{Code: codeDenied, Message: noToken}
	}
	peer.client, peer.tools = peer.caller.client, &peer.caller.tools
	return peer, nil
}

// listing is the answer to tools/list. Its entries are JSON, because MCP servers send members that the library may not
// know.
type listing struct {
	sdk.ResultBase
	sdk.Cacheable
	ResultType string           `json:"resultType,omitempty"`
	Tools      []jsontext.Value `json:"tools"`
	NextCursor string           `json:"nextCursor,omitempty"`
}

// list answers tools/list: nameSearch first, then all tools sorted by name, or those of a short list.
func (s *Server) list(ctx context.Context, peer *sender, req *sdk.ListToolsRequest) (sdk.Result, error) {
	if peer = s.reached(ctx, peer); peer.client == nil {
		return s.noTools(peer), nil
	}
	if !s.isConnected(peer) {
		return nil, unlisted(errAway)
	}
	v, err := s.catalogue.refresh(ctx, peer.tools)
	if err != nil && isSilent(err) && !peer.web && peer.tools.last.Load() == nil {
		return s.noTools(peer), nil
	}
	if err != nil {
		return nil, unlisted(err)
	}
	watching{s}.gave(v)
	cursor := ""
	if req.Params != nil {
		cursor = req.Params.Cursor
	}
	first, v, err := s.short.listed(v, peer, req)
	if err != nil {
		return nil, err
	}
	page, next, err := v.page(cursor, s.o.PageSize, peer.protocol)
	if err != nil {
		return nil, err
	}
	res := &listing{Tools: make([]jsontext.Value, 0, len(page)+len(first)), NextCursor: next}
	if peer.protocol >= modern {
		res.ResultType = resultComplete
	}
	if cursor == "" {
		for _, tool := range first {
			res.Tools = append(res.Tools, jsontext.Value(encoded(tool)))
		}
	}
	for _, tool := range page {
		res.Tools = append(res.Tools, tool.shownTo(peer.protocol))
	}
	s.o.cacheable(&res.Cacheable)
	return res, nil
}

// greet adds the instructions of the MCP servers of the tools to the answer to initialize, and removes the capabilities
// that none of them has. If the bus does not answer within greetTime, it does neither.
func (s *Server) greet(ctx context.Context, req sdk.Request, res sdk.Result) {
	var into *string
	var has *sdk.ServerCapabilities // a copy that the library has made for this answer
	switch r := res.(type) {
	case *sdk.InitializeResult:
		into, has = &r.Instructions, r.Capabilities
	case *sdk.DiscoverResult:
		into, has = &r.Instructions, r.Capabilities
	default:
		return
	}
	peer, err := s.senderOf(req, "")
	if err != nil {
		return
	}
	if peer.client == nil {
		*into = notReached
		return
	}
	ctx, cancel := context.WithTimeout(ctx, greetTime)
	defer cancel()
	if v, err := s.catalogue.refresh(ctx, peer.tools); err == nil {
		*into = v.instructions()
		v.narrow(has)
	} else if isSilent(err) && peer.tools.last.Load() == nil {
		*into = notReached
	}
}

// greetTime is the longest time that the answer to initialize waits for the list of tools.
const greetTime = 2 * time.Second

// errClosed ends the wait for a call when the gateway closes. The call goes on.
var errClosed = errors.New("the gateway is closed")

// closeTime is the longest time that Close waits for clients to read the last answers.
const closeTime = time.Second

// Close ends the sessions of all clients, and answers the waiting calls with an error. The calls go on: a client that
// repeats its request with the same key gets their outcome, also from another gateway.
func (s *Server) Close() {
	s.end()
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	s.Drain(ctx)
	for session := range s.server.Sessions() {
		_ = session.Close() // an error means that the client has gone
	}
	s.listens.close()
	s.callers.close()
}

// Drain waits until all HTTP requests are answered, or ctx ends. After it returns, the gateway answers no further
// requests.
func (s *Server) Drain(ctx context.Context) {
	s.drains.Lock()
	defer s.drains.Unlock()
	for ; s.drained < cap(s.answers); s.drained++ {
		select {
		case s.answers <- struct{}{}:
		case <-ctx.Done():
			return
		}
	}
}
