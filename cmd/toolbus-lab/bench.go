package main

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/bench"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

func benchCmd(l *lab) *cobra.Command {
	var o bench.Options
	var cpu, mem string
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure throughput and latency against two baselines",
		Args: cli.NoArgs, Long: `Runs three pipelines on the same server, in alternating rounds:

  raw      the leanest hand-rolled pipeline for the same durability, without any of the promises
  floor    the durable writes of Toolbus's protocol and nothing else: the limit for all its promises
  toolbus  the full path of a call

and prints for each of them throughput and latency, and per call: CPU, of the server and of ours;
allocations; wake-ups (voluntary context switches); durable writes; round trips, those that ended while
the caller waited and all; and messages, with what caller, dispatcher and worker send+receive. Then the
ratios of Toolbus to raw and to the floor, and whether the targets are met: the exit code is 1 when one
is missed. An embedded server is part of ours. docs/performance.md says how to read the columns.
Needs no running bus.`,
		Example: `  toolbus-lab bench --quick
  toolbus-lab bench --server-mode process --sync interval --callers 16,128 --size 256
  toolbus-lab bench --scenario drain`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.Check(); err != nil {
				return cli.Usagef("%v", err)
			}
			if o.Duration <= 0 || o.Rounds < 1 || o.Slots < 1 || o.Drain < 1 || o.Rate < 0 {
				return cli.Usagef("use more than 0 for --duration, --rounds, --slots and --drain, and 0 or more for --rate")
			}
			var err error
			if o.Product, o.Self, err = l.programs(); err != nil {
				return err
			}
			o.Progress = l.env.Stderr
			return bench.Profiled(cpu, mem, func() error {
				report, err := bench.Run(cmd.Context(), o)
				if err != nil {
					return err
				}
				return cmp.Or(l.print(report, report.Write), met(report))
			})
		},
	}
	benchFlags(cmd, &o)
	f := cmd.Flags()
	f.StringVar(&cpu, "cpuprofile", "",
		"write a CPU profile of this process to `FILE`")
	f.StringVar(&mem, "memprofile", "",
		"write an allocation profile of this process to `FILE`")
	cmd.AddCommand(benchNodeCmd())
	return cmd
}

// met returns an error if a target was missed.
func met(r *bench.Report) error {
	if n := r.Missed(); n > 0 {
		return fmt.Errorf("%d of the targets were missed", n)
	}
	return nil
}

func benchFlags(cmd *cobra.Command, o *bench.Options) {
	f := cmd.Flags()
	f.IntSliceVar(&o.Callers, "callers", []int{1, 16, 128},
		"callers that each wait for an outcome before the next call")
	f.IntSliceVar(&o.Sizes, "size", []int{256, 64 << 10},
		"sizes of input, in bytes")
	f.DurationVar(&o.Duration, "duration", 5*time.Second,
		"length of one round")
	f.IntVar(&o.Rounds, "rounds", 3,
		"rounds of each pipeline per row")
	f.IntVar(&o.Rate, "rate", 200,
		"calls per second at a fixed rate; 0 measures none")
	f.StringVar(&o.Mode, "server-mode", bench.Both, "where the NATS server runs: embedded, process or both")
	f.StringVar(&o.Sync, "sync", bench.Both,
		"when the server writes to disk: always (before it acknowledges), interval or both")
	f.StringVar(&o.Scenario, "scenario", bench.Matrix,
		"matrix, drain, tools, idle, stream, flood, large, identity, mcp or all")
	f.BoolVar(&o.Quick, "quick", false, "a small matrix that takes less than a minute")
	f.IntVar(&o.Drain, "drain", 1_000_000, "calls of the large drain")
	f.IntVar(&o.Slots, "slots", 256, "slots of the executor, and workers of raw and floor")
	f.IntVar(&o.Partitions, "partitions", 1, "partitions of the call log (a drain has one)")
	f.StringVar(&o.Side, "side", bench.All, "measure only one side, to profile it: raw, floor, toolbus or all")
	f.BoolVar(&o.Identity, "identity", false,
		"use accounts and tokens (scenarios flood, large)")
	f.StringVar(&o.Dir, "dir", "",
		"`DIR` for the files of the servers (default: the temporary directory)")
}

// benchNodeCmd runs a dispatcher or an executor in its own process, for the benchmarks.
func benchNodeCmd() *cobra.Command {
	var o bench.NodeOptions
	var readyFile string
	cmd := &cobra.Command{
		Use: "node ROLE", Short: "Run one half of the product with the benchmark's tools, or a flood", Hidden: true,
		Args: cli.Args(1, 1, "a role"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var failed error
			o.Role = args[0]
			o.Ready = func() { failed = cli.WriteReady(readyFile, o.URL) }
			return errors.Join(bench.Node(cmd.Context(), o), failed)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.URL, "server", "", "URL of the NATS server")
	f.StringVar(&o.Credentials, "credentials", "", "file with the token of the process")
	f.StringVar(&o.Tools, "tools", "tools", "folder of tool manifests")
	f.StringVar(&o.Keys, "secrets-dir", "", "folder of the deployment's secrets, of a dispatcher")
	f.StringVar(&readyFile, "ready-file", "", "file to write the bus URL to once it serves")
	f.IntVar(&o.Slots, "slots", 16, "calls that run at once")
	return cmd
}
