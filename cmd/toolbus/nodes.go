package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
)

// subcommand fits a command that is a program of its own into this one.
func subcommand(cmd *cobra.Command) *cobra.Command {
	cmd.GroupID = "run"
	cmd.Example = strings.Replace(cmd.Example, cmd.Name(), "toolbus "+cmd.Name(), 1)
	return cmd
}

// natsCmd runs only the server; chaos and bench use it as a process of its own.
func natsCmd(g *global) *cobra.Command {
	var readyFile string
	var o natsserver.Options
	cmd := &cobra.Command{
		Use: "nats", Short: "Run only the embedded NATS server", GroupID: "run", Args: cli.NoArgs,
		Example: "  toolbus nats --state ./nats --port 4280 --sync-always",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmp.Or(g.isServer(cmd), checkState(o.StoreDir)); err != nil {
				return err
			}
			o.Log = cli.Logger(g.env.stderr, false)
			srv, stop, err := startServer(o)
			if err != nil {
				return err
			}
			defer stop()
			if err := cli.WriteReady(readyFile, srv.URL()); err != nil {
				return err
			}
			fmt.Fprintln(g.env.stdout, "nats is serving at", srv.URL())
			<-cmd.Context().Done()
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.StoreDir, "state", "nats", "store directory")
	f.IntVar(&o.Port, "port", 4280, "port to listen on at 127.0.0.1; 0 picks a free one")
	f.BoolVar(&o.SyncAlways, "sync-always", false, "sync to disk before every acknowledgement")
	f.StringVar(&readyFile, "ready-file", "", "file to write the URL to once it serves")
	f.StringVar(&o.Cluster.Name, "cluster-as", "", "name of this server in a cluster with those of --route")
	f.IntVar(&o.Cluster.Port, "cluster-port", 0, "port for the servers of the cluster")
	f.StringSliceVar(&o.Cluster.Routes, "route", nil, "where the servers of the cluster listen for each other")
	for _, name := range []string{"cluster-as", "cluster-port", "route"} {
		_ = f.MarkHidden(name) // exists
	}
	return cmd
}
