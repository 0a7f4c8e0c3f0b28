package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

func statsCmd(g *global) *cobra.Command {
	since, tool := "", ""
	cmd := &cobra.Command{
		Use: "stats", Short: "Count the calls of each tool, with their errors and times", GroupID: "operate",
		Args: cli.Args(0, 0, "no argument (--tool TOOL counts the calls of one)"),
		Long: `Counts the calls that have ended since a time, by tool, from the audit record: how many, with success, the
errors by class, and the 50th, 95th and 99th percentile of the time from request to outcome, which includes the time
in the queue. Each attempt of a key counts. It needs the credentials of an operator or auditor, as "audit" does.

Exit codes: 0 counted; 1 the audit record is behind the calls, so that calls may be missing; 11 the bus refused.`,
		Example: "  toolbus stats --since 1h\n" +
			"  toolbus stats --since 7d --tool text.search --json --credentials operator.token",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := pointInTime(since, time.Time{}); err != nil {
				return err
			}
			return g.reading(cmd.Context(), func(from reader.Source) error {
				return printStats(cmd.Context(), g, from, tool, since)
			})
		},
	}
	cmd.Flags().StringVar(&since, "since", "1h",
		"start at this `TIME`: RFC 3339, or a duration before now, such as 1h or 7d")
	cmd.Flags().StringVar(&tool, "tool", "", "only this `TOOL`")
	completeFlag(cmd, "tool", g.completeTools(1))
	return cmd
}

// toolStats are the counts of the calls of one tool. The percentiles are nil if the request of no call is on record.
type toolStats struct {
	Tool    string                        `json:"tool"`
	Calls   int                           `json:"calls"`
	Success int                           `json:"success"`
	Errors  map[envelope.ErrorClass]int64 `json:"errors,omitzero"` // by class
	P50     *int64                        `json:"p50_ms,omitzero"`
	P95     *int64                        `json:"p95_ms,omitzero"`
	P99     *int64                        `json:"p99_ms,omitzero"`
	took    []int64
}

func newToolStats(tool string) *toolStats {
	return &toolStats{Tool: tool, Errors: map[envelope.ErrorClass]int64{}}
}

func (s *toolStats) add(c endedCall) {
	s.Calls++
	if c.Status == envelope.Success {
		s.Success++
	} else {
		s.Errors[c.Code.Class()]++
	}
	if c.TookMS != nil {
		s.took = append(s.took, *c.TookMS)
	}
}

// rank sets the percentiles, each the smallest time that this percentage of the calls did not exceed.
func (s *toolStats) rank() {
	slices.Sort(s.took)
	at := func(percent int) *int64 {
		if len(s.took) == 0 {
			return nil
		}
		return new(s.took[(len(s.took)*percent+99)/100-1])
	}
	s.P50, s.P95, s.P99 = at(50), at(95), at(99)
}

func printStats(ctx context.Context, g *global, from reader.Source, tool, since string) error {
	e, _, err := endedSince(ctx, g, from, since)
	if err != nil {
		return err
	}
	e.tool = tool
	tools := map[string]*toolStats{}
	behind := e.past(ctx, func(c endedCall) error {
		if tools[c.Tool] == nil {
			tools[c.Tool] = newToolStats(c.Tool)
		}
		tools[c.Tool].add(c)
		return nil
	})
	if behind != nil && !errors.Is(behind, errBehind) {
		return behind
	}
	all := []*toolStats{}
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		tools[name].rank()
		all = append(all, tools[name])
	}
	if len(all) == 0 && tool != "" {
		return cmp.Or(g.print(all, func(w io.Writer) error { return writeNoStats(ctx, w, e) }), behind)
	}
	return cmp.Or(g.print(all, func(w io.Writer) error { return writeStats(w, all) }), behind)
}

// writeNoStats says that no call of a tool has ended, and which tool with such calls has the most similar name.
func writeNoStats(ctx context.Context, to io.Writer, e *endings) error {
	of, names, hint := e.tool, map[string]bool{}, ""
	e.tool = ""
	err := e.past(ctx, func(c endedCall) error { names[c.Tool] = true; return nil })
	if near, ok := envelope.Nearest(of, slices.Sorted(maps.Keys(names))); ok {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	if err != nil && !errors.Is(err, errBehind) {
		return err
	}
	_, err = fmt.Fprintf(to, "no call of %s has ended in that time%s\n", cli.EscapeCell(of), hint)
	return err
}

func writeStats(to io.Writer, all []*toolStats) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(to, "no call has ended in that time")
		return err
	}
	t := table{header: []string{"TOOL", "ATTEMPTS", "SUCCESS", "P50", "P95", "P99", "ERRORS"}}
	for _, s := range all {
		var classes []string
		for _, class := range slices.Sorted(maps.Keys(s.Errors)) {
			classes = append(classes, fmt.Sprintf("%s %d", class, s.Errors[class]))
		}
		t.add(s.Tool, fmt.Sprint(s.Calls), fmt.Sprint(s.Success), tookOf(s.P50), tookOf(s.P95), tookOf(s.P99),
			strings.Join(classes, ", "))
	}
	return t.write(to)
}

// tookOf returns a number of milliseconds as text, and "" for nil.
func tookOf(ms *int64) string {
	if ms == nil {
		return ""
	}
	return brief(time.Duration(*ms) * time.Millisecond)
}
