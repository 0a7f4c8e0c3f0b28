package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
)

// development is a bus in one process.
type development struct {
	*global
	node      cli.Node
	pool      cli.Pool
	admission cli.Admission
	state     string // folder
	port      int
	insecure  bool // check no tokens
	examples  bool // serve the example tools

	bus    *devBus // nil if insecure
	loaded loaded
}

func devCmd(g *global) *cobra.Command {
	d := &development{global: g}
	cmd := &cobra.Command{
		Use: "dev", Short: "Run a whole bus for development in one process", GroupID: "run",
		Args: cli.NoArgs,
		Long: `Runs an embedded NATS server, one dispatcher and one executor with the tools of --tools. The server
writes to disk before it acknowledges; streams, keys and credentials are below --data-dir and survive a restart.

Tools are loaded again when their files change, and are live within a second, with thousands of files some seconds. A
call that comes earlier is refused with S-TOOL-UNAVAILABLE: call again in a second, with the same key. A tool with a
problem is reported with its file and line. If it was served, it goes on as it was, unless its program has changed: then
its calls are refused until the problem is mended. The others go on, and calls that run end on their build. The bus also
starts without the tools whose program cannot run here, if another one can. The first tool of a pool or a transport, and
a changed entry of servers.json, need a restart.

Each folder of tools has a state of its own, unless --data-dir names one: what was pushed and called in one project is
not there in another. At its start the bus says which policy is in force, and which tools of the folder it hides.

The commands of this user on this machine get tokens for every --actor and --tenant, with every scope, so that
required_scopes of a manifest never refuses them. They find the bus at port 4280; at another port give them its URL,
which --ready-file has, as TOOLBUS_URL. A program of yours shows the token in credentials/agent below --data-dir,
which is renewed while the bus runs. With --insecure-no-auth the bus checks no tokens: any process that reaches the
port may call any tool as any actor.

The metrics have another port at each start; --http-listen 127.0.0.1:9464 keeps one.

After Ctrl-C running calls have 10 s to end; a second Ctrl-C ends the process at once. Exit codes: 0 stopped by a
signal; 1 failed, for example because the port is taken; 2 wrong command line.`,
		Example: `  toolbus dev --examples
  toolbus dev
  toolbus dev --data-dir ./state --port 0 --tools ./tools --ready-file ./ready`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := cmp.Or(g.isServer(cmd), d.node.Check(), d.pool.Check(), d.admission.Check(&d.node))
			if err == nil && cmd.Flags().Changed("data-dir") {
				err = checkState(d.state)
			}
			if err != nil {
				return err
			}
			if err := d.chooseTools(cmd); err != nil {
				return err
			}
			cli.Collect(g.env.environ, storePercent, math.MaxInt64)
			return cli.Stopped(cmd.Context(), d.run(cmd.Context()))
		},
	}
	f := cmd.Flags()
	f.StringVar(&d.state, "data-dir", "",
		"`DIR` for streams, keys and credentials; created if it is missing (default: one for each folder of tools below "+
			g.env.devStates()+", where latest is that of the last start)")
	f.IntVar(&d.port, "port", 4280,
		"TCP port on 127.0.0.1; 0 picks a free one")
	f.BoolVar(&d.insecure, "insecure-no-auth", false,
		"check no tokens: any process that reaches the port may call any tool as any actor")
	f.BoolVar(&d.examples, "examples", false,
		"serve the example tools fs.write, text.search, transcript.clean and web.fetch in place of --tools. Their programs "+
			"are this one, and each start writes their manifests to the folder examples below --data-dir, by default "+
			filepath.Join(g.env.exampleState(), "examples"))
	d.node.Env, d.node.Signals.Listen, d.node.Signals.Level = "dev", "127.0.0.1:0", slog.LevelWarn
	d.node.Flags(cmd)
	f.Lookup("log-sample").Usage = "share of successful calls to print with -v, above 0 and at most 1. dev prints each " +
		"call that failed, and with -v all calls"
	d.node.RecordFlags(cmd)
	d.pool.Flags(cmd)
	d.admission.Flags(cmd)
	cmd.AddCommand(devToolCmd(g))
	return cmd
}

func (d *development) run(ctx context.Context) (err error) {
	env, end := d.env.common().Unblocked()
	defer end()
	d.env.stderr = env.Stderr
	read := stampOf(d.node.Tools)
	tools, err := d.runnableTools()
	if err != nil {
		return err
	}
	if tools.Len() == 0 { // a later one would need a restart
		return noTools(d.node.Tools, "dev --tools")
	}
	link, err := d.place()
	if err != nil {
		return err
	}
	srv, stop, err := d.startServer()
	if err != nil {
		return err
	}
	defer stop()
	if err := cmp.Or(link(), d.node.Unready()); err != nil {
		return err
	}
	d.node.Fsync = true
	o, signals, err := d.node.Options(ctx, "toolbus-dev", env)
	if err != nil {
		return err
	}
	defer signals.End(ctx)
	o.Logger = d.failures(o.Logger)
	o.NATS = append(o.NATS, srv.InProcess())
	withdraw := func() {}
	defer func() { withdraw() }()
	open := func() (string, error) {
		signals.Serving()
		withdraw, err = d.openTo(srv)
		return srv.URL(), err
	}
	return d.node.WhileReady(ctx, d.env.stderr, open, func(ctx context.Context, ready func() bool) error {
		serve := d.serveInsecure
		if d.bus != nil {
			serve = d.bus.Serve
		}
		ctx, stop := context.WithCancel(ctx)
		var follow sync.WaitGroup
		defer follow.Wait()
		defer stop()
		return serve(ctx, srv.URL(), devParts{
			Options: o, Tools: tools, Dispatcher: d.allowAll(), Executor: d.pool.Options(d.env.environ),
			Ready: func() {
				if ready() {
					d.greet(ctx, srv.URL(), signals.URL(), tools)
					follow.Go(func() { d.follow(ctx, tools, read) })
				}
			},
		})
	})
}

