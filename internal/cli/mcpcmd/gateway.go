package mcpcmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

// Path is the URL path of the MCP gateway.
const Path = "/mcp"

// listener holds the flags of a gateway over HTTP.
type listener struct {
	address, ready, url string
	server              mcp.Options
	signals             cli.SignalFlags
}

// Gateway returns the command that serves MCP clients over HTTP.
func Gateway(env cli.Env, connect Connect) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use: "gateway", Short: "Serve clients over HTTP", GroupID: "run", Example: "  toolbus gateway mcp",
	})
	cmd.AddCommand(overHTTP(env, connect))
	return cmd
}

func overHTTP(env cli.Env, connect Connect) *cobra.Command {
	l := &listener{}
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve MCP clients over HTTP",
		Args:  cli.NoArgs,
		Long: `Serves MCP clients over streamable HTTP, at the path ` + Path + `, with protocol 2026-07-28 and earlier
ones. Run any number for one bus: the state of calls is on the bus.

If the bus checks tokens, give the gateway credentials with the role door. Each HTTP request then needs the token of its
caller: Authorization: Bearer TOKEN. Otherwise it calls as --actor in --tenant for everybody.

It listens only on this machine by default, and without TLS: put a TLS proxy in front of it for other machines.`,
		Example: `  toolbus gateway mcp
  toolbus gateway mcp --listen 127.0.0.1:8080 --credentials door.token --server nats://bus:4222`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cli.Stopped(cmd.Context(), l.serve(cmd.Context(), env, connect))
		},
	}
	f := cmd.Flags()
	f.StringVar(&l.address, "listen", "127.0.0.1:4281", "address and port to listen on; port 0 picks a free one")
	f.StringVar(&l.ready, "ready-file", "", "file to write the URL of the door to once it serves")
	showFlags(cmd, &l.server)
	f.Int64Var(&l.server.MaxBody, "max-body", mcp.DefaultBody, "bytes of a request")
	f.IntVar(
		&l.server.MaxRequests,
		"max-requests",
		mcp.DefaultRequests,
		"requests at once, streams included, and calls on their way",
	)
	f.IntVar(&l.server.MaxSessions, "max-sessions", mcp.DefaultSessions, "sessions at once, of clients that have such")
	f.IntVar(&l.server.MaxConnections, "max-connections", mcp.DefaultConnections,
		"connections at once, idle ones included; one address has half of them at most, and a further one replaces its "+
			"oldest without a request")
	f.DurationVar(&l.server.HTTPHold, "http-hold", 0,
		"how long an answer is held back: one that is ready by then is application/json, a later one an event (default 10s)")
	f.DurationVar(&l.server.HTTPComment, "http-comment", 0,
		"interval of comments in event streams, which keep connections open: less than a proxy waits (default 15s)")
	f.StringVar(&l.url, "public-url", "",
		"`URL` that clients reach the door by, for its OAuth metadata (default http:// with the host that a request names)")
	f.StringArrayVar(&l.server.AuthorizationServers, "authorization-server", nil,
		"`URL` of an OAuth authorization server that issues tokens of this bus, for the metadata; more than once for more")
	l.signals.Flags(f)
	return cmd
}

// showFlags adds the flags that the gateway has over HTTP and over stdio.
func showFlags(cmd *cobra.Command, o *mcp.Options) {
	f := cmd.Flags()
	f.IntVar(&o.PageSize, "page-size", mcp.DefaultPage, "tools on a page of a list")
	f.IntVar(&o.Search.Above, "search-above", mcp.DefaultSearchAbove,
		"number of tools above which there is one more, "+envelope.MCPSearchTool+", that finds others by words; "+
			"-1 is never")
	f.BoolFunc("search-only",
		"list only pinned tools, those that were found in the session, "+envelope.MCPSearchTool+" and "+
			envelope.MCPCallTool+" (default from 100 tools on, for clients that do not search by themselves)",
		func(text string) error {
			only, err := strconv.ParseBool(text)
			o.Search.Only = &only
			return err
		})
	f.StringArrayVar(&o.Search.Pinned, "pin", nil,
		"`NAME` of a tool that is listed with --search-only; more than once for more")
	f.DurationVar(&o.TaskAfter, "task-after", mcp.DefaultTaskAfter,
		"how long a call may take before clients that know tasks are given one to ask for later; -1s is never")
}

// check returns a usage error if the flags are invalid. bounds are values that must be at least 1.
func check(o *mcp.Options, bounds ...int64) error {
	switch {
	case o.PageSize < 1 || slices.ContainsFunc(bounds, func(n int64) bool { return n < 1 }):
		return cli.Usagef("use 1 or more for --page-size and for every --max flag")
	case len(o.Search.Pinned) > maxPinned || slices.ContainsFunc(o.Search.Pinned, isNoTool):
		return cli.Usagef("use --pin with the name or id of a tool, and at most %d times", maxPinned)
	case o.Search.Above == 0 || o.TaskAfter == 0:
		return cli.Usagef("use more than 0 for --search-above and --task-after, or a negative value for never")
	}
	return nil
}

// maxPinned is the largest number of pinned tools. APIs of models refuse requests with more than 128 tools.
const maxPinned = 25

// isNoTool reports whether no tool has a name, because of its form.
func isNoTool(name string) bool {
	return name == "" || len(name) > 256 || strings.ContainsAny(name, ", \t\n")
}

