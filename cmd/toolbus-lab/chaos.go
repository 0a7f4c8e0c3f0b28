package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/chaos"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

func chaosCmd(l *lab) *cobra.Command {
	var o chaos.Options
	cmd := &cobra.Command{
		Use: "chaos", Short: "Inject faults into a bus of its own and check every promise",
		Args: cli.NoArgs,
		Long: `Starts one NATS server (or three), two dispatchers, three executors and two MCP gateways as processes of
its own. They have wrong clocks and connect through proxies that lose, delay and duplicate messages. It makes calls
of every kind while it kills, freezes and restarts the processes. Then it compares the records of callers, tools,
call log and audit log.

The exit code is 0 only if no promise was broken. The seed fixes the calls and the faults, but not how the machine
schedules processes: a violation may need several runs of its seed. Keep the evidence with --keep.`,
		Example: `  toolbus-lab chaos --seed 7 --duration 1m
  toolbus-lab chaos --duration 1h --rate 8 --keep ./chaos`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(); err != nil {
				return cli.Usagef("%v", err)
			}
			return l.runChaos(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&o.Seed, "seed", 1,
		"seed of the calls and the faults")
	f.DurationVar(&o.Duration, "duration", time.Minute,
		"time during which faults are injected")
	f.IntVar(&o.Calls, "calls", 0,
		"stop after `N` idempotency keys (default: no limit)")
	f.Float64Var(&o.Rate, "rate", 10,
		"new idempotency keys per second; each is called several times")
	f.Float64Var(&o.Steady, "steady", 0,
		"further calls per second, of a tool inside the executor process")
	f.StringVar(&o.Dir, "keep", "",
		"`DIR` to keep logs and recorded history in")
	o.SyncAlways = true
	cli.SyncFlag(cmd, &o.SyncAlways, "when the server writes to disk: before it acknowledges, or every two minutes")
	f.IntVar(&o.Partitions, "partitions", 0, "partitions of the call log, 1 or 2 (default: by the seed)")
	f.BoolVar(&o.Strict, "strict", false,
		"run dispatchers with --audit strict")
	f.BoolVar(&o.NoFaults, "no-faults", false,
		"inject no faults, to see that the calls end well without them")
	f.BoolVar(&o.Identity, "identity", false,
		"use accounts and short-lived tokens, and inject faults into credentials, too")
	f.IntVar(&o.Servers, "servers", 1,
		"NATS servers, 1 or 3; three are killed and frozen, too")
	f.StringVar(&o.Fault, "fault", "", "with --servers 3, inject only this fault: "+strings.Join(chaos.Pieces(), ", "))
	f.StringVar(&o.OldBinary, "old-binary", "",
		"`FILE` with an older build of toolbus: dispatchers and executors switch between the two builds, one "+
			"by one")
	return cmd
}

func (l *lab) runChaos(ctx context.Context, o chaos.Options) (err error) {
	if o.Binary, o.Self, err = l.programs(); err != nil {
		return err
	}
	o.Keep = o.Dir != ""
	begun := time.Now()
	o.Tell = func(what string) { fmt.Fprintf(l.env.Stderr, "%7.1fs  %s\n", time.Since(begun).Seconds(), what) }
	o.Progress = func(p chaos.Progress) {
		fmt.Fprintf(l.env.Stderr, "%7.1fs  %d requests, %d faults\n", time.Since(begun).Seconds(), p.Asks, p.Faults)
	}
	report, err := chaos.Run(ctx, o)
	if err != nil {
		return err
	}
	if err := l.print(report, report.Write); err != nil || report.OK() {
		return err
	}
	return errors.New("a promise was broken")
}

func chaosToolCmd(l *lab) *cobra.Command {
	return &cobra.Command{
		Use: chaos.ToolCommand, Hidden: true, DisableFlagParsing: true, Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return chaos.Tool(c.Context(), args, l.stdin, l.env.Stdout)
		},
	}
}