// runnableTools returns the tools of the folder that can run here.
func (d *development) runnableTools() (*toolbus.Toolset, error) {
	tools, err := d.node.Toolset()
	if err != nil {
		return nil, err
	}
	return tools, d.leaveOut(tools)
}

// place sets the state folder. link lets the name of the last start lead to it, unless the command line names a folder.
func (d *development) place() (link func() error, err error) {
	if d.state != "" {
		d.state, err = filepath.Abs(d.state)
		return func() error { return nil }, err
	}
	if d.examples {
		d.state = d.env.exampleState()
	} else {
		d.state, err = d.env.devStateOf(d.node.Tools)
	}
	return func() error { return d.env.linkLatest(d.state) }, err
}

// allowAll returns the options of the dispatcher. Its bus has a policy from the start, and its tools are edited.
func (d *development) allowAll() toolbus.DispatcherOptions {
	o := d.admission.Options()
	o.AllowAll, o.RefuseEdited = true, true
	return o
}

// startServer starts the server, with accounts unless d.insecure is set.
func (d *development) startServer() (srv *natsserver.Server, stop func(), err error) {
	log := d.env.common().Logger(d.node.Level())
	o := natsserver.Options{
		StoreDir: filepath.Join(d.state, "nats"), Port: d.port, SyncAlways: true, Log: log, Closed: true,
	}
	if !d.insecure {
		if d.bus, err = openDevBus(d.state, d.pool.Name); err != nil {
			return nil, nil, err
		}
		if o, err = d.bus.Server(o); err != nil {
			return nil, nil, err
		}
	}
	return startServer(o, func() error { return moveStreams(o.StoreDir, d.insecure, log) })
}

// openTo lets clients connect. By then, the dispatcher authenticates them and the user's credentials are written; the
// server would refuse an earlier client after two seconds, and log an error. withdraw may be called even after an
// error.
func (d *development) openTo(srv *natsserver.Server) (withdraw func(), err error) {
	withdraw = func() {}
	if d.port != 0 {
		withdraw = d.announce(srv.URL())
	}
	if err := srv.Listen(); err != nil {
		return withdraw, err
	}
	if d.port == 0 { // no client could know the port before
		withdraw = d.announce(srv.URL())
	}
	return withdraw, nil
}

// announce lets the user's commands find the bus, if they need credentials. If that fails, it prints a warning and the
// bus serves all the same.
func (d *development) announce(url string) (withdraw func()) {
	if d.insecure {
		return func() {}
	}
	tools, err := filepath.Abs(d.node.Tools)
	if err == nil {
		withdraw, err = d.env.common().Announce(cli.DevBus{Server: url, State: d.state, Tools: tools})
	}
	if err != nil {
		fmt.Fprintln(d.env.stderr, "warning: commands do not find this bus:", err)
		return func() {}
	}
	return withdraw
}

// greet prints the URL of the bus, the policy in force, and how programs authenticate.
func (d *development) greet(ctx context.Context, url, monitor string, tools *toolbus.Toolset) {
	fmt.Fprintf(d.env.stdout, "toolbus is serving %s at %s\n", plural(tools.Len(), "tool", "tools"), url)
	if d.examples {
		fmt.Fprintln(d.env.stdout, "their manifests and files:", d.node.Tools)
	}
	if url != toolbus.DefaultURL {
		fmt.Fprintf(d.env.stdout, "clients: export TOOLBUS_URL=%s\n", url)
	}
	if monitor != "" {
		fmt.Fprintf(d.env.stdout, "metrics: %s/metrics\n", monitor)
	}
	d.sayPolicy(ctx, url)
	if d.insecure {
		fmt.Fprintln(d.env.stderr,
			"warning: with --insecure-no-auth any process that reaches the port may call any tool as any actor")
		return
	}
	fmt.Fprintf(d.env.stdout, "programs: export TOOLBUS_CREDENTIALS=%s\n", d.bus.Credential(auth.Agent))
}

// serveInsecure runs a dispatcher and an executor with separate connections, as in production.
func (d *development) serveInsecure(ctx context.Context, url string, p devParts) error {
	p.Options.Name = "toolbus-dispatcher"
	one, err := toolbus.Connect(ctx, url, p.Options)
	if err != nil {
		return err
	}
	defer one.Close()
	p.Options.Name = "toolbus-executor"
	other, err := toolbus.Connect(ctx, url, p.Options)
	if err != nil {
		return err
	}
	defer other.Close()
	p.Dispatcher.InsecureNoAuth = true
	dispatcher, err := one.Dispatcher(p.Tools, p.Dispatcher)
	if err != nil {
		return err
	}
	executor, err := other.Executor(p.Tools, p.Executor)
	if err != nil {
		return err
	}
	return toolbus.Serve(ctx, dispatcher, executor, p.Ready)
}
