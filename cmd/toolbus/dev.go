package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
)

func devCmd(g *global) *cobra.Command {
	n, p, a := &cli.Node{}, &cli.Pool{}, &cli.Admission{}
	var state string
	var port int
	cmd := &cobra.Command{
		Use: "dev", Short: "Run a whole bus in this process: NATS, a dispatcher, an executor, your tools", GroupID: "run",
		Args: cli.NoArgs,
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
	home := filepath.Join(cmp.Or(g.env.state, filepath.Join(g.env.home, ".local", "state")), "toolbus")
	cmd.Flags().StringVar(&state, "state", home, "directory for everything that is kept")
	cmd.Flags().IntVar(&port, "port", 4280, "port to listen on at 127.0.0.1; 0 picks a free one")
	n.Flags(cmd)
	n.RecordFlags(cmd)
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

func dev(ctx context.Context, g *global, n *cli.Node, p *cli.Pool, a *cli.Admission, state string, port int) error {
	tools := toolbus.NewTools()
	if err := tools.AddFolder(n.Tools); err != nil {
		return err
	}
	srv, stop, err := startServer(natsserver.Options{
		StoreDir: filepath.Join(state, "nats"), Port: port, SyncAlways: true, Log: cli.Logger(g.env.stderr, n.Verbose),
	})
	if err != nil {
		return err
	}
	defer stop()
	if err := n.Unready(); err != nil {
		return err
	}
	n.Fsync = true
	o, end, err := n.Options(ctx, "toolbus-dev", g.env.stderr)
	if err != nil {
		return err
	}
	defer end()
	o.NATS = append(o.NATS, srv.InProcess())
	return n.WhileReady(ctx, g.env.stderr, srv.URL(), func(ctx context.Context, ready func() bool) error {
		return serveBoth(ctx, srv.URL(), o, tools, a, p.Options(g.env.environ), func() {
			if !ready() {
				return
			}
			fmt.Fprintf(g.env.stdout, "toolbus is serving %d tools at %s\n", tools.Len(), srv.URL())
			if srv.URL() != toolbus.DefaultURL {
				fmt.Fprintf(g.env.stdout, "clients: export TOOLBUS_URL=%s\n", srv.URL())
			}
		})
	})
}

// serveBoth runs a dispatcher and an executor, each with a connection of its own, as they have in production.
func serveBoth(
	ctx context.Context, url string, o toolbus.Options, tools *toolbus.Tools, a *cli.Admission, e toolbus.ExecutorOptions,
	ready func(),
) error {
	o.Name = "toolbus-dispatcher"
	one, err := toolbus.Connect(ctx, url, o)
	if err != nil {
		return err
	}
	defer one.Close()
	o.Name = "toolbus-executor"
	other, err := toolbus.Connect(ctx, url, o)
	if err != nil {
		return err
	}
	defer other.Close()
	dispatcher, err := one.Dispatcher(tools, a.Options())
	if err != nil {
		return err
	}
	executor, err := other.Executor(tools, e)
	if err != nil {
		return err
	}
	return toolbus.Serve(ctx, dispatcher, executor, ready)
}
