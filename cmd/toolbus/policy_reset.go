package main

import (
	"cmp"
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	policystore "github.com/seed-018f16cc/toolbus/internal/policy/store"
)

func policyResetCmd(g *global) *cobra.Command {
	o := pushOptions{}
	cmd := &cobra.Command{
		Use: "reset", Short: "Put the policy in force again that allows all tools", Args: cli.NoArgs,
		Long: `Puts the set in force that "toolbus dev" has made, which allows all tools. From then on "toolbus dev"
changes it with its tools, as before the first push. On any other bus, the set is that of "policy init" for the tools
of the bus.
It is a push: runs stop, unless --repin moves them, and the audit record and "policy history" name the operator and the
reason. The replaced policy stays in the history: "policy rollback" puts it in force again. Needs an operator's token.`,
		Example: `  toolbus policy reset
  toolbus policy reset --reason "the trial is over" --repin`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.operating(cmd.Context(), func(c *admin.Client) error {
				d, err := initialPolicy(cmd.Context(), c)
				if err != nil {
					return err
				}
				o.reason = cmp.Or(o.reason, resetReason)
				return g.pushPolicy(cmd.Context(), c, d, o)
			})
		},
	}
	o.flags(cmd)
	return cmd
}

// resetReason is the reason of a reset without --reason.
const resetReason = "reset: all tools are allowed"

// initialPolicy returns the newest set that a dispatcher has made to allow all tools. Without one, it makes a set for
// the tools of the bus.
func initialPolicy(ctx context.Context, c *admin.Client) (policy.Documents, error) {
	all, err := c.PolicyHistory(ctx)
	if err != nil {
		return policy.Documents{}, err
	}
	if at := slices.IndexFunc(all, policystore.MadeByAllowAll); at >= 0 {
		d, err := c.Policy(ctx, all[at])
		return policy.Documents(d), err
	}
	tools, err := manifestsOf(ctx, c)
	if err != nil {
		return policy.Documents{}, err
	}
	return policy.Generate(tools)
}
