package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

func runsCmd(g *global) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use: "runs", Short: "Start, pause, close and show the runs that calls belong to", GroupID: "operate",
		Long: `A call belongs to a run, which its request names as run_id. A run has actors, a role, lanes and a state, and is
pinned to the policy that it was started with. These commands need an operator's token. With the scope run:start,
an agent starts and closes runs of its own.`,
		Example: "  toolbus runs start nightly-42 --calls-of agent://night --role-id agent --lane default\n" +
			"  toolbus runs show nightly-42\n  toolbus runs close nightly-42 --reason done",
	})
	cmd.AddCommand(runsStart(g),
		runsChange(g, "pause", "paused", policy.RunPaused, "Deny further calls of a run until it is resumed",
			policy.RunActive),
		runsChange(g, "resume", "resumed", policy.RunActive, "Allow calls of a paused run again",
			policy.RunPaused),
		runsChange(g, "close", "closed", policy.RunClosed, "End a run: it has no further calls",
			policy.RunActive, policy.RunPaused),
		runsRepin(g), runsShow(g), runsList(g))
	return cmd
}

func runReason(cmd *cobra.Command, reason *string) {
	cmd.Flags().StringVar(reason, "reason", "",
		"why, in at most 1000 bytes, for the audit record")
}

func runsStart(g *global) *cobra.Command {
	q := envelope.RunStartRequest{}
	cmd := &cobra.Command{
		Use: "start [RUN_ID]", Short: "Start a run", Args: cli.Args(0, 1, "at most one id"),
		Long: `Starts a run that is pinned to the policy in force, and prints its id. RUN_ID has no spaces. Without it the id
is a new one. Repeated, the command finds the run that it has started.

An agent needs the scope run:start. Its run is for the agent and its sub-actors, a role that its token carries, and
lanes of that role.`,
		Example: `  toolbus runs start nightly-42 --calls-of agent://night --role-id agent --lane default
  toolbus runs start --json  # as an agent: for its own calls`,
		RunE: func(cmd *cobra.Command, args []string) error {
			q.ID, q.Tenant = strings.Join(args, ""), g.ofTenant()
			return g.operating(cmd.Context(), func(c *admin.Client) error {
				a, err := c.StartRun(cmd.Context(), q)
				if err != nil {
					return err
				}
				return g.say(a, cli.EscapeCell(a.Run.ID))
			})
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&q.Actors, "calls-of", nil,
		"`ACTOR` whose calls, and those of its sub-actors, may belong to the run; repeat it for more (default: the agent)")
	f.StringVar(&q.Role, "role-id", "",
		"`ROLE` of the policy that its calls have (default: of an agent its role, else any)")
	f.StringArrayVar(&q.Lanes, "lane", nil,
		"`LANE` of its calls; repeat it for more (default: all of the role)")
	g.completePolicy(cmd)
	runReason(cmd, &q.Reason)
	return cmd
}

// maxRunArgs is the largest number of runs on one command line.
const maxRunArgs = 1000

// runsChange returns the command that changes the state of runs. It completes runs in the states from.
func runsChange(
	g *global, verb, done string, state policy.RunState, short string, from ...policy.RunState,
) *cobra.Command {
	q := envelope.RunChangeRequest{State: string(state)}
	cmd := &cobra.Command{
		Use: verb + " RUN_ID...", Short: short, Args: cli.Args(1, maxRunArgs, "the ids of runs"),
		ValidArgsFunction: g.completeListed(maxRunArgs, g.runs(from...)),
		Long: short + `.

Dispatchers know within a second. Calls that were admitted go on; "toolbus lock" stops those, too. Each change is an
event of the audit record. The exit code is 1 if one of several runs was not changed.`,
		Example: "  toolbus runs " + verb + " nightly-42 --reason \"see INC-7\"\n" +
			"  toolbus runs " + verb + " nightly-42 nightly-43 --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Tenant = g.ofTenant()
			return g.eachRun(cmd.Context(), args, done, func(c *admin.Client, id string) (envelope.RunResponse, error) {
				q.ID = id
				return c.ChangeRun(cmd.Context(), q)
			})
		},
	}
	runReason(cmd, &q.Reason)
	return cmd
}

