package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
)

// storePercent is the GOGC of a process with an embedded server. Such a process has no memory limit, because the index
// of stored calls grows with their number.
const storePercent = 200

// natsCmd runs only the server. Chaos and bench use it as a separate process.
func natsCmd(g *global) *cobra.Command {
	var readyFile string
	var o natsserver.Options
	cmd := &cobra.Command{
		Use: "nats", Short: "Run only the embedded NATS server", GroupID: "run", Args: cli.NoArgs,
		Long: `Runs the NATS server of "toolbus dev" alone, on 127.0.0.1 and without tokens. Use it to try dispatchers and
executors as processes of their own; in production run nats-server with a configuration of "toolbus keys init".`,
		Example: "  toolbus nats --data-dir ./nats --port 4280 --sync always",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmp.Or(g.isServer(cmd), checkState(o.StoreDir)); err != nil {
				return err
			}
			cli.Collect(g.env.environ, storePercent, math.MaxInt64)
			env, end := g.env.common().Unblocked()
			defer end()
			o.Log = env.Logger(slog.LevelWarn)
			srv, stop, err := startServer(o, func() error { return nil })
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
	f.StringVar(&o.StoreDir, "data-dir", "nats",
		"`DIR` for the streams; created if it is missing")
	f.IntVar(&o.Port, "port", 4280,
		"TCP port on 127.0.0.1; 0 picks a free one")
	cli.SyncFlag(cmd, &o.SyncAlways, "when the server writes to disk: before it acknowledges, or every two minutes")
	f.StringVar(&readyFile, "ready-file", "",
		"`FILE` that the process writes its URL to when it serves")
	f.StringVar(&o.Cluster.Name, "cluster-as", "", "name of this server in a cluster with those of --route")
	f.IntVar(&o.Cluster.Port, "cluster-port", 0, "port for the servers of the cluster")
	f.StringSliceVar(&o.Cluster.Routes, "route", nil, "where the servers of the cluster listen for each other")
	f.StringVar(&o.ConfigFile, "config", "", "configuration, which says the same store and port as the flags")
	for _, name := range []string{"config", "cluster-as", "cluster-port", "route"} {
		_ = f.MarkHidden(name) // the flag exists
	}
	return cmd
}

// startServer starts the embedded server, which runs until stop. It reports at once a taken port, for which the server
// would wait a minute, and a store that another server has open, which the server would not notice. It calls prepare
// while no server has the store open.
func startServer(o natsserver.Options, prepare func() error) (srv *natsserver.Server, stop func(), err error) {
	if o.Port < 0 || o.Port > 65535 {
		return nil, nil, usagef("--port is %d: use 0 to 65535", o.Port)
	}
	port, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.Port)))
	if err != nil {
		return nil, nil, fmt.Errorf("%w\nis another bus running? --port 0 picks a free port", err)
	}
	_ = port.Close() // the port is free
	release, err := hold(o.StoreDir)
	if err != nil {
		return nil, nil, err
	}
	if err = prepare(); err == nil {
		srv, err = natsserver.Start(o)
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return srv, func() { srv.Stop(); release() }, nil
}

var errHeld = errors.New("another server uses it: stop that, or name another folder with --data-dir")

// hold locks the store, because two servers would corrupt each other's files. The operating system releases the lock
// when the process ends.
func hold(store string) (release func(), err error) {
	if err := os.MkdirAll(store, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(store, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if err := lock(file); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("state directory %s: %w", store, err)
	}
	return func() { _ = file.Close() }, nil
}
