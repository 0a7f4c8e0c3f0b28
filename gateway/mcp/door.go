package mcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
)

// Options say what a door shows, and how much it takes. The zero value is good.
type Options struct {
	Version  string       // of the program, which clients are told; default "devel"
	PageSize int          // tools on a page of a list; default 100
	Logger   *slog.Logger // nil discards
	// Every is how often the door looks whether the tools have changed, to tell its clients; default 5 s.
	Every time.Duration
}

// Door lets MCP clients call the tools of a bus. Its methods are safe for concurrent use.
type Door struct {
	o         Options
	own       *toolbus.Client
	server    *sdk.Server
	catalogue catalogue
	instance  string // of this door, in the names of its sessions
}

// New returns a door that looks at tools as client, which stays the caller's, and is whoever calls over
// [Door.Serve].
func New(client *toolbus.Client, o Options) *Door {
	o.Version, o.PageSize, o.Every = cmp.Or(o.Version, "devel"), cmp.Or(o.PageSize, 100), cmp.Or(o.Every, 5*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	d := &Door{o: o, own: client, instance: rand.Text()[:13]}
	d.server = sdk.NewServer(
		&sdk.Implementation{Name: "toolbus", Title: "Toolbus", Version: o.Version},
		&sdk.ServerOptions{
			Instructions: instructions, Logger: o.Logger,
			Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{ListChanged: true}},
			GetSessionID: func() string { return d.instance + "-" + rand.Text() },
			SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { d.cacheable(c) },
		},
	)
	d.server.AddReceivingMiddleware(d.receive)
	return d
}

// instructions are for models.
const instructions = "Every call has one outcome. Where a call fails, its text says whether anything was done, and " +
	"whether to try again: go by it, above all where that is not known."

// cacheable says how long what was listed may be used: until the door has looked again.
func (d *Door) cacheable(c *sdk.Cacheable) {
	c.TTLMs, c.CacheScope = int(d.o.Every.Milliseconds()), "private"
}

// caller is whoever sent a request.
type caller struct {
	client    *toolbus.Client
	header    http.Header // of the request, over HTTP
	asking    asking
	stateless bool // the request came over HTTP, and is of no session
	protocol  string
}

// receive answers what is about tools; everything else the library does.
func (d *Door) receive(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		switch r := req.(type) {
		case *sdk.ListToolsRequest:
			by, err := d.caller(req, r.ProtocolVersion())
			if err != nil {
				return nil, err
			}
			return d.list(ctx, by, r)
		case *sdk.CallToolRequest:
			by, err := d.caller(req, r.ProtocolVersion())
			if err != nil {
				return nil, err
			}
			return d.callTool(ctx, by, r)
		}
		return next(ctx, method, req)
	}
}

// caller returns whoever sent a request.
func (d *Door) caller(req sdk.Request, protocol string) (*caller, error) {
	by := &caller{client: d.own, protocol: protocol}
	if extra := req.GetExtra(); extra != nil {
		by.header = extra.Header
		by.asking = asking{session: extra.Header.Get(headerSession), id: extra.Header.Get(headerID)}
	}
	return by, nil
}

// list answers tools/list.
func (d *Door) list(ctx context.Context, by *caller, req *sdk.ListToolsRequest) (sdk.Result, error) {
	v, err := d.catalogue.of(ctx, by.client)
	if err != nil {
		return nil, protocolError(err)
	}
	cursor := ""
	if req.Params != nil {
		cursor = req.Params.Cursor
	}
	page, next, err := v.page(cursor, d.o.PageSize)
	if err != nil {
		return nil, err
	}
	res := &sdk.ListToolsResult{Tools: make([]*sdk.Tool, len(page)), NextCursor: next}
	for i, of := range page {
		res.Tools[i] = of.shownTo(by.protocol)
	}
	d.cacheable(&res.Cacheable)
	return res, nil
}

// callTool answers tools/call.
func (d *Door) callTool(ctx context.Context, by *caller, req *sdk.CallToolRequest) (sdk.Result, error) {
	a, err := d.ask(ctx, by, req)
	if err != nil {
		return nil, err
	}
	var streamed pieces
	tell := func(envelope.Chunk) error { return nil }
	if token := req.Params.GetProgressToken(); token != nil && a.of.streaming {
		p := newProgress(func(p *sdk.ProgressNotificationParams) {
			p.ProgressToken = token
			_ = req.Session.NotifyProgress(ctx, p) // whoever has gone misses it
		})
		defer p.stop()
		tell = p.chunk
	}
	if a.of.streaming {
		a.call.Chunk = func(c envelope.Chunk) error {
			streamed.chunk(c)
			return tell(c)
		}
	}
	resp, err := a.run(ctx)
	if err != nil {
		return nil, protocolError(err)
	}
	res, err := a.of.result(resp, a.call.Key, by.protocol)
	if err == nil && !a.of.results {
		streamed.before(res)
	}
	return res, err
}

// Watch tells clients when the tools have changed, until ctx ends.
func (d *Door) Watch(ctx context.Context) {
	tick := time.NewTicker(d.o.Every)
	defer tick.Stop()
	var last [sha256.Size]byte
	for first := true; ; first = false {
		looking, cancel := context.WithTimeout(ctx, d.o.Every)
		v, err := d.catalogue.of(looking, d.own)
		cancel()
		if err == nil {
			if !first && v.sum != last {
				d.changed()
			}
			last = v.sum
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// changed makes the library tell all clients: it does so when a tool is added to its own list, which nobody is shown.
func (d *Door) changed() {
	d.server.AddTool(&sdk.Tool{Name: "changed", InputSchema: map[string]any{"type": "object"}}, nil)
}
