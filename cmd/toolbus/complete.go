package main

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// completionTime is the time in which the bus must answer for a completion.
const completionTime = time.Second

// maxCompleted is the largest number of calls or runs that a completion offers.
const maxCompleted = 100

// inOrder completes nothing but the offered words, in their order.
const inOrder = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder

// completeFlag adds shell completion to a flag.
func completeFlag(cmd *cobra.Command, flag string, with cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, with); err != nil {
		panic(err) // cannot happen: the caller has added the flag
	}
}

// values completes a flag with its possible values.
func values[T ~string](of []T) cobra.CompletionFunc {
	return cobra.FixedCompletions(textsOf(of), cobra.ShellCompDirectiveNoFileComp)
}

// textsOf returns words of a type of their own as strings.
func textsOf[T ~string](of []T) []string {
	texts := make([]string, len(of))
	for i, v := range of {
		texts[i] = string(v)
	}
	return texts
}

// word returns a completion with its description.
func word(name, about string) string { return name + "\t" + cli.EscapeCell(about) }

// cutWord returns a completion without its description.
func cutWord(w string) string {
	name, _, _ := strings.Cut(w, "\t")
	return name
}

// permitted reports whether the user may use an operation: with credentials of one of its roles, or without any, as on
// a bus of `toolbus dev`. Completions ask the bus nothing that it would refuse, because refusals are on record.
func (c *connection) permitted(op operation.Info) bool {
	a, err := c.access()
	if err != nil || a.Credentials == "" {
		return err == nil
	}
	held, err := heldBy(a.Credentials)
	return err == nil && op.Permits(held.Principal().Role)
}

// listing lists completions over the client of an operator.
type listing func(ctx context.Context, c *admin.Client) ([]string, error)

// completeListed completes words that an operator can list, if the command takes most arguments. Without a bus it
// completes nothing.
func (c *connection) completeListed(most int, list listing) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) (words []string, _ cobra.ShellCompDirective) {
		if len(args) >= most || !c.permitted(operation.RunList.Info) { // as all lists, for operators
			return nil, inOrder
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		_ = c.operating(ctx, func(own *admin.Client) (err error) {
			words, err = list(ctx, own)
			return err
		})
		return slices.DeleteFunc(words, func(w string) bool { return slices.Contains(args, cutWord(w)) }), inOrder
	}
}

// runs lists the runs of the tenant, or only those in some states.
func (c *connection) runs(states ...policy.RunState) listing {
	return func(ctx context.Context, own *admin.Client) (words []string, _ error) {
		for r, err := range own.Runs(ctx, envelope.RunListRequest{Tenant: c.tenant}) {
			if err != nil || len(words) == maxCompleted {
				return words, err
			}
			if len(states) == 0 || slices.Contains(states, policy.RunState(r.State)) {
				words = append(words, word(r.ID, r.State+" since "+r.Start.UTC().Format(time.RFC3339)))
			}
		}
		return words, nil
	}
}

// ofPolicy lists names that the policy in force has.
func ofPolicy(names func(*policy.Set) []string) listing {
	return func(ctx context.Context, own *admin.Client) ([]string, error) {
		_, set, err := liveSet(ctx, own)
		if err != nil {
			return nil, err
		}
		return names(set), nil
	}
}

func laneNames(set *policy.Set) (names []string) {
	for _, l := range set.Lanes {
		names = append(names, l.ID)
	}
	return names
}

// completePolicy completes the flags of a command whose values are names of runs, lanes and roles of the policy.
func (c *connection) completePolicy(cmd *cobra.Command) {
	for flag, list := range map[string]listing{
		"run": c.runs(), "lane": ofPolicy(laneNames), "role-id": ofPolicy(roleNames),
	} {
		if cmd.Flags().Lookup(flag) != nil {
			completeFlag(cmd, flag, c.completeListed(math.MaxInt, list))
		}
	}
}

// locks lists the locks in force, as name returns them for a flag; it returns "" for those that are not of the flag.
func locks(name func(envelope.Lock) string) listing {
	return func(ctx context.Context, own *admin.Client) (words []string, _ error) {
		all, err := own.Locks(ctx)
		for _, l := range all {
			if n := name(l); n != "" {
				words = append(words, word(n, l.Reason))
			}
		}
		return words, err
	}
}

// damaged lists the calls whose logs are damaged.
func damaged(ctx context.Context, own *admin.Client) (words []string, _ error) {
	all, err := own.Repairs(ctx)
	for _, one := range all {
		words = append(words, word(one.Ref, one.Tool+" of "+one.Tenant))
	}
	return words, err
}

// completeRefs completes the references of open calls, the oldest first, and those of the newest calls on record, if
// recent is set and the user may read it.
func (c *connection) completeRefs(over connect, recent bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) (words []string, _ cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, inOrder
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		if c.permitted(operation.CallList.Info) {
			words = openRefs(ctx, over)
		}
		if !recent || !c.permitted(operation.Stored.Info) {
			return words, inOrder
		}
		_ = c.reading(ctx, func(from reader.Source) error { // without a record, the open calls remain
			f := reader.Filter{Tenant: c.tenant, Event: audit.ToolRequested, Last: maxCompleted}
			for r, err := range reader.Replay(ctx, from, f) {
				if err != nil {
					return err
				}
				w := word(r.Ref, r.ToolName+" of "+r.Actor+", "+r.Timestamp.UTC().Format(time.RFC3339))
				if !slices.ContainsFunc(words, func(have string) bool { return cutWord(have) == r.Ref }) {
					words = append(words, w)
				}
			}
			return nil
		})
		return words, inOrder
	}
}

// openRefs returns the references of open calls.
func openRefs(ctx context.Context, over connect) (words []string) {
	client, done, err := over(ctx)
	if err != nil {
		return nil
	}
	defer done()
	for call, err := range client.OpenCalls(ctx) {
		if err != nil || len(words) == maxCompleted {
			break
		}
		words = append(words, word(call.Ref, call.Tool+" of "+call.Actor+", "+string(call.State)))
	}
	return words
}
