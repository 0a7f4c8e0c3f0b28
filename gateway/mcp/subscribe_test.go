package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/importer"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// newFeed returns an MCP server whose newest protocol is given. Its tool touch updates a resource, or ends the server.
// For the resource idle it fails while there are subscriptions.
func newFeed(protocol string) *sdk.Server {
	var subscribed atomic.Int64
	o := &sdk.ServerOptions{
		SubscribeHandler: func(_ context.Context, r *sdk.SubscribeRequest) error {
			if strings.HasSuffix(r.Params.URI, "/gone") {
				return &jsonrpc.Error{Code: -32002, Message: "Resource not found"}
			}
			subscribed.Add(1)
			return nil
		},
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error {
			subscribed.Add(-1)
			return nil
		},
	}
	if protocol < "2026-07-28" {
		o.SupportedProtocolVersions = []string{protocol}
	}
	s := sdk.NewServer(&sdk.Implementation{Name: "feed", Version: "1.0.0"}, o)
	for i := range 3 {
		s.AddResource(&sdk.Resource{URI: fmt.Sprint("feed://", i), Name: "news"}, nil)
	}
	s.AddTool(&sdk.Tool{Name: "touch", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			var in struct{ URI string }
			if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
				return nil, err
			}
			switch in.URI {
			case "":
				os.Exit(0)
			case "idle":
				return &sdk.CallToolResult{IsError: subscribed.Load() > 0}, nil
			}
			_ = s.ResourceUpdated(ctx, &sdk.ResourceUpdatedNotificationParams{URI: in.URI})
			return &sdk.CallToolResult{}, nil
		})
	return s
}

// fed returns the tools of a feed that is a process.
func fed(t *testing.T, protocol string) *toolbus.Toolset {
	t.Helper()
	dir := t.TempDir()
	r, err := importer.Import(t.Context(), "one", client.Server{Command: os.Args[0], Args: []string{"feed", protocol}},
		importer.Options{Dir: dir, Owner: "@test", Version: "test"})
	if err != nil || r.LeftOut() > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	tools := toolbus.NewToolset()
	if err := tools.AddFolder(dir); err != nil {
		t.Fatal(err)
	}
	return tools
}

// busOf starts a bus. Its executor ends the runs of cancelled calls before it stops, which would take 10 s otherwise.
func busOf(t *testing.T, tools *toolbus.Toolset) *toolbustest.Bus {
	t.Helper()
	bus := toolbustest.Start(t, tools)
	t.Cleanup(func() { settles(bus.Client) })
	return bus
}

// settles calls the feed until it has no subscriptions.
func settles(c *toolbus.Client) {
	for begun := time.Now(); time.Since(begun) < 10*time.Second; {
		_, err := c.Call(context.Background(), toolbus.Call{
			Tool: "mcp::one::touch", Input: []byte(`{"uri":"idle"}`), Timeout: 5 * time.Second,
		})
		if err == nil {
			return
		}
	}
}

// reader is a client that notes of which resources it is notified.
type reader struct {
	*sdk.ClientSession
	t     *testing.T
	heard chan string
}

func reads(t *testing.T, join func(*sdk.ClientOptions) *sdk.ClientSession) *reader {
	r := &reader{t: t, heard: make(chan string, 10_000)}
	r.ClientSession = join(&sdk.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, u *sdk.ResourceUpdatedNotificationRequest) {
			r.heard <- u.Params.URI
		},
	})
	return r
}

