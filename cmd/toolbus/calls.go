package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

func callsCmd(g *global) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use: "calls", Short: "List calls, or watch how they end", GroupID: "use",
		Example: "  toolbus calls list --open\n  toolbus calls list --since 1h\n  toolbus calls watch --slow 2s",
	})
	cmd.AddCommand(callsList(g), callsWatch(g))
	return cmd
}

// defaultListed is how many calls are listed without --limit.
const defaultListed = 1000

// callsFlags are the flags of `calls list`.
type callsFlags struct {
	open         bool
	limit        int
	tool, since  string
	status, code string
	slow         time.Duration
}

func callsList(g *global) *cobra.Command {
	f := &callsFlags{}
	cmd := &cobra.Command{
		Use: "list [--open]", Short: "List calls that have ended, or that are open", Args: cli.NoArgs,
		Long: `Without --open it lists the calls that have ended, the newest first, from the audit record: when each ended,
its outcome and effect, the time from the request to that, its actor, and its reference, which "trace" and "why" take
and which begins with the tool. Each attempt of a key is a row. It needs the credentials of an operator or auditor, as
"audit" does. Refused calls are not listed: "toolbus audit replay --event tool_denied" prints them. So invalid_request
matches only calls that a tool itself refused.

With --open it lists the calls of the actor that have no outcome yet, the oldest first: reference, tool and actor,
whether each is waiting or running, the time of its admission and its deadline. A call that the actor has only joined
is not listed. With the credentials of an operator, or on a bus of "toolbus dev", it lists the calls of all actors of
the tenant, or of that of --tenant.

Exit codes: 0 listed, also if no call matches; 1 the audit record is behind the calls; 11 the bus refused.`,
		Example: "  toolbus calls list --open\n" +
			"  toolbus calls list --since 24h --tool text.search --status terminal_error\n" +
			"  toolbus calls list --slow 2s --tenant acme --json --credentials operator.token",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			if f.open {
				return g.listOpen(cmd.Context(), f.limit)
			}
			return g.reading(cmd.Context(), func(from reader.Source) error { return f.printEnded(cmd.Context(), g, from) })
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.open, "open", false, "the calls that have no outcome yet")
	fl.IntVar(&f.limit, "limit", defaultListed, "list at most `N` calls")
	fl.StringVar(&f.since, "since", "1h", "calls that have ended since this `TIME`: RFC 3339, or a duration before now")
	f.selecting(g, cmd)
	return cmd
}

// selecting adds the flags that select calls that have ended.
func (f *callsFlags) selecting(g *global, cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.tool, "tool", "", "only calls of this `TOOL`")
	fl.StringVar(&f.status, "status", "", "only calls with this `STATUS`, for example terminal_error")
	fl.StringVar(&f.code, "code", "",
		"only calls with this error `CODE`, or of this class, for example R-TIMEOUT-001 or R-TIMEOUT")
	fl.DurationVar(&f.slow, "slow", 0, "only calls that took this `DURATION` or longer")
	completeFlag(cmd, "tool", g.completeTools(1))
	completeFlag(cmd, "status", values(envelope.Statuses()))
	completeFlag(cmd, "code", values(codes()))
}

func (f *callsFlags) check(cmd *cobra.Command) error {
	if f.limit < 1 {
		return usagef("--limit is %d: use 1 or more", f.limit)
	}
	for _, flag := range []string{"tool", "status", "code", "slow", "since"} {
		if f.open && cmd.Flags().Changed(flag) {
			return usagef("--%s is for calls that have ended: leave it or --open out", flag)
		}
	}
	if _, err := pointInTime(f.since, time.Time{}); err != nil {
		return err
	}
	return f.checkNames()
}

// checkNames refuses an unknown status or code.
func (f *callsFlags) checkNames() error {
	if err := (reader.Filter{Status: envelope.Status(f.status), Code: envelope.Code(f.code)}).Check(); err != nil {
		return usagef("%v", err)
	}
	return nil
}

// ended returns the calls that the flags select and that have ended since a time.
func (f *callsFlags) ended(
	ctx context.Context, g *global, from reader.Source, since string,
) (*endings, time.Time, error) {
	e, now, err := endedSince(ctx, g, from, since)
	if err != nil {
		return nil, now, err
	}
	e.tool, e.slow = f.tool, f.slow
	e.status, e.code = envelope.Status(f.status), envelope.Code(f.code)
	return e, now, nil
}

// printEnded prints the newest calls that have ended.
func (f *callsFlags) printEnded(ctx context.Context, g *global, from reader.Source) error {
	e, _, err := f.ended(ctx, g, from, f.since)
	if err != nil {
		return err
	}
	all, n := []endedCall{}, 0
	behind := e.past(ctx, func(c endedCall) error {
		if n++; len(all) >= 2*f.limit {
			all = append(all[:0], all[len(all)-f.limit:]...)
		}
		all = append(all, c)
		return nil
	})
	if behind != nil && !errors.Is(behind, errBehind) {
		return behind
	}
	all = all[max(0, len(all)-f.limit):]
	slices.Reverse(all)
	if n > f.limit {
		fmt.Fprintf(g.env.stderr, "toolbus: %d calls match: --limit N lists more\n", n)
	}
	return cmp.Or(g.print(all, func(w io.Writer) error { return writeEnded(w, all, g.env.lineWidth()) }), behind)
}

// writeEnded has the reference in the last column: it is the longest text of a row, so the others stay in their place.
func writeEnded(to io.Writer, all []endedCall, width int) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(to, "no call in that time matches\n"+
			"refused calls are not listed: toolbus audit replay --event tool_denied")
		return err
	}
	t := table{header: []string{"ENDED", "OUTCOME", "EFFECT", "TOOK", "ATTEMPT", "ACTOR", "REF"}, width: width}
	for _, c := range all {
		t.add(c.Ended.UTC().Format(time.RFC3339), cmp.Or(string(c.Code), string(c.Status)), string(c.Effect),
			tookOf(c.TookMS), strconv.Itoa(c.Attempt), c.Actor, c.Ref)
	}
	return t.write(to)
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
	return o.print(all, func(w io.Writer) error { return writeOpen(w, all, o.env.lineWidth()) })
}

func writeOpen(to io.Writer, all []envelope.OpenCall, width int) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(to, "no call is open")
		return err
	}
	t := table{header: []string{"REF", "STATE", "TOOL", "ACTOR", "SINCE", "DEADLINE"}, width: width}
	for _, c := range all {
		t.add(c.Ref, string(c.State), c.Tool, c.Actor, timeOrDash(c.Since), timeOrDash(c.Deadline))
	}
	return t.write(to)
}
