package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/chaos"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

func chaosCmd(g *global) *cobra.Command {
	var o chaos.Options
	cmd := &cobra.Command{
		Use: "chaos", Short: "Try to break a bus of its own, and check every promise", GroupID: "operate", Args: cli.NoArgs,
		Long: `Starts a NATS server (or three that replicate each other's streams), two dispatchers, three executors and two
doors for MCP clients as processes of their own, with wrong clocks, behind proxies that lose, delay and double messages.
Makes calls of every kind while it kills, freezes and restarts the processes, then checks what callers, tools, the call
log and AUDIT recorded against each other. It exits with 0 only if no promise was broken.

The seed fixes what is asked and which trouble is made when, not how processes are scheduled: a
violation may need several runs of its seed to come again. Keep what was recorded with --keep.`,
		Example: `  toolbus chaos --seed 7 --duration 1m
  toolbus chaos --duration 1h --rate 8 --keep ./chaos`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := g.isServer(cmd); err != nil {
				return err
			}
			if err := o.Check(); err != nil {
				return usagef("%v", err)
			}
			return runChaos(cmd, g, o)
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&o.Seed, "seed", 1, "of the calls and of the trouble")
	f.DurationVar(&o.Duration, "duration", time.Minute, "how long trouble is made")
	f.IntVar(&o.Calls, "calls", 0, "stop asking after so many keys (default: as many as fit)")
	f.Float64Var(&o.Rate, "rate", 10, "keys to ask for a second, each several times")
	f.Float64Var(&o.Steady, "steady", 0, "further calls a second, of a tool that is part of its executor")
	f.StringVar(&o.Dir, "keep", "", "folder to keep logs and the recorded history in")
	o.SyncAlways = true
	cli.SyncFlag(cmd, &o.SyncAlways, "when the server syncs writes to disk: before it acknowledges them, or later")
	cli.OldSyncFlag(f, "sync-always")
	f.IntVar(&o.Partitions, "partitions", 0, "partitions of the call log, 1 or 2 (default: by the seed)")
	f.BoolVar(&o.Strict, "strict", false, "let calls start only once their requests are on record")
	f.BoolVar(&o.NoFaults, "no-faults", false, "make no trouble, to see that the calls end well without it")
	f.BoolVar(&o.Identity, "identity", false, "with accounts and short-lived tokens: make trouble of credentials, too")
	f.IntVar(&o.Servers, "servers", 1, "NATS servers, 1 or 3: three are killed and frozen by a plan of their own")
	f.StringVar(&o.Fault, "fault", "", "with --servers 3, make only this trouble: "+strings.Join(chaos.Pieces(), ", "))
	f.StringVar(&o.OldBinary, "old-binary", "",
		"another build of this program, as old or older: dispatchers and executors are replaced by it and back, one by one")
	cli.OldFlag(f, "calm", f.Lookup("no-faults"))
	cli.OldFlag(f, "only", f.Lookup("fault"))
	cli.OldFlag(f, "beside", f.Lookup("old-binary"))
	return cmd
}

func runChaos(cmd *cobra.Command, g *global, o chaos.Options) error {
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	o.Binary, o.Keep = binary, o.Dir != ""
	begun := time.Now()
	o.Tell = func(what string) { fmt.Fprintf(g.env.stderr, "%7.1fs  %s\n", time.Since(begun).Seconds(), what) }
	o.Progress = func(p chaos.Progress) {
		fmt.Fprintf(g.env.stderr, "%7.1fs  %d requests, %d faults\n", time.Since(begun).Seconds(), p.Asks, p.Faults)
	}
	report, err := chaos.Run(cmd.Context(), o)
	if err != nil {
		return err
	}
	return cmp.Or(g.print(report, report.Write), exitIf(!report.OK(), 1))
}

// chaosToolCmd is what the tools of a chaos run are.
func chaosToolCmd(g *global) *cobra.Command {
	return &cobra.Command{
		Use: chaos.ToolCommand, Hidden: true, DisableFlagParsing: true, Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return chaos.Tool(c.Context(), args, g.env.stdin, g.env.stdout)
		},
	}
}
