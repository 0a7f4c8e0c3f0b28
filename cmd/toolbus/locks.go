package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

func lockCmd(g *global) *cobra.Command {
	q, kill := envelope.LockRequest{}, false
	cmd := &cobra.Command{
		Use:     "lock [--all|--lane LANE|--tool TOOL --reason TEXT [--kill]]",
		Short:   "Stop calls with a safety lock, or list the locks",
		GroupID: "operate", Args: noTarget,
		Long: `Sets a safety lock on all calls, on those of a tool, or on those in a lane. Within a
second no dispatcher admits such a call and no executor starts one: it ends with P-PRECOND-LOCKED, which names you,
the time and the reason. The lock stays until "toolbus unlock" clears it. A lock of the same target is replaced.

Running calls go on. With --kill they are cancelled, also those that start within that second, and each is printed with
its effect: none, applied or unknown. "toolbus why CALL" says more of one.

Without a target it lists the locks in force. It needs the credentials of an operator. Each change is recorded.`,
		Example: `  toolbus lock --tool mcp::github::issues.create --reason "wrong repository, see INC-7"
  toolbus lock --all --reason "leaked credentials" --kill
  toolbus lock  # the locks in force`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case q == (envelope.LockRequest{}) && !kill:
				return g.listLocks(cmd.Context())
			case kill:
				return g.lockAndKill(cmd.Context(), q)
			}
			return g.changeLock(cmd.Context(), q, "locked", (*admin.Client).Lock)
		},
	}
	lockFlags(cmd, &q)
	completeFlag(cmd, "tool", g.completeTools(1))
	g.completePolicy(cmd)
	cmd.Flags().BoolVar(&kill, "kill", false,
		"cancel the running calls that the lock covers, and print them")
	return cmd
}

func unlockCmd(g *global) *cobra.Command {
	q := envelope.LockRequest{}
	cmd := &cobra.Command{
		Use: "unlock --all|--lane LANE|--tool TOOL --reason TEXT", Short: "Clear a safety lock",
		GroupID: "operate", Args: noTarget,
		Long: `Clears the safety lock of a target. Within a second dispatchers admit its calls again, unless another lock
covers them. The exit code is 1 if the target has no lock. It needs the credentials of an operator.`,
		Example: `  toolbus unlock --tool mcp::github::issues.create --reason "repository is right again"
  toolbus unlock --all --reason "credentials are revoked"`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.changeLock(cmd.Context(), q, "unlocked", (*admin.Client).Unlock)
		},
	}
	lockFlags(cmd, &q)
	for flag, name := range map[string]func(envelope.Lock) string{
		"tool": func(l envelope.Lock) string { return l.Tool }, "lane": func(l envelope.Lock) string { return l.Lane },
	} {
		completeFlag(cmd, flag, g.completeListed(math.MaxInt, locks(name)))
	}
	return cmd
}

// noTarget refuses arguments. The first one is mostly the tool.
func noTarget(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usagef("name a tool with --tool: `toolbus %s --tool %s --reason TEXT`", cmd.Name(), args[0])
}

func lockFlags(cmd *cobra.Command, q *envelope.LockRequest) {
	f := cmd.Flags()
	f.BoolVar(&q.All, "all", false,
		"all calls")
	f.StringVar(&q.Lane, "lane", "",
		"calls in the `LANE`")
	f.StringVar(&q.Tool, "tool", "",
		"calls of the `TOOL`")
	f.StringVar(&q.Reason, "reason", "",
		"why, for the audit record; of a lock, callers see it, too")
}

// changeLock sets or clears a lock. It fails if there was no lock to clear.
func (g *global) changeLock(ctx context.Context, q envelope.LockRequest, done string,
	change func(*admin.Client, context.Context, envelope.LockRequest) (envelope.LocksResponse, error)) error {
	if err := checkLock(q); err != nil {
		return err
	}
	return g.operating(ctx, func(c *admin.Client) error {
		a, err := change(c, ctx, q)
		if err != nil {
			return err
		}
		return g.lockChanged(q, done, a)
	})
}

func checkLock(q envelope.LockRequest) error {
	switch {
	case !q.Single():
		return usagef("name one target of the lock, --all, --lane LANE or --tool TOOL, and say why with --reason TEXT")
	case q.Reason == "":
		return usagef("say why with --reason TEXT")
	}
	return nil
}

// killed is the output of `lock --kill --json`.
type killed struct {
	envelope.LocksResponse
	Killed []envelope.KilledCall `json:"killed"`
}

// lockAndKill sets a lock, and cancels the running calls that it covers. Without --json it prints each at once.
func (g *global) lockAndKill(ctx context.Context, q envelope.LockRequest) error {
	if err := checkLock(q); err != nil {
		return err
	}
	return g.operating(ctx, func(c *admin.Client) (err error) {
		all := killed{Killed: []envelope.KilledCall{}}
		if all.LocksResponse, err = c.Lock(ctx, q); err != nil {
			return err
		}
		if g.json {
			g.warnUnchecked(q, all.LocksResponse)
		} else if err := g.lockChanged(q, "locked", all.LocksResponse); err != nil {
			return err
		}
		err = c.KillLocked(ctx, q.LockTarget, func(k envelope.KilledCall) {
			if all.Killed = append(all.Killed, k); !g.json {
				fmt.Fprintf(g.env.stdout, "killed: %s, tool %s, effect %s\n", cli.EscapeCell(k.Ref), cli.EscapeCell(k.Tool),
					k.Effect)
			}
		})
		if err != nil {
			return fmt.Errorf("the lock is in force, and not all running calls are killed: repeat the command: %w", err)
		}
		return g.say(all, plural(len(all.Killed), "running call was killed", "running calls were killed"))
	})
}

// lockChanged prints the result of a change.
func (g *global) lockChanged(q envelope.LockRequest, done string, a envelope.LocksResponse) error {
	what := cli.EscapeCell(q.LockTarget.String())
	g.warnUnchecked(q, a)
	if a.Changed || done == "locked" {
		return g.say(a, fmt.Sprintf("%s: %s; %s in force", done, what, plural(len(a.Locks), "lock is", "locks are")))
	}
	if err := g.print(a, func(io.Writer) error { return nil }); err != nil {
		return err
	}
	fmt.Fprintf(g.env.stderr, "toolbus: no lock of %s is in force; `toolbus lock` lists the locks\n", what)
	return exitError(1)
}

// warnUnchecked warns if it is not known whether the target of a new lock exists.
func (g *global) warnUnchecked(q envelope.LockRequest, a envelope.LocksResponse) {
	if a.Unchecked {
		fmt.Fprintf(g.env.stderr, "warning: no policy could be read, so it is not known whether there is a %s: check the "+
			"spelling\n", cli.EscapeCell(q.LockTarget.String()))
	}
}

func (g *global) listLocks(ctx context.Context) error {
	return g.operating(ctx, func(c *admin.Client) error {
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
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", cli.EscapeCell(l.LockTarget.String()), l.At.UTC().Format(time.RFC3339),
			cli.EscapeCell(l.By), cli.EscapeCell(l.Reason))
	}
	return w.Flush()
}