// warnings returns a logger of warnings for the terminal, if there are pinned tools: they may be mistyped.
func warnings(env cli.Env, o *mcp.Options) *slog.Logger {
	if len(o.Search.Pinned) == 0 {
		return nil
	}
	return slog.New(slog.NewTextHandler(env.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// check returns a usage error if the flags of a gateway over HTTP are invalid.
func (l *listener) check() (err error) {
	o := &l.server
	if err := check(o, o.MaxBody, int64(o.MaxRequests), int64(o.MaxSessions), int64(o.MaxConnections)); err != nil {
		return err
	}
	if o.HTTPHold < 0 || o.HTTPComment < 0 {
		return cli.Usagef("use 0 or more for --http-hold and --http-comment")
	}
	if err := l.signals.Check(); err != nil {
		return err
	}
	if l.url != "" {
		if o.URL, err = mcp.CheckURL(l.url); err != nil {
			return cli.Usagef("--public-url: %v", err)
		}
	}
	for _, server := range o.AuthorizationServers {
		if _, err := mcp.CheckURL(server); err != nil {
			return cli.Usagef("--authorization-server: %v", err)
		}
	}
	return nil
}

func (l *listener) serve(ctx context.Context, env cli.Env, connect Connect) error {
	if err := l.check(); err != nil {
		return err
	}
	env, end := env.Unblocked()
	defer end()
	o := toolbus.Options{Logger: env.Logger(slog.LevelWarn)}
	signals, err := l.signals.Open(ctx, "toolbus-gateway", env, &o)
	if err != nil {
		return err
	}
	defer signals.End(ctx)
	conn, client, err := connect(ctx, auth.Gateway)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer func() { _ = client.Close() }() // conn.Close follows
	signals.While(conn.NATS().IsConnected)
	l.server.Version, l.server.Connected = cli.Version(), conn.NATS().IsConnected
	l.server.Logger = warnings(env, &l.server)
	if client.Options().Token != nil {
		if says, err := auth.Inspect(client.Options().Token()); err != nil || says.Role != auth.Gateway {
			return cli.Usagef("the credentials are of the role %s, and a door needs some of the role door: "+
				"`toolbus credentials issue --role door --actor door://NAME`", says.Role)
		}
		l.server.NewClient = conn.Client
	} else if len(l.server.AuthorizationServers) > 0 {
		return cli.Usagef("leave --authorization-server out: this bus checks no tokens")
	}
	at, err := l.listen()
	if err != nil {
		return err
	}
	door := mcp.New(context.WithoutCancel(ctx), client, l.server) // ends with door.Close
	defer door.Close()
	mcp.Measure(door, o.MeterProvider, o.TracerProvider)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	watched := make(chan struct{})
	go func() { defer close(watched); door.Watch(ctx) }()
	defer func() { stop(); <-watched }()
	url := "http://" + at.Addr().String() + Path
	if err := cli.WriteReady(l.ready, url); err != nil {
		return err
	}
	l.warn(env, client, at)
	tokens := ""
	if l.server.NewClient != nil {
		tokens = "each request needs the token of its caller: `toolbus credentials issue --actor agent://NAME` issues one\n"
	}
	// In one piece: who started the gateway may read no more than the first line.
	fmt.Fprintf(env.Stdout, "MCP clients are served at %s\n%s", url, tokens)
	signals.Serving()
	if from := signals.URL(); from != "" {
		fmt.Fprintf(env.Stdout, "metrics: %s/metrics\n", from)
	}
	return serve(ctx, at, door)
}

// listen opens the port of the gateway.
func (l *listener) listen() (net.Listener, error) {
	at, err := net.Listen("tcp", l.address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%w\nis another gateway running? --listen 127.0.0.1:0 picks a free port", err)
	}
	return at, err
}

// warn prints warnings about a gateway without tokens or without TLS.
func (l *listener) warn(env cli.Env, client *toolbus.Client, at net.Listener) {
	if client.Options().Token == nil {
		fmt.Fprintf(
			env.Stderr,
			"warning: the bus asks for no tokens, so whoever reaches the door calls as %s in tenant %s\n",
			client.Options().Actor,
			client.Options().Tenant,
		)
	}
	if tcp, ok := at.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		fmt.Fprintln(
			env.Stderr,
			"warning: the door listens beyond this machine, and speaks no TLS: put a proxy before it",
		)
	}
}

// headerTime is the time for the headers of a request, idleTime the time between two requests of a connection, and
// stopTime the time for running requests when the gateway stops.
const (
	headerTime = 10 * time.Second
	idleTime   = 2 * time.Minute
	stopTime   = 10 * time.Second
)

// serve serves clients until ctx ends.
func serve(ctx context.Context, at net.Listener, door *mcp.Server) error {
	routes := http.NewServeMux()
	routes.Handle(Path, door.Handler())
	routes.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "this path does not exist: MCP clients are served at the path "+Path, http.StatusNotFound)
	})
	for _, pattern := range []string{mcp.MetadataPath, mcp.MetadataPath + "/"} {
		routes.Handle(pattern, door.Metadata(Path))
	}
	s := &http.Server{
		Handler: routes, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: 64 << 10,
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(door.Bound(at)) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(stopping) }() // accepts no more requests
	door.Drain(stopping)
	door.Close() // also ends the streams of clients that only listen
	if err := <-stopped; err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return s.Close()
}
