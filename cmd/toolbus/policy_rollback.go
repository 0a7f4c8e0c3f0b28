package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

func policyRollbackCmd(g *global) *cobra.Command {
	reason := ""
	cmd := &cobra.Command{
		Use: "rollback REVISION", Short: "Put an earlier policy in force again",
		Args:              cli.Args(1, 1, "a revision of `toolbus policy history`"),
		ValidArgsFunction: g.completeRevisions(1),
		Long: `Puts the set of an earlier revision in force, as a new revision. A dispatcher checks it against its tools
as for "policy push". Needs an operator's token. In the audit record and in "policy history" the reason begins with
"rollback to revision N". It first prints how many active runs it stops, which "runs repin" moves, and warns as
"policy push" does.`,
		Example: `  toolbus policy rollback 41 --reason "refunds failed"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			revision, err := revisionArg(args)
			if err != nil {
				return err
			}
			return g.operating(cmd.Context(), func(c *admin.Client) error {
				return rollBack(cmd.Context(), g, c, revision, reason)
			})
		},
	}
	reasonFlag(cmd, &reason)
	return cmd
}

func rollBack(ctx context.Context, g *global, c *admin.Client, revision uint64, reason string) error {
	was, err := newestPolicy(ctx, c)
	if err != nil {
		return err
	}
	wanted, err := c.PolicyRevision(ctx, revision)
	if err != nil {
		return err
	}
	same := fmt.Sprintf(", which revision %d had already", was.Revision)
	if was.Versions != wanted.Versions {
		same = ""
		if set, err := c.Policy(ctx, wanted); err == nil { // otherwise the dispatcher refuses the rollback
			warnOfLostRoles(ctx, g.env.stderr, c, was, policy.Documents(set))
			warnOfTools(ctx, g.env.stderr, c, policy.Documents(set))
		}
		if _, err := g.announceStops(ctx, c, was, "`toolbus runs repin` moves"); err != nil {
			return err
		}
	}
	now, err := c.RollbackPolicy(ctx, revision, reason)
	if err != nil {
		return err
	}
	return g.say(envelope.PolicyPushResponse{Revision: now},
		fmt.Sprintf("revision %d is in force, with the set of revision %d%s; %s", now, revision, same, takesEffect))
}
