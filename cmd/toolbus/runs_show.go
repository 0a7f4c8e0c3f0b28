package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// shownRun is a run with its segments.
type shownRun struct {
	envelope.Run
	Segments []envelope.RunSegment `json:"segments"`
}

func runsShow(g *global) *cobra.Command {
	return &cobra.Command{
		Use: "show RUN_ID", Short: "Print a run with its segments", Args: cli.Args(1, 1, "the id of a run"),
		ValidArgsFunction: g.completeListed(1, g.runs()),
		Long: `Prints the record of a run, and its segments: one for each call, as the audit record has it. A segment is
running, succeeded, failed (the call has failed, or its deadline has passed, or it was cancelled), denied, or joined
(the call belongs to another run).

The exit code is 1 if the audit log is behind the calls, so that segments may be missing.`,
		Example: "  toolbus runs show nightly-42\n  toolbus runs show nightly-42 --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			return g.operating(cmd.Context(), func(c *admin.Client) error {
				return g.showRun(cmd.Context(), c, envelope.RunRequest{ID: args[0], Tenant: g.ofTenant()})
			})
		},
	}
}

func (g *global) showRun(ctx context.Context, c *admin.Client, q envelope.RunRequest) error {
	run, err := c.RunRecord(ctx, q)
	if err != nil {
		return err
	}
	warnOfPins(ctx, g, c, run)
	return g.reading(ctx, func(from reader.Source) error { return g.printRun(ctx, from, run) })
}

// warnOfPins says of each run whose calls are refused because of the policy that it is pinned to, and what to do. It
// says nothing if no dispatcher answers.
func warnOfPins(ctx context.Context, g *global, c *admin.Client, runs ...envelope.Run) {
	runs = slices.DeleteFunc(runs, func(r envelope.Run) bool {
		return r.State == string(policy.RunClosed) || policy.IsImplicitRunID(r.ID)
	})
	if len(runs) == 0 {
		return
	}
	all, err := c.PolicyHistory(ctx)
	if err != nil || len(all) == 0 {
		return
	}
	for _, r := range runs {
		if r.Policies != all[0].Versions {
			fmt.Fprintf(g.env.stderr, "run %s is pinned to %s, and revision %d is in force, so its calls are refused: "+
				"`toolbus runs repin` moves it\n", cli.EscapeCell(r.ID), pinnedTo(r, all), all[0].Revision)
		}
	}
}

// pinnedTo names the policy of a run by its newest revision in the history.
func pinnedTo(r envelope.Run, history []envelope.PolicyVersion) string {
	for _, v := range history {
		if v.Versions == r.Policies {
			return fmt.Sprintf("revision %d of the policy", v.Revision)
		}
	}
	return "a policy that the history no longer has"
}

func (g *global) printRun(ctx context.Context, from reader.Source, run envelope.Run) (err error) {
	behind := upToDate(ctx, from)
	if behind != nil && !errors.Is(behind, errBehind) {
		return behind
	}
	s := shownRun{Run: run}
	if s.Segments, err = reader.RunSegments(ctx, from, run.Tenant, run.ID); err != nil {
		return err
	}
	if err := g.print(s, s.write); err != nil {
		return err
	}
	return behind
}

func (s shownRun) write(to io.Writer) error {
	for _, line := range [][2]string{
		{"run", s.ID}, {"tenant", s.Tenant}, {"state", s.State}, {"role", s.Role}, {"lanes", strings.Join(s.Lanes, ", ")},
		{"actors", strings.Join(s.Actors, ", ")}, {"started", timeOrDash(s.Start) + " by " + s.By},
		{"ended", timeOrDash(s.End)},
		{"policy", fmt.Sprintf("roles %s, lanes %s, tool registry %s", shortened(s.Policies.Roles),
			shortened(s.Policies.Lanes), shortened(s.Policies.ToolRegistry))},
	} {
		writeField(to, len("started"), line[0], orDash(line[1]))
	}
	if len(s.Segments) == 0 {
		return nil
	}
	fmt.Fprintln(to)
	t := table{header: []string{"STARTED", "STATE", "TOOL", "ATTEMPTS", "CODE", "CALL"}}
	for _, one := range s.Segments {
		t.add(timeOrDash(one.Start), one.State, one.Tool, fmt.Sprint(one.Attempts), string(one.Code), one.Ref+orCallID(one))
	}
	return t.write(to)
}

// orCallID returns the call id of a segment without a reference.
func orCallID(s envelope.RunSegment) string {
	if s.Ref != "" {
		return ""
	}
	return s.CallID
}

func timeOrDash(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}
