package main

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

func callsCmd(g *global) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use: "calls", Short: "List the calls that are open", GroupID: "use",
		Example: "  toolbus calls list --open",
	})
	cmd.AddCommand(callsList(g))
	return cmd
}

// defaultListed is how many open calls are listed without --limit.
const defaultListed = 1000

func callsList(g *global) *cobra.Command {
	open, limit := false, 0
	cmd := &cobra.Command{
		Use: "list --open", Short: "List the calls that have no outcome yet", Args: cli.NoArgs,
		Long: `Lists the calls of the actor that have no outcome yet, the oldest first. Each has its reference, which "why",
"result" and "cancel" take, its tool and actor, whether it is waiting or running, the time of its admission and its
deadline. A call that the actor has only joined is not listed. With the credentials of an operator, or on a bus of
"toolbus dev", it lists the calls of all actors of the tenant, or of that of --tenant.

Exit codes: 0 listed, also if no call is open; 11 the bus refused, with the reason.`,
		Example: "  toolbus calls list --open\n" +
			"  toolbus calls list --open --tenant acme --json --credentials operator.token",
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case !open:
				return usagef("say which calls with --open; `toolbus why REF` explains one that has ended, and operators " +
					"find all of them with `toolbus audit replay`")
			case limit < 1:
				return usagef("--limit is %d: use 1 or more", limit)
			}
			return g.listOpen(cmd.Context(), limit)
		},
	}
	cmd.Flags().BoolVar(&open, "open", false, "the calls that have no outcome yet")
	cmd.Flags().IntVar(&limit, "limit", defaultListed, "list at most `N` calls")
	return cmd
}

func (g *global) listOpen(ctx context.Context, limit int) error {
	if g.given("tenant") {
		return g.operating(ctx, func(c *admin.Client) error { return g.printOpen(c.OpenCalls(ctx, g.tenant), limit) })
	}
	c, done, err := g.asker(ctx)
	if err != nil {
		return err
	}
	defer done()
	return g.printOpen(c.OpenCalls(ctx), limit)
}

// printOpen prints at most limit calls, and says whether there are more.
func (o *output) printOpen(calls iter.Seq2[envelope.OpenCall, error], limit int) error {
	all := []envelope.OpenCall{}
	for c, err := range calls {
		if err != nil {
			return err
		}
		if len(all) == limit {
			fmt.Fprintf(o.env.stderr, "toolbus: more than %s open: --limit N lists more\n",
				plural(limit, "call is", "calls are"))
			break
		}
		all = append(all, c)
	}
	return o.print(all, func(w io.Writer) error { return writeOpen(w, all) })
}

func writeOpen(to io.Writer, all []envelope.OpenCall) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(to, "no call is open")
		return err
	}
	t := table{header: []string{"REF", "STATE", "TOOL", "ACTOR", "SINCE", "DEADLINE"}}
	for _, c := range all {
		t.add(c.Ref, string(c.State), c.Tool, c.Actor, timeOrDash(c.Since), timeOrDash(c.Deadline))
	}
	return t.write(to)
}
