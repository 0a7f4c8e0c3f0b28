package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/chaos"
	"github.com/seed-018f16cc/toolbus/internal/chaos/check"
	"github.com/seed-018f16cc/toolbus/internal/chaos/ledger"
	"github.com/seed-018f16cc/toolbus/internal/chaos/proxy"
)

func chaosCmd(g *global) *cobra.Command {
	var o chaos.Options
	cmd := &cobra.Command{
		Use: "chaos", Short: "Try to break a bus of its own, and check every promise", GroupID: "operate", Args: noArgs,
		Long: `Starts a NATS server (or three that replicate each other's streams), two dispatchers and three executors as
processes of their own, with wrong clocks, behind proxies that lose, delay and double messages. Makes calls of every
kind while it kills, freezes and restarts the processes, then checks what callers, tools, the call log and AUDIT
recorded against each other. It exits with 0 only if no promise was broken.

The seed fixes what is asked and which trouble is made when, not how processes are scheduled: a
violation may need several runs of its seed to come again. Keep what was recorded with --keep.`,
		Example: `  toolbus chaos --seed 7 --duration 1m
  toolbus chaos --duration 1h --rate 8 --keep ./chaos`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := g.isServer(cmd); err != nil {
				return err
			}
			if o.Duration <= 0 || o.Rate <= 0 || o.Calls < 0 {
				return usagef("--duration and --rate are more than 0, --calls is 0 or more")
			}
			if o.Partitions < 0 || o.Partitions > 2 {
				return usagef("--partitions is 1 or 2")
			}
			if err := checkServers(o); err != nil {
				return err
			}
			return runChaos(cmd, g, o)
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&o.Seed, "seed", 1, "of the calls and of the trouble")
	f.DurationVar(&o.Duration, "duration", time.Minute, "how long trouble is made")
	f.IntVar(&o.Calls, "calls", 0, "stop asking after so many keys (default: as many as fit)")
	f.Float64Var(&o.Rate, "rate", 10, "keys to ask for a second, each several times")
	f.StringVar(&o.Dir, "keep", "", "folder to keep logs and the recorded history in")
	f.BoolVar(&o.SyncAlways, "sync-always", true, "the server syncs to disk before every acknowledgement")
	f.IntVar(&o.Partitions, "partitions", 0,
		"partitions of the call log, 1 or 2: executors have 8 slots (default: by the seed)")
	f.BoolVar(&o.Calm, "calm", false, "make no trouble, to see that the calls end well without it")
	f.IntVar(&o.Servers, "servers", 1,
		"NATS servers, 1 or 3: three are killed, restarted and frozen by a plan of their own")
	f.StringVar(&o.Only, "only", "", "with --servers 3, make only this trouble: "+strings.Join(chaos.Pieces(), ", "))
	f.StringVar(&o.Beside, "beside", "",
		"another build of this program, as old or older: dispatchers and executors are replaced by it and back, one by one")
	return cmd
}

func checkServers(o chaos.Options) error {
	switch {
	case o.Servers != 1 && o.Servers != 3:
		return usagef("--servers is 1 or 3")
	case o.Only != "" && o.Servers == 1:
		return usagef("--only is for --servers 3")
	case o.Only != "" && !slices.Contains(chaos.Pieces(), o.Only):
		return usagef("--only is one of %s", strings.Join(chaos.Pieces(), ", "))
	}
	return nil
}

func runChaos(cmd *cobra.Command, g *global, o chaos.Options) error {
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	o.Binary, o.Keep = binary, o.Dir != ""
	say := g.env.stderr
	begun := time.Now()
	o.Tell = func(what string) { fmt.Fprintf(say, "%7.1fs  %s\n", time.Since(begun).Seconds(), what) }
	o.Progress = func(p chaos.Progress) {
		fmt.Fprintf(say, "%7.1fs  %d requests, %d faults\n", time.Since(begun).Seconds(), p.Asks, p.Faults)
	}
	report, err := chaos.Run(cmd.Context(), o)
	if err != nil {
		return err
	}
	if g.json {
		err = printJSON(g.env.stdout, report)
	} else {
		err = printChaos(g.env.stdout, report)
	}
	if err == nil && !report.OK() {
		err = exitError(1)
	}
	return err
}