// subscribe subscribes to a resource of the feed.
func (r *reader) subscribe(n int) {
	r.t.Helper()
	if err := r.Subscribe(r.t.Context(), &sdk.SubscribeParams{URI: fmt.Sprint("feed://", n)}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *reader) unsubscribe(n int) {
	r.t.Helper()
	if err := r.Unsubscribe(r.t.Context(), &sdk.UnsubscribeParams{URI: fmt.Sprint("feed://", n)}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *reader) touch(uri string) {
	r.t.Helper()
	_, err := r.CallTool(r.t.Context(), &sdk.CallToolParams{Name: "one_touch", Arguments: map[string]string{"uri": uri}})
	if err != nil {
		r.t.Fatal(err)
	}
}

// hears touches resources until the client is notified of want, and fails if it hears of another one.
func (r *reader) hears(want string, touched ...string) {
	r.t.Helper()
	for begun := time.Now(); time.Since(begun) < 30*time.Second; {
		for _, uri := range touched {
			r.touch(uri)
		}
		select {
		case got := <-r.heard:
			if got != want {
				r.t.Errorf("heard of %q, want %q", got, want)
			}
			return
		case <-time.After(300 * time.Millisecond): // the subscription may not have begun
		}
	}
	r.t.Fatalf("not notified of %q", want)
}

// forgets touches a resource, and another one that the client subscribes to, until it hears only of the other one.
func (r *reader) forgets(one, other string) {
	r.t.Helper()
	for begun := time.Now(); time.Since(begun) < 30*time.Second; {
		r.touch(one)
		r.touch(other)
		again := false
		for last := time.After(500 * time.Millisecond); ; {
			select {
			case got := <-r.heard:
				again = again || got != other
				continue
			case <-last:
			}
			break
		}
		if !again {
			return
		}
	}
	r.t.Fatalf("still notified of %q", one)
}

// A client is notified of the resources that it subscribes to, and of no others, until it unsubscribes. It holds in all
// protocols of clients and servers, and over all transports; also after the server was started again.
func TestResourceUpdated(t *testing.T) {
	for _, upstream := range protocols {
		bus := busOf(t, fed(t, upstream))
		door := mcp.New(t.Context(), bus.Client, mcp.Options{})
		web := open(t, door)
		for _, protocol := range protocols {
			for name, join := range map[string]func(*sdk.ClientOptions) *sdk.ClientSession{
				"http":  func(o *sdk.ClientOptions) *sdk.ClientSession { return over(t, web, protocol, o) },
				"stdio": func(o *sdk.ClientOptions) *sdk.ClientSession { return (&fixture{}).connect(t, door, protocol, o) },
			} {
				t.Run(fmt.Sprint(upstream, " ", protocol, " ", name), func(t *testing.T) {
					c, other := reads(t, join), reads(t, join)
					if has := c.InitializeResult().Capabilities; has.Resources == nil || !has.Resources.Subscribe {
						t.Fatalf("capabilities %+v", has)
					}
					c.subscribe(1)
					c.hears("feed://1", "feed://0", "feed://2", "feed://1")
					c.subscribe(2)
					other.subscribe(1)
					other.hears("feed://1", "feed://2", "feed://1")
					c.unsubscribe(1)
					c.forgets("feed://1", "feed://2")
					other.hears("feed://1", "feed://1")
					c.touch("") // the server exits
					c.hears("feed://2", "feed://1")
					c.forgets("feed://1", "feed://2")
					c.hears("feed://2", "feed://1", "feed://2")
					for _, r := range []*reader{c, other} {
						_ = r.Close() // ends the subscriptions
					}
				})
			}
		}
	}
}

// An update of a resource below the one that was subscribed to has its own address.
func TestResourceBelowUpdated(t *testing.T) {
	bus := busOf(t, fed(t, protocols[1]))
	web := open(t, mcp.New(t.Context(), bus.Client, mcp.Options{}))
	c := reads(t, func(o *sdk.ClientOptions) *sdk.ClientSession { return over(t, web, protocols[1], o) })
	c.subscribe(1)
	c.hears("feed://1", "feed://11", "feed://1")
}

// subscribed subscribes, and asks again while a busy machine says that the tool is not available.
func subscribed(t *testing.T, c *sdk.ClientSession, uri string) (err error) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < time.Minute; {
		err = c.Subscribe(t.Context(), &sdk.SubscribeParams{URI: uri})
		wire, refused := errors.AsType[*jsonrpc.Error](err)
		if !refused || !strings.Contains(string(wire.Data), string(envelope.CodeUnavailable)) {
			break
		}
	}
	return err
}

// A resource to which the server refuses a subscription is refused as without the bus, and so is the 65th of a session.
func TestSubscriptionRefused(t *testing.T) {
	for _, upstream := range protocols {
		bus := busOf(t, fed(t, upstream))
		web := open(t, mcp.New(t.Context(), bus.Client, mcp.Options{}))
		c := over(t, web, protocols[1], nil)
		wantCode(t, subscribed(t, c, "feed://gone/gone"), notFound(protocols[1]))
		for i := range 64 {
			if err := subscribed(t, c, fmt.Sprint("feed://", i)); err != nil {
				t.Fatal(err)
			}
		}
		err := subscribed(t, c, "feed://64")
		wantCode(t, err, http.StatusServiceUnavailable)
		if wire, ok := errors.AsType[*jsonrpc.Error](err); ok && !strings.Contains(string(wire.Data), "R-CAP-001") {
			t.Errorf("%s", wire.Data)
		}
		if err := c.Unsubscribe(t.Context(), &sdk.UnsubscribeParams{URI: "feed://3"}); err != nil {
			t.Fatal(err)
		}
		if err := subscribed(t, c, "feed://64"); err != nil {
			t.Error(err)
		}
	}
}

// Without a server that has subscriptions there is neither the capability nor the method.
func TestNoSubscriptions(t *testing.T) {
	_, tools := shelved(t, newLibrary("one"))
	web := open(t, mcp.New(t.Context(), toolbustest.Start(t, tools).Client, mcp.Options{}))
	for _, protocol := range protocols {
		c := over(t, web, protocol, nil)
		if has := c.InitializeResult().Capabilities; has.Resources == nil || has.Resources.Subscribe {
			t.Errorf("%s: capabilities %+v", protocol, has.Resources)
		}
	}
	c := over(t, web, protocols[1], nil)
	err := c.Subscribe(t.Context(), &sdk.SubscribeParams{URI: "one://book/1"})
	wantCode(t, err, jsonrpc.CodeMethodNotFound)
	status, answer := post(t, web.URL, `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{`+
		`"notifications":{"resourceSubscriptions":["one://book/1"]},"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"subscriptions/listen"}})
	if status != http.StatusOK || !strings.Contains(answer, "acknowledged") || strings.Contains(answer, "book/1") {
		t.Errorf("%d %s", status, answer)
	}
}

// A subscription outlives the executor that holds it, which stops or is cut off: the next one subscribes again.
func TestSubscriptionOutlivesExecutor(t *testing.T) {
	tools := fed(t, protocols[0])
	for _, how := range []string{"stops", "is cut off"} {
		t.Run(how, func(t *testing.T) {
			b := beginParts(t)
			wire := newBusWire(t, b.url)
			dispatcher, err := b.connect(b.url).Dispatcher(tools,
				toolbus.DispatcherOptions{InsecureNoAuth: true, AllowAll: true})
			t.Cleanup(b.run(dispatcher, err))
			stop := b.executes(tools, wire.url)
			caller, err := b.connect(b.url).Client(toolbus.ClientOptions{Logger: b.log})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = caller.Close() })
			web := open(t, mcp.New(t.Context(), caller, mcp.Options{}))
			c := reads(t, func(o *sdk.ClientOptions) *sdk.ClientSession { return over(t, web, protocols[1], o) })
			c.subscribe(1)
			c.hears("feed://1", "feed://1")
			b.executes(tools, b.url)
			if how == "stops" {
				stop()
			}
			wire.cut()
			c.hears("feed://1")
			c.hears("feed://1", "feed://2", "feed://1")
			c.unsubscribe(1)
			settles(caller)
		})
	}
}

// parts is a bus whose processes come and go.
type parts struct {
	t   *testing.T
	log *slog.Logger
	url string
}

func beginParts(t *testing.T) *parts {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	srv, err := natsserver.Start(natsserver.Options{StoreDir: t.TempDir(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Stop)
	return &parts{t, log, srv.URL()}
}

func (p *parts) connect(url string) *toolbus.Conn {
	p.t.Helper()
	o := toolbus.Options{Topology: toolbus.Topology{SyncAlways: true, Lease: time.Second}, Logger: p.log}
	conn, err := toolbus.Connect(p.t.Context(), url, o)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(conn.Close)
	return conn
}

// run runs a process until stop is called.
func (p *parts) run(what interface{ Run(context.Context) error }, err error) (stop func()) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(p.t.Context()))
	ended := make(chan struct{})
	go func() { defer close(ended); _ = what.Run(ctx) }() // the connection may be cut
	return func() { cancel(); <-ended }
}

// executes starts an executor.
func (p *parts) executes(tools *toolbus.Toolset, url string) (stop func()) {
	p.t.Helper()
	ready := make(chan string, 1)
	executor, err := p.connect(url).Executor(tools, toolbus.ExecutorOptions{
		Drain: time.Second, Ready: func(instance string) { ready <- instance },
	})
	stop = p.run(executor, err)
	p.t.Cleanup(stop)
	<-ready
	return stop
}

// busWire is a way to a NATS server that can be cut.
type busWire struct {
	url string
	at  net.Listener
	mu  sync.Mutex
	all []net.Conn
}

func newBusWire(t *testing.T, url string) *busWire {
	t.Helper()
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &busWire{url: "nats://" + at.Addr().String(), at: at}
	go func() {
		for {
			near, err := at.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", strings.TrimPrefix(url, "nats://"))
			if err != nil {
				_ = near.Close()
				return
			}
			w.mu.Lock()
			w.all = append(w.all, near, far)
			w.mu.Unlock()
			go func() { _, _ = io.Copy(near, far) }() // until the wire is cut
			go func() { _, _ = io.Copy(far, near) }()
		}
	}()
	t.Cleanup(w.cut)
	return w
}

func (w *busWire) cut() {
	_ = w.at.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.all {
		_ = c.Close()
	}
}

// A subscription that follows the end of another one to the same resource is heard.
func TestSubscribedAgain(t *testing.T) {
	_, web := shelved(t, newFeed(protocols[0]))
	for _, tools := range []*toolbus.Toolset{fed(t, protocols[0]), fed(t, protocols[1]), web} {
		bus := busOf(t, tools)
		web := open(t, mcp.New(t.Context(), bus.Client, mcp.Options{}))
		c := reads(t, func(o *sdk.ClientOptions) *sdk.ClientSession { return over(t, web, protocols[1], o) })
		for range 5 {
			c.subscribe(1)
			c.hears("feed://1", "feed://1")
			c.unsubscribe(1)
		}
	}
}

// A client that does not read keeps no update from other clients of the same caller.
func TestUnreadUpdates(t *testing.T) {
	bus := busOf(t, fed(t, protocols[1]))
	door := mcp.New(t.Context(), bus.Client, mcp.Options{})
	web := open(t, door)
	in, asks := io.Pipe()
	hears, out := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- door.Serve(t.Context(), in, out) }()
	t.Cleanup(func() {
		_, _ = asks.Close(), hears.Close() // ends the blocked write
		<-served
	})
	answers := json.NewDecoder(hears)
	for i, request := range []string{
		`"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
			`"clientInfo":{"name":"t","version":"1"}}`,
		`"method":"resources/subscribe","params":{"uri":"feed://1"}`,
	} {
		if _, err := fmt.Fprintf(asks, `{"jsonrpc":"2.0","id":%d,%s}`+"\n", i, request); err != nil {
			t.Fatal(err)
		}
		var answer struct{ Error any }
		if err := answers.Decode(&answer); err != nil || answer.Error != nil {
			t.Fatal(answer.Error, err)
		}
	}
	c := reads(t, func(o *sdk.ClientOptions) *sdk.ClientSession { return over(t, web, protocols[1], o) })
	c.subscribe(1)
	for range 3 {
		c.hears("feed://1", "feed://1")
	}
}

// The subscriptions of a caller at a server count as one of the calls at once.
func TestSubscriptionsCount(t *testing.T) {
	bus := busOf(t, fed(t, protocols[1]))
	c := (&fixture{}).connect(t, mcp.New(t.Context(), bus.Client, mcp.Options{MaxRequests: 3}), protocols[1], nil)
	for team, want := range []int64{0, 0, http.StatusServiceUnavailable} {
		for n := range 2 {
			err := c.Subscribe(t.Context(), &sdk.SubscribeParams{
				URI: fmt.Sprint("feed://", n), Meta: sdk.Meta{envelope.MetaScope: map[string]string{"team": fmt.Sprint(team)}},
			})
			if want != 0 {
				wantCode(t, err, want)
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
}
