package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

func policyPushCmd(g *global) *cobra.Command {
	o := pushOptions{}
	cmd := &cobra.Command{
		Use: "push DIR", Short: "Put the policy of a folder in force", Args: cli.Args(1, 1, "a folder"),
		Long: `Reads policy/roles.yaml, policy/lanes.yaml and tools/tool_registry.yaml below DIR and puts them in force as
one set. A dispatcher checks the set against its tools first, and refuses an invalid one as a whole, with all
problems. Within a second, all dispatchers decide by the new set. Needs an operator's token; the audit record and
"policy history" name the operator and the reason.

A run is pinned to the policy that it was started with, so a push stops it. The command first prints how many active
runs that are. With --repin, it moves them to the new set after the push, each with an event of the audit record.
Implicit runs are not counted: the next call of their token starts one of the new set. It warns of tools of the bus
that have no entry, of entries without a tool, and of a role that issued credentials have, if the push takes it away;
the first push takes away all that its set lacks. Without --role-id a credential has the default role of the
dispatchers, agent.`,
		Example: `  toolbus policy push . --reason "billing may refund"
  toolbus policy push . --repin      # runs go on, under the new set
  toolbus policy push . --expect 41  # only if revision 41 is in force`,
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := readSet(args[0])
			switch {
			case errors.Is(err, cli.ErrUsage):
				return err
			case err != nil:
				return usagef("%v", err)
			}
			return g.operating(cmd.Context(), func(c *admin.Client) error {
				return g.pushPolicy(cmd.Context(), c, d, o)
			})
		},
	}
	o.flags(cmd)
	return cmd
}

// pushOptions are the flags of a push. A negative expected revision is any.
type pushOptions struct {
	expected int64
	repin    bool
	reason   string
}

func (o *pushOptions) flags(cmd *cobra.Command) {
	cmd.Flags().Int64Var(&o.expected, "expect", -1,
		"push only if this `REVISION` is in force; 0: only the first policy (default: any)")
	cmd.Flags().BoolVar(&o.repin, "repin", false,
		"move the active runs that the push would stop to the new set")
	reasonFlag(cmd, &o.reason)
}

func reasonFlag(cmd *cobra.Command, reason *string) {
	cmd.Flags().StringVar(reason, "reason", "",
		"why, in at most 1000 bytes; shown by \"policy history\"")
}

// pushed is the result of a push, as JSON.
type pushed struct {
	envelope.PolicyVersion
	Stopped  int `json:"runs_stopped"`           // active runs that were pinned to the set before the push
	Repinned int `json:"runs_repinned,omitzero"` // those that were moved to the new set after it
}

// takesEffect says when a new revision decides: until then, a call may be decided by the former set.
const takesEffect = "all dispatchers decide by it within a second"

func (g *global) pushPolicy(ctx context.Context, c *admin.Client, d policy.Documents, o pushOptions) error {
	newest, err := newestPolicy(ctx, c)
	if err != nil {
		return err
	}
	if o.expected < 0 {
		if newest.Versions == d.Versions() {
			switch _, err := c.Policy(ctx, newest); {
			case err == nil:
				return g.say(newest, fmt.Sprintf("revision %d has this set already: nothing is pushed", newest.Revision))
			case toolbus.CodeOf(err) != envelope.CodeNotFound: // otherwise its documents were lost: push them again
				return err
			}
		}
		o.expected = int64(newest.Revision)
	}
	p := pushed{PolicyVersion: envelope.PolicyVersion{Reason: o.reason, Versions: d.Versions()}}
	if newest.Versions != d.Versions() {
		warnOfLostRoles(ctx, g.env.stderr, c, newest, d)
		warnOfTools(ctx, g.env.stderr, c, d)
		if newest.Revision > 0 {
			if p.Stopped, err = g.announceStops(ctx, c, newest, "--repin moves"); err != nil {
				return err
			}
		}
	}
	if p.Revision, err = c.PushPolicy(ctx, admin.Policy(d), uint64(o.expected), o.reason); err != nil {
		return err
	}
	if o.repin && newest.Revision > 0 {
		if p.Repinned, err = repinRuns(ctx, c, newest, p.Revision); err != nil {
			return fmt.Errorf("revision %d is in force, and %s; move the others with `toolbus runs repin`: %w",
				p.Revision, plural(p.Repinned, "run was moved", "runs were moved"), err)
		}
	}
	return g.say(p, fmt.Sprintf("revision %d is in force; %s", p.Revision, takesEffect))
}

// announceStops says on standard error how many active runs a push would stop, and what moves them to the new set. It
// returns their number.
func (g *global) announceStops(
	ctx context.Context, c *admin.Client, newest envelope.PolicyVersion, moves string,
) (int, error) {
	runs, err := c.RunsPinnedTo(ctx, newest)
	if err != nil {
		return 0, err
	}
	if len(runs) > 0 {
		fmt.Fprintf(g.env.stderr, "%s pinned to revision %d: the new set stops %s, and %s %[3]s to that set\n",
			plural(len(runs), "active run is", "active runs are"), newest.Revision, itOrThem(len(runs)), moves)
	}
	return len(runs), nil
}

func itOrThem(n int) string {
	if n == 1 {
		return "it"
	}
	return "them"
}

