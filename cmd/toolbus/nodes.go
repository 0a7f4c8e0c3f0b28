package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
)

func dispatcherCmd(g *global) *cobra.Command {
	return subcommand(cli.Dispatcher(g.surroundings(), g.url))
}

func executorCmd(g *global) *cobra.Command { return subcommand(cli.Executor(g.surroundings(), g.url)) }

// subcommand fits a command that is a program of its own into this one.
func subcommand(cmd *cobra.Command) *cobra.Command {
	cmd.GroupID, cmd.Args = "run", noArgs
	cmd.Example = strings.Replace(cmd.Example, cmd.Name(), "toolbus "+cmd.Name(), 1)
	return cmd
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
			if err := cmp.Or(g.isServer(cmd), checkState(dir)); err != nil {
				return err
			}
			srv, stop, err := startServer(natsserver.Options{StoreDir: dir, Port: port, SyncAlways: always, Log: cli.Logger(g.env.stderr, false)})
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
	cmd.Flags().StringVar(&dir, "state", "nats", "store directory")
	cmd.Flags().IntVar(&port, "port", 4280, "port to listen on at 127.0.0.1; 0 picks a free one")
	cmd.Flags().BoolVar(&always, "sync-always", false, "sync to disk before every acknowledgement")
	cmd.Flags().StringVar(&readyFile, "ready-file", "", "file to write the URL to once it serves")
	return cmd
}
