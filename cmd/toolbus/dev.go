package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
	"github.com/seed-018f16cc/toolbus/tool"
	"github.com/seed-018f16cc/toolbus/tool/process"
)

// node is what the commands that run a part of the bus have in common.
type node struct {
	tools     string
	pool      string
	slots     int
	lease     time.Duration
	skew      time.Duration
	readyFile string
	verbose   bool
}

func (n *node) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&n.tools, "tools", "tools", "folder of tool manifests")
	f.DurationVar(&n.lease, "lease", 5*time.Second, "how long an executor may be silent before its work is taken over")
	f.StringVar(&n.readyFile, "ready-file", "", "file to write the bus URL to once it serves")
	f.BoolVarP(&n.verbose, "verbose", "v", false, "log every event, not only problems")
	f.DurationVar(&n.skew, "clock-skew", 0, "shift the local clock (to test that skew does no harm)")
	_ = f.MarkHidden("clock-skew") // exists
}

func (n *node) executorFlags(cmd *cobra.Command) {
	cmd.Flags().IntVar(&n.slots, "slots", 16, "calls that run at once")
	cmd.Flags().StringVar(&n.pool, "pool", "default", "pool to work for")
}

func (n *node) logger(g *global) *slog.Logger {
	level := slog.LevelWarn
	if n.verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(g.env.stderr, &slog.HandlerOptions{Level: level}))
}

func (n *node) options(g *global, url string, connect ...nats.Option) app.Options {
	return app.Options{URL: url, Lease: n.lease, Skew: n.skew, Logger: n.logger(g), Connect: connect}
}

// ready tells whoever waits for it where the bus is.
func (n *node) ready(url string) error {
	if n.readyFile == "" {
		return nil
	}
	tmp := n.readyFile + ".tmp"
	if err := os.WriteFile(tmp, []byte(url+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, n.readyFile)
}

func adapters(g *global) (map[tool.Transport]tool.Adapter, error) {
	p, err := process.New(process.Options{Environ: g.env.environ})
	if err != nil {
		return nil, fmt.Errorf("process adapter: %w", err)
	}
	return map[tool.Transport]tool.Adapter{tool.TransportProcess: p}, nil
}

func devCmd(g *global) *cobra.Command {
	n := &node{}
	var state string
	var port int
	cmd := &cobra.Command{
		Use: "dev", Short: "Run a whole bus in this process: NATS, a dispatcher, an executor, your tools", GroupID: "run", Args: noArgs,
		Long: `Runs an embedded NATS server with file storage (synced before every acknowledgement), one dispatcher
and one executor. All state lives under --state and survives a restart. Stop it with Ctrl-C.`,
		Example: `  toolbus dev
  toolbus dev --state ./state --port 0 --tools ./tools --ready-file ./ready`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return dev(cmd.Context(), g, n, state, port)
		},
	}
	cmd.Flags().StringVar(&state, "state", defaultState(g.env), "directory for everything that is kept")
	cmd.Flags().IntVar(&port, "port", 4280, "port to listen on at 127.0.0.1; 0 picks a free one")
	n.flags(cmd)
	n.executorFlags(cmd)
	return cmd
}

func defaultState(env *environment) string {
	if env.state != "" {
		return filepath.Join(env.state, "toolbus")
	}
	return filepath.Join(env.home, ".local", "state", "toolbus")
}

func dev(ctx context.Context, g *global, n *node, state string, port int) error {
	registry, err := tool.Load(n.tools)
	if err != nil {
		return err
	}
	adapters, err := adapters(g)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	srv, err := natsserver.Start(natsserver.Options{StoreDir: filepath.Join(state, "nats"), Port: port, SyncAlways: true})
	if err != nil {
		return err
	}
	defer srv.Stop()

	dc, err := app.Connect(ctx, "toolbus-dispatcher", n.options(g, srv.URL(), srv.InProcess()))
	if err != nil {
		return err
	}
	defer dc.Close()
	ec, err := app.Connect(ctx, "toolbus-executor", n.options(g, srv.URL(), srv.InProcess()))
	if err != nil {
		return err
	}
	defer ec.Close()
	return serveDev(ctx, g, n, srv, dc, ec, registry, adapters)
}

func serveDev(ctx context.Context, g *global, n *node, srv *natsserver.Server, dc, ec *app.Conn, registry *tool.Registry, adapters map[tool.Transport]tool.Adapter) error {
	serving := make(chan struct{}, 2)
	ready := func() { serving <- struct{}{} }
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return app.RunDispatcher(ctx, dc, app.DispatcherOptions{Registry: registry, Fsync: true, Version: "0.1.0", Ready: ready})
	})
	group.Go(func() error {
		return app.RunExecutor(ctx, ec, app.ExecutorOptions{Registry: registry, Adapters: adapters, Pool: n.pool, Slots: n.slots, Ready: ready})
	})
	group.Go(func() error {
		for range 2 {
			select {
			case <-serving:
			case <-ctx.Done():
				return nil
			}
		}
		fmt.Fprintf(g.env.stdout, "toolbus is serving %d tools at %s\n", registry.Len(), srv.URL())
		if srv.URL() != devURL {
			fmt.Fprintf(g.env.stdout, "clients: export TOOLBUS_URL=%s\n", srv.URL())
		}
		return n.ready(srv.URL())
	})
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