// repinRuns moves the active runs that are pinned to a replaced set to the one in force, and returns their number.
func repinRuns(
	ctx context.Context, c *admin.Client, from envelope.PolicyVersion, revision uint64,
) (n int, err error) {
	runs, err := c.RunsPinnedTo(ctx, from) // again: some were started meanwhile
	for _, r := range runs {
		if _, err := c.RepinRun(ctx, envelope.RunRequest{
			ID: r.ID, Tenant: r.Tenant, Reason: fmt.Sprintf("policy push, revision %d", revision),
		}); err != nil {
			return n, fmt.Errorf("run %s: %w", r.ID, err)
		}
		n++
	}
	return n, err
}

// newestPolicy returns the version in force; its revision is 0 before the first push.
func newestPolicy(ctx context.Context, c *admin.Client) (v envelope.PolicyVersion, err error) {
	all, err := c.PolicyHistory(ctx)
	if len(all) > 0 {
		v = all[0]
	}
	return v, err
}

func policyHistoryCmd(g *global) *cobra.Command {
	return &cobra.Command{
		Use: "history", Short: "List the versions of the policy, the one in force first", Args: cli.NoArgs,
		Long: `Lists the newest versions of the policy, at most 64. Needs an operator's token.

A revision is the position of its entry in the stream KV_policy. The documents lie there, too, so the numbers grow from
push to push and skip some.`,
		Example: "  toolbus policy history\n  toolbus policy history --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.operating(cmd.Context(), func(c *admin.Client) error {
				all, err := c.PolicyHistory(cmd.Context())
				if err != nil {
					return err
				}
				if all == nil {
					all = []envelope.PolicyVersion{}
				}
				return g.print(all, func(w io.Writer) error { return writePolicyVersions(w, all) })
			})
		},
	}
}

// shortDigest is the length of a digest in a table.
const shortDigest = 12

func writePolicyVersions(to io.Writer, all []envelope.PolicyVersion) error {
	t := table{header: []string{"REVISION", "SINCE", "ROLES", "LANES", "TOOL REGISTRY", "BY", "REASON"}}
	for _, v := range all {
		t.add(fmt.Sprint(v.Revision), v.At.UTC().Format(time.RFC3339), shortened(v.Versions.Roles),
			shortened(v.Versions.Lanes), shortened(v.Versions.ToolRegistry), v.By, v.Reason)
	}
	return t.write(to)
}

func policyShowCmd(g *global) *cobra.Command {
	return &cobra.Command{
		Use: "show [REVISION]", Short: "Print the documents of the policy in force, or of a revision",
		Args: cli.Args(0, 1, "a revision"), ValidArgsFunction: g.completeRevisions(1),
		Long: `Prints the three documents of the policy in force, or of a revision that "policy history" lists. Needs an
operator's token.`,
		Example: "  toolbus policy show\n  toolbus policy show 41 --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			revision, err := revisionArg(args)
			if err != nil {
				return err
			}
			return g.operating(cmd.Context(), func(c *admin.Client) error {
				return g.showPolicy(cmd.Context(), c, revision)
			})
		},
	}
}

// revisionArg returns the revision in args, or 0 without an argument.
func revisionArg(args []string) (uint64, error) {
	if len(args) == 0 {
		return 0, nil
	}
	revision, err := strconv.ParseUint(args[0], 10, 64)
	if err != nil || revision == 0 {
		return 0, usagef("%q is not a revision: `toolbus policy history` lists them", args[0])
	}
	return revision, nil
}

// shownPolicy is a version of the policy with its documents, as JSON.
type shownPolicy struct {
	envelope.PolicyVersion
	Roles        string `json:"roles_yaml"`
	Lanes        string `json:"lanes_yaml"`
	ToolRegistry string `json:"tool_registry_yaml"`
}

func (g *global) showPolicy(ctx context.Context, c *admin.Client, revision uint64) error {
	v, d, err := storedPolicy(ctx, c, revision)
	if err != nil {
		return err
	}
	s := shownPolicy{v, string(d.Roles), string(d.Lanes), string(d.ToolRegistry)}
	return g.print(s, s.write)
}

// storedPolicy returns a revision of the policy with its documents; 0 is the one in force.
func storedPolicy(ctx context.Context, c *admin.Client, revision uint64) (
	v envelope.PolicyVersion, d admin.Policy, err error) {
	if revision == 0 {
		v, err = newestPolicy(ctx, c)
	} else {
		v, err = c.PolicyRevision(ctx, revision)
	}
	switch {
	case err != nil:
		return v, d, err
	case v.Revision == 0:
		return v, d, errors.New("the bus has no policy: write one, and put it in force with `toolbus policy push DIR`")
	}
	d, err = c.Policy(ctx, v)
	return v, d, err
}

func (s shownPolicy) write(w io.Writer) error {
	_, err := fmt.Fprintf(w, "# revision %d, since %s, by %s\n", s.Revision, s.At.UTC().Format(time.RFC3339),
		cli.EscapeCell(s.By))
	for _, d := range []struct{ name, digest, text string }{
		{policy.RolesFile, s.Versions.Roles, s.Roles}, {policy.LanesFile, s.Versions.Lanes, s.Lanes},
		{policy.ToolRegistryFile, s.Versions.ToolRegistry, s.ToolRegistry},
	} {
		if err == nil {
			_, err = fmt.Fprintf(w, "\n# %s, sha256 %s\n%s\n", d.name, d.digest,
				cli.EscapeText(strings.TrimSuffix(d.text, "\n")))
		}
	}
	return err
}