// printChaos prints what was done, what was checked, and every violation with its story.
func printChaos(out io.Writer, r chaos.Report) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "seed\t%d, %s, %d servers, sync always %t\n", r.Seed, time.Duration(r.DurationMS)*time.Millisecond,
		r.Servers, r.SyncAlways)
	fmt.Fprintf(w, "asked\t%d requests for %d keys: %s; %d local answers, %d unsent\n", r.Asks, r.Keys,
		counted(r.Answers), r.Local, r.Unsent)
	fmt.Fprintf(w, "log\t%d attempts, decided by %s; %d joined, %d takeovers\n", r.Attempts, counted(r.Deciders),
		r.Joined, r.Takeovers)
	fmt.Fprintf(w, "tools\t%d runs, %d effects\n", r.Runs, r.Effects)
	fmt.Fprintf(w, "audit\t%d records\n", r.Records)
	fmt.Fprintf(w, "faults\t%s\n", counted(r.Faults))
	for _, kind := range proxy.Kinds() {
		if c := r.Messages[kind]; c.Dropped+c.Delayed+c.Doubled > 0 {
			fmt.Fprintf(w, "%s\t%d passed, %d dropped, %d delayed, %d doubled\n", kind, c.Passed, c.Dropped, c.Delayed,
				c.Doubled)
		}
	}
	for _, o := range r.Outages {
		fmt.Fprintf(w, "%.1fs\t%s: no writes to the call log for %.1fs; of %d open calls due then %d had only the local "+
			"answer\n",
			seconds(o.AtMS), o.What, seconds(o.SilentMS), o.Due, o.Local)
	}
	if r.Unjudged > 0 {
		fmt.Fprintf(w, "late\t%d answers that are not judged: control timers were late too\n", r.Unjudged)
	}
	fmt.Fprintln(w)
	byRule := map[string]int{}
	for _, v := range r.Violations {
		byRule[v.Rule]++
	}
	for _, rule := range append(check.Rules(), check.Rule{Name: "process", Says: "no process ends by itself"}) {
		result := "ok"
		if n := byRule[rule.Name]; n > 0 {
			result = fmt.Sprintf("BROKEN %d times", n)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", rule.Name, result, rule.Says)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return printViolations(out, r)
}

func seconds(ms int64) float64 { return float64(ms) / 1000 }

func printViolations(out io.Writer, r chaos.Report) error {
	for _, v := range r.Violations {
		fmt.Fprintf(out, "\n%s\n", v)
	}
	for _, ref := range slices.Sorted(maps.Keys(r.Stories)) {
		fmt.Fprintf(out, "\nthe story of %s:\n%s", ref, r.Stories[ref])
	}
	verdict := "no promise was broken"
	if n := len(r.Violations); n > 0 {
		verdict = fmt.Sprintf("%d violations", n)
	}
	if r.Dir != "" {
		verdict += "; logs and history are in " + r.Dir
	}
	_, err := fmt.Fprintf(out, "\n%s\n", verdict)
	return err
}

// counted prints counts by name.
func counted[K cmp.Ordered](counts map[K]int) string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%d %v", counts[name], name)
	}
	return text
}

// chaosToolCmd is what the tools of a chaos run are.
func chaosToolCmd(g *global) *cobra.Command {
	return &cobra.Command{
		Use: chaos.ToolCommand, Hidden: true,
		Args: func(_ *cobra.Command, args []string) error { return argCount(args, 1, 1, "the ledger") },
		RunE: func(_ *cobra.Command, args []string) error { return ledger.Run(g.env.stdin, g.env.stdout, args[0]) },
	}
}