func runsRepin(g *global) *cobra.Command {
	q := envelope.RunRequest{}
	cmd := &cobra.Command{
		Use: "repin RUN_ID...", Short: "Pin a run to the policy in force", Args: cli.Args(1, maxRunArgs, "the ids of runs"),
		ValidArgsFunction: g.completeListed(maxRunArgs, g.runs(policy.RunActive, policy.RunPaused)),
		Long: `Moves an active or paused run to the policy in force. A run is pinned to the policy that it was started with,
and its calls are denied after another one was pushed. "policy push --repin" moves all active runs. Each move is an
event of the audit record.`,
		Example: "  toolbus runs repin nightly-42 --reason \"the new lane is wanted\"\n" +
			"  toolbus runs repin nightly-42 nightly-43 --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Tenant = g.ofTenant()
			return g.eachRun(cmd.Context(), args, "pinned to the policy in force",
				func(c *admin.Client, id string) (envelope.RunResponse, error) {
					q.ID = id
					return c.RepinRun(cmd.Context(), q)
				})
		},
	}
	runReason(cmd, &q.Reason)
	return cmd
}

// eachRun changes runs one after the other, and prints what became of each. It goes on after a refusal.
func (g *global) eachRun(
	ctx context.Context, ids []string, done string, change func(*admin.Client, string) (envelope.RunResponse, error),
) error {
	return g.operating(ctx, func(c *admin.Client) error {
		all, runs, failed := []envelope.RunResponse{}, []envelope.Run{}, false
		for _, id := range ids {
			a, err := change(c, id)
			switch {
			case err != nil && len(ids) == 1:
				return err
			case err != nil:
				failed = true
				fmt.Fprintf(g.env.stderr, "toolbus: run %s: %s\n", cli.EscapeCell(id), cli.EscapeText(err.Error()))
			default:
				all = append(all, a)
			}
		}
		err := g.print(all, func(w io.Writer) error { return writeChanges(w, all, done) })
		for _, a := range all {
			runs = append(runs, a.Run)
		}
		warnOfPins(ctx, g, c, runs...)
		return cmp.Or(err, exitIf(failed, 1))
	})
}

func writeChanges(w io.Writer, all []envelope.RunResponse, done string) (err error) {
	for _, a := range all {
		already := ""
		if !a.Changed {
			already = " already"
		}
		_, err = fmt.Fprintf(w, "run %s: %s%s\n", cli.EscapeCell(a.Run.ID), done, already)
	}
	return err
}

func runsList(g *global) *cobra.Command {
	q := envelope.RunListRequest{}
	cmd := &cobra.Command{
		Use: "list", Short: "List runs", Args: cli.NoArgs,
		Long: `Lists the runs of all tenants, or of --tenant, the one changed longest ago first. Implicit runs, which
dispatchers start for calls that name none, are left out without --implicit. Closed runs are kept for 72 h.`,
		Example: "  toolbus runs list --run-state active\n  toolbus runs list --implicit --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			q.Tenant = g.ofTenant()
			return g.operating(cmd.Context(), func(c *admin.Client) error {
				all := []envelope.Run{}
				for r, err := range c.Runs(cmd.Context(), q) {
					if err != nil {
						return err
					}
					all = append(all, r)
				}
				return g.print(all, func(w io.Writer) error { return writeRuns(w, all) })
			})
		},
	}
	states := []policy.RunState{policy.RunActive, policy.RunPaused, policy.RunClosed}
	cmd.Flags().StringVar(&q.State, "run-state", "",
		"only runs in this `STATE`: active, paused or closed")
	cmd.Flags().BoolVar(&q.Implicit, "implicit", false,
		"implicit runs, too")
	completeFlag(cmd, "run-state", values(states))
	return cmd
}

func writeRuns(to io.Writer, all []envelope.Run) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(to, "no run matches")
		return err
	}
	w := tabwriter.NewWriter(to, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "RUN\tTENANT\tSTATE\tROLE\tLANES\tACTORS\tSTARTED")
	for _, r := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", cli.EscapeCell(r.ID), cli.EscapeCell(r.Tenant), r.State,
			orDash(cli.EscapeCell(r.Role)), orDash(escapedList(r.Lanes)), escapedList(r.Actors),
			r.Start.UTC().Format(time.RFC3339))
	}
	return w.Flush()
}

func escapedList(names []string) string { return cli.EscapeCell(strings.Join(names, ",")) }
