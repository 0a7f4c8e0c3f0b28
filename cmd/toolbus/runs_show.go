package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/cli"
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
	return g.reading(ctx, func(from reader.Source) error { return g.printRun(ctx, from, run) })
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
	w := tabwriter.NewWriter(to, 0, 4, 2, ' ', 0)
	for _, line := range [][2]string{
		{"run", s.ID}, {"tenant", s.Tenant}, {"state", s.State}, {"role", orDash(s.Role)}, {"lanes", escapedList(s.Lanes)},
		{"actors", escapedList(s.Actors)}, {"started", timeOrDash(s.Start) + " by " + s.By}, {"ended", timeOrDash(s.End)},
		{"policy", fmt.Sprintf("roles %.*s, lanes %.*s, tool registry %.*s", shortDigest, s.Policies.Roles, shortDigest,
			s.Policies.Lanes, shortDigest, s.Policies.ToolRegistry)},
	} {
		fmt.Fprintf(w, "%s\t%s\n", line[0], orDash(cli.EscapeCell(line[1])))
	}
	if err := w.Flush(); err != nil || len(s.Segments) == 0 {
		return err
	}
	fmt.Fprintln(w, "\nSTARTED\tSTATE\tTOOL\tATTEMPTS\tCODE\tCALL")
	for _, one := range s.Segments {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\n", timeOrDash(one.Start), one.State, cli.EscapeCell(one.Tool), one.Attempts,
			orDash(string(one.Code)), cli.EscapeCell(one.Ref+orCallID(one)))
	}
	return w.Flush()
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
