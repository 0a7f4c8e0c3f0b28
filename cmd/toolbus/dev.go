package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
	"github.com/seed-018f16cc/toolbus/tool"
)

func devCmd(g *global) *cobra.Command {
	n, p, a := &cli.Node{}, &cli.Pool{}, &cli.Absence{}
	var state string
	var port int
	cmd := &cobra.Command{
		Use: "dev", Short: "Run a whole bus in this process: NATS, a dispatcher, an executor, your tools", GroupID: "run", Args: noArgs,
		Long: `Runs an embedded NATS server with file storage (synced before every acknowledgement), one dispatcher
and one executor. All state lives under --state and survives a restart. Stop it with Ctrl-C: calls in
hand have ten seconds to end, and it says so; a second one ends it at once.`,
		Example: `  toolbus dev
  toolbus dev --state ./state --port 0 --tools ./tools --ready-file ./ready`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmp.Or(g.isServer(cmd), n.Check(), p.Check(), a.Check(n), checkState(state)); err != nil {
				return err
			}
			return cli.Stopped(cmd.Context(), dev(cmd.Context(), g, n, p, a, state, port))
		},
	}
	cmd.Flags().StringVar(&state, "state", defaultState(g.env), "directory for everything that is kept")
	cmd.Flags().IntVar(&port, "port", 4280, "port to listen on at 127.0.0.1; 0 picks a free one")
	n.Flags(cmd)
	p.Flags(cmd)
	a.Flags(cmd)
	return cmd
}

func checkState(dir string) error {
	if dir == "" {
		return usagef("--state is empty: it is a directory for everything that is kept")
	}
	return nil
}

func defaultState(env *environment) string {
	if env.state != "" {
		return filepath.Join(env.state, "toolbus")
	}
	return filepath.Join(env.home, ".local", "state", "toolbus")
}

func dev(ctx context.Context, g *global, n *cli.Node, p *cli.Pool, a *cli.Absence, state string, port int) error {
	registry, err := tool.Load(n.Tools, app.Transports()...)
	if err != nil {
		return err
	}
	adapters, err := cli.Adapters(g.env.environ)
	if err != nil {
		return err
	}
	srv, stop, err := startServer(natsserver.Options{StoreDir: filepath.Join(state, "nats"), Port: port, SyncAlways: true, Log: cli.Logger(g.env.stderr, n.Verbose)})
	if err != nil {
		return err
	}
	defer stop()
	if err := n.Unready(); err != nil {
		return err
	}
	defer cli.Patience(ctx, g.env.stderr)()
	n.Fsync = true
	o, end, err := n.Options(ctx, "toolbus-dev", srv.URL(), g.env.stderr)
	if err != nil {
		return err
	}
	defer end()
	o.Connect = append(o.Connect, srv.InProcess())
	return serveBoth(ctx, o,
		app.DispatcherOptions{Registry: registry, Version: cli.Release, PoolAbsence: a.Long},
		app.ExecutorOptions{Registry: registry, Adapters: adapters, Pool: p.Name, Slots: p.Slots},
		func() error { return announce(g, n, srv.URL(), registry.Len()) })
}

// serveBoth runs a dispatcher and an executor until ctx ends or one of them fails, and calls
// ready once both serve.
func serveBoth(ctx context.Context, o app.Options, d app.DispatcherOptions, e app.ExecutorOptions, ready func() error) error {
	dc, err := app.Connect(ctx, "toolbus-dispatcher", o)
	if err != nil {
		return err
	}
	defer dc.Close()
	ec, err := app.Connect(ctx, "toolbus-executor", o)
	if err != nil {
		return err
	}
	defer ec.Close()
	serving := make(chan struct{}, 2)
	d.Ready = func() { serving <- struct{}{} }
	e.Ready = d.Ready
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return app.RunDispatcher(ctx, dc, d) })
	group.Go(func() error { return app.RunExecutor(ctx, ec, e) })
	group.Go(func() error {
		for range cap(serving) {
			select {
			case <-serving:
			case <-ctx.Done():
				return nil
			}
		}
		return ready()
	})
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// announce says that the bus is there, and where.
func announce(g *global, n *cli.Node, url string, tools int) error {
	fmt.Fprintf(g.env.stdout, "toolbus is serving %d tools at %s\n", tools, url)
	if url != devURL {
		fmt.Fprintf(g.env.stdout, "clients: export TOOLBUS_URL=%s\n", url)
	}
	return n.Ready(url)
}
