package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

func repairCmd(g *global) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use: "repair", Short: "Decide about calls whose logs are damaged", GroupID: "operate",
		Long: `Lists the calls whose logs have lost events at rest, and decides about them. Until an operator decides,
dispatchers refuse each request for such a call with P-PRECOND-LOG_DAMAGED, effect unknown. All commands need the
credentials of an operator. Each decision is recorded.`,
		Example: "  toolbus repair list",
	})
	cmd.AddCommand(repairList(g),
		repairDecision(g, envelope.RepairAccept, &cobra.Command{
			Use: "accept REF --reason TEXT", Short: "Let a call run again under its key",
			Long: `Takes the log of a call as it is now. A request with the key of the call then runs it again, or gets the
outcome that is left in the log. First make sure that the call took no effect: "toolbus audit replay" shows its
outcome if it had one.

Exit codes: 0 done, also if it was accepted before; 11 the log is not damaged; 12 refused, such as a call whose key was
ended.`,
			Example: `  toolbus repair accept text_2esearch.0kd3… --reason "the bank has no such payment, see INC-7"`,
		}),
		repairDecision(g, envelope.RepairRefuse, &cobra.Command{
			Use: "refuse REF --reason TEXT", Short: "End the key of a call for good",
			Long: `Ends the key of a call whose log is damaged. Each request for it gets P-PRECOND-LOG_DAMAGED, effect
unknown, as a final answer, until the key is forgotten. That cannot be taken back: callers know that the key has ended.

Exit codes: 0 done, also if it was refused before; 11 the log is not damaged; 12 refused.`,
			Example: `  toolbus repair refuse text_2esearch.0kd3… --reason "the payment was made, see INC-7"`,
		}))
	return cmd
}

func repairList(g *global) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the calls whose logs are damaged", Args: cli.NoArgs,
		Long: `Lists the calls whose logs dispatchers have found damaged, the oldest first, with the decision of the
operator, until their keys are forgotten. A call is found when a request for it comes, or when its deadline passes.

Exit codes: 0 listed, also an empty list; 11 the bus refused, with the reason.`,
		Example: "  toolbus repair list --json --credentials operator.token",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.operating(cmd.Context(), func(c *admin.Client) error {
				all, err := c.Repairs(cmd.Context())
				if err != nil {
					return err
				}
				return g.print(envelope.RepairsResponse{Calls: all}, func(to io.Writer) error {
					return writeDamaged(to, g.zone(time.Now()), all)
				})
			})
		},
	}
}

func writeDamaged(to io.Writer, zone *time.Location, all []envelope.DamagedCall) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(to, "no call with a damaged log is known")
		return err
	}
	w := tabwriter.NewWriter(to, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "TENANT\tTOOL\tCALL\tFOUND\tFORGOTTEN\tDECISION")
	for _, c := range all {
		decision := "-"
		if c.Decision != "" {
			decision = fmt.Sprintf("%s by %s: %s", c.Decision, cli.EscapeCell(c.By), cli.EscapeCell(c.Reason))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", cli.EscapeCell(c.Tenant), cli.EscapeCell(c.Tool), cli.EscapeCell(c.Ref),
			c.Found.In(zone).Format(time.RFC3339), c.Expires.In(zone).Format(time.RFC3339), decision)
	}
	return w.Flush()
}

// repairDecision completes a command that makes a decision about a call.
func repairDecision(g *global, d envelope.Repair, cmd *cobra.Command) *cobra.Command {
	q := envelope.RepairRequest{Decision: d}
	cmd.Args, cmd.ValidArgsFunction = cli.Args(1, 1, "one call reference"), g.completeListed(1, damaged)
	cmd.Flags().StringVar(&q.Reason, "reason", "", "why, for the audit record")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if q.Reason == "" {
			return usagef("say why with --reason TEXT")
		}
		q.Ref = args[0]
		return g.repair(cmd.Context(), q)
	}
	return cmd
}

var repaired = map[envelope.Repair]string{
	envelope.RepairAccept: "accepted: a request with the key of %s may run it again",
	envelope.RepairRefuse: "refused: the key of %s has ended",
}

func (g *global) repair(ctx context.Context, q envelope.RepairRequest) error {
	return g.operating(ctx, func(c *admin.Client) error {
		a, err := c.Repair(ctx, q)
		if err != nil {
			return err
		}
		return g.say(a, fmt.Sprintf(repaired[q.Decision], cli.EscapeCell(q.Ref)))
	})
}
