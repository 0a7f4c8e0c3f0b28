package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
	"github.com/seed-018f16cc/toolbus/tool"
)

func dispatcherCmd(g *global) *cobra.Command {
	n := &node{}
	var fsync bool
	cmd := &cobra.Command{
		Use: "dispatcher", Short: "Run a dispatcher against a NATS server", GroupID: "run", Args: noArgs,
		Example: "  toolbus dispatcher --server nats://bus:4222 --tools /etc/toolbus/tools --fsync",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return dispatch(cmd.Context(), g, n, fsync)
		},
	}
	n.flags(cmd)
	cmd.Flags().BoolVar(&fsync, "fsync", false, "the server runs with sync_interval: always, so side-effectful tools may be called")
	return cmd
}

func dispatch(ctx context.Context, g *global, n *node, fsync bool) error {
	registry, err := tool.Load(n.tools)
	if err != nil {
		return err
	}
	c, err := app.Connect(ctx, "toolbus-dispatcher", n.options(g, g.url()))
	if err != nil {
		return err
	}
	defer c.Close()
	var failed error
	err = app.RunDispatcher(ctx, c, app.DispatcherOptions{Registry: registry, Fsync: fsync, Version: "0.1.0", Ready: func() {
		failed = n.ready(g.url())
		fmt.Fprintf(g.env.stdout, "dispatcher %s is serving %d tools at %s\n", c.Instance, registry.Len(), g.url())
	}})
	if err == nil {
		err = failed
	}
	return err
}

func executorCmd(g *global) *cobra.Command {
	n := &node{}
	cmd := &cobra.Command{
		Use: "executor", Short: "Run an executor against a NATS server", GroupID: "run", Args: noArgs,
		Example: "  toolbus executor --server nats://bus:4222 --tools /etc/toolbus/tools --pool default --slots 32",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return execute(cmd.Context(), g, n)
		},
	}
	n.flags(cmd)
	n.executorFlags(cmd)
	return cmd
}

func execute(ctx context.Context, g *global, n *node) error {
	registry, err := tool.Load(n.tools)
	if err != nil {
		return err
	}
	adapters, err := adapters(g)
	if err != nil {
		return err
	}
	c, err := app.Connect(ctx, "toolbus-executor", n.options(g, g.url()))
	if err != nil {
		return err
	}
	defer c.Close()
	var failed error
	err = app.RunExecutor(ctx, c, app.ExecutorOptions{
		Registry: registry, Adapters: adapters, Pool: n.pool, Slots: n.slots, Ready: func() {
			failed = n.ready(g.url())
			fmt.Fprintf(g.env.stdout, "executor %s works for pool %s at %s\n", c.Instance, n.pool, g.url())
		},
	})
	if err == nil {
		err = failed
	}
	return err
}

// natsCmd runs only the server; chaos and bench use it as a process of its own.
func natsCmd(g *global) *cobra.Command {
	var dir, readyFile string
	var port int
	var always bool
	cmd := &cobra.Command{
		Use: "nats", Short: "Run only the embedded NATS server", GroupID: "run", Args: noArgs,
		Example: "  toolbus nats --state ./nats --port 4280 --sync-always",
		RunE: func(cmd *cobra.Command, _ []string) error {
			srv, err := natsserver.Start(natsserver.Options{StoreDir: dir, Port: port, SyncAlways: always})
			if err != nil {
				return err
			}
			defer srv.Stop()
			fmt.Fprintln(g.env.stdout, "nats is serving at", srv.URL())
			if err := (&node{readyFile: readyFile}).ready(srv.URL()); err != nil {
				return err
			}
			<-cmd.Context().Done()
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "state", "nats", "store directory")
	cmd.Flags().IntVar(&port, "port", 4280, "port to listen on at 127.0.0.1; 0 picks a free one")
	cmd.Flags().BoolVar(&always, "sync-always", false, "sync to disk before every acknowledgement")
	cmd.Flags().StringVar(&readyFile, "ready-file", "", "file to write the URL to once it serves")
	return cmd
}
