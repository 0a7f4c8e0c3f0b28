package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

func callsWatch(g *global) *cobra.Command {
	f := &callsFlags{}
	cmd := &cobra.Command{
		Use: "watch", Short: "Print calls as they end, until Ctrl-C", Args: cli.NoArgs,
		Long: `Prints each call that ends from now on and that matches all flags, as soon as the audit record has it: when it
ended, its outcome, the time from the request to that, its tool, and below its reference and its actor. --json prints a
line for each. At its start it reads an hour of the record, for the requests of calls that are open. It goes on while no
dispatcher answers. It needs the credentials of an operator or auditor, as "audit" does.

Exit codes: 0 ended by Ctrl-C; 1 no server, or the output could not be written; 11 the bus refused.`,
		Example: "  toolbus calls watch --tool text.search --slow 2s\n" +
			"  toolbus calls watch --status terminal_error --tenant acme --json --credentials operator.token",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.checkNames(); err != nil {
				return err
			}
			return g.reading(cmd.Context(), func(from reader.Source) error { return f.watch(cmd.Context(), g, from) })
		},
	}
	f.selecting(g, cmd)
	return cmd
}

// watch prints calls as they end, until ctx ends.
func (f *callsFlags) watch(ctx context.Context, g *global, from reader.Source) error {
	e, now, err := f.ended(ctx, g, from, "0s")
	if err != nil {
		return err
	}
	e.until = now
	err = e.past(ctx, func(endedCall) error { return nil }) // for the requests
	if errors.Is(err, errBehind) {
		fmt.Fprintln(g.env.stderr, "toolbus:", err)
		err = nil
	}
	if err == nil {
		err = e.next(ctx, func(c endedCall) error { return printEnding(g, c) })
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// printEnding prints a call that has ended.
func printEnding(g *global, c endedCall) error {
	if g.json {
		return cli.WriteJSONLine(g.env.stdout, c)
	}
	row := fmt.Sprintf("%s  %-20s %9s  %s", c.Ended.UTC().Format(time.RFC3339), cmp.Or(string(c.Code), string(c.Status)),
		cmp.Or(tookOf(c.TookMS), "-"), c.Tool)
	if _, err := fmt.Fprintln(g.env.stdout, cli.EscapeCell(row)); err != nil {
		return err
	}
	details := "ref " + c.Ref + ", actor " + c.Actor
	if c.Attempt > 1 {
		details += fmt.Sprintf(", attempt %d", c.Attempt)
	}
	writeWrapped(g.env.stdout, detailIndent, details)
	return nil
}
