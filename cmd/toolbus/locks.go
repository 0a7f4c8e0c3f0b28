package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/client"
)

func lockCmd(g *global) *cobra.Command {
	q := envelope.LockRequest{}
	cmd := &cobra.Command{
		Use: "lock [--all|--lane LANE|--tool TOOL --reason TEXT]", Short: "Stop calls with a safety lock, or list the locks",
		GroupID: "operate", Args: cli.NoArgs,
		Long: `Sets a safety lock on all calls, on those of a tool, or on those whose request names a lane. Within a
second no dispatcher admits such a call and no executor starts one: it ends with P-PRECOND-LOCKED, which names you,
the time and the reason. Running calls go on. The lock stays until "toolbus unlock" clears it. A lock of the same
target is replaced.

Without a target it lists the locks in force. It needs the credentials of an operator. Each change is recorded.`,
		Example: `  toolbus lock --tool mcp::github::issues.create --reason "wrong repository, see INC-7"
  toolbus lock --all --reason "leaked credentials"
  toolbus lock  # the locks in force`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q == (envelope.LockRequest{}) {
				return g.listLocks(cmd.Context())
			}
			return g.changeLock(cmd.Context(), q, "locked", (*client.Client).Lock)
		},
	}
	lockFlags(cmd, &q)
	return cmd
}

func unlockCmd(g *global) *cobra.Command {
	q := envelope.LockRequest{}
	cmd := &cobra.Command{
		Use: "unlock --all|--lane LANE|--tool TOOL --reason TEXT", Short: "Clear a safety lock",
		GroupID: "operate", Args: cli.NoArgs,
		Long: `Clears the safety lock of a target. Within a second dispatchers admit its calls again, unless another lock
covers them. The exit code is 1 if the target has no lock. It needs the credentials of an operator.`,
		Example: `  toolbus unlock --tool mcp::github::issues.create --reason "repository is right again"
  toolbus unlock --all --reason "credentials are revoked"`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.changeLock(cmd.Context(), q, "unlocked", (*client.Client).Unlock)
		},
	}
	lockFlags(cmd, &q)
	return cmd
}

func lockFlags(cmd *cobra.Command, q *envelope.LockRequest) {
	f := cmd.Flags()
	f.BoolVar(&q.All, "all", false,
		"all calls")
	f.StringVar(&q.Lane, "lane", "",
		"calls whose request names the `LANE`")
	f.StringVar(&q.Tool, "tool", "",
		"calls of the `TOOL`")
	f.StringVar(&q.Reason, "reason", "",
		"why, for the audit record; of a lock, callers see it, too")
}

// changeLock sets or clears a lock. It fails if there was no lock to clear.
func (g *global) changeLock(ctx context.Context, q envelope.LockRequest, done string,
	change func(*client.Client, context.Context, envelope.LockRequest) (envelope.LocksResponse, error)) error {
	switch {
	case !q.Single():
		return usagef("name one target of the lock: --all, --lane LANE or --tool TOOL")
	case q.Reason == "":
		return usagef("say why with --reason TEXT")
	}
	return g.operating(ctx, auth.Operator, func(c *client.Client) error {
		a, err := change(c, ctx, q)
		if err != nil {
			return err
		}
		return g.lockChanged(q, done, a)
	})
}

// lockChanged prints the result of a change.
func (g *global) lockChanged(q envelope.LockRequest, done string, a envelope.LocksResponse) error {
	what := cli.EscapeText(q.LockTarget.String())
	if a.UnknownTool {
		fmt.Fprintf(g.env.stderr, "warning: the dispatcher that answered has no tool %s: check the spelling with `toolbus "+
			"tools list`\n", cli.EscapeText(q.Tool))
	}
	if a.Changed || done == "locked" {
		return g.say(a, fmt.Sprintf("%s: %s; %s in force", done, what, plural(len(a.Locks), "lock is", "locks are")))
	}
	if err := g.print(a, func(io.Writer) error { return nil }); err != nil {
		return err
	}
	fmt.Fprintf(g.env.stderr, "toolbus: no lock of %s is in force; `toolbus lock` lists the locks\n", what)
	return exitError(1)
}

func (g *global) listLocks(ctx context.Context) error {
	return g.operating(ctx, auth.Operator, func(c *client.Client) error {
		all, err := c.Locks(ctx)
		if err != nil {
			return err
		}
		return g.print(envelope.LocksResponse{Locks: all}, func(to io.Writer) error { return writeLocks(to, all) })
	})
}

func writeLocks(to io.Writer, all []envelope.Lock) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(to, "no lock is in force")
		return err
	}
	w := tabwriter.NewWriter(to, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "LOCKED\tSINCE\tBY\tREASON")
	for _, l := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", cli.EscapeText(l.LockTarget.String()), l.At.UTC().Format(time.RFC3339),
			cli.EscapeText(l.By), cli.EscapeText(l.Reason))
	}
	return w.Flush()
}
