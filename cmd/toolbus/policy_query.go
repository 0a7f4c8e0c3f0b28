package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

func policyWhoCan(g *global) *cobra.Command {
	var q policyQuery
	cmd := &cobra.Command{
		Use: "who-can TOOL", Short: "List the roles and lanes in which a tool can be called",
		Long: `Lists each role and lane in which a policy set allows calls of a tool, and what such a call needs: a run
(--run of "call"), scope keys (--scope KEY=VALUE), and scopes of its token. The set is that of a folder, or with --live
the policy in force with the tools of the bus, which needs an operator's token. It exits with code 1 if nobody can call
the tool, and with 11 if the bus refuses the question.`,
		Example: "  toolbus policy who-can text.search\n  toolbus policy who-can text.search --live\n" +
			"  toolbus policy who-can fs.write --policy ./deployment --json",
		Args:              cli.Args(1, 1, "one tool id"),
		ValidArgsFunction: q.complete(g, entryNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := q.snapshot(cmd.Context(), g, args[0])
			if err != nil {
				return err
			}
			return g.printGrants(s.WhoCan(args[0]), nobodyCan(s, args[0]))
		},
	}
	q.flags(cmd)
	return cmd
}

// nobodyCan says that nobody can call a tool, and why.
func nobodyCan(s *policy.Snapshot, toolID string) string {
	says := "nobody can call " + toolID
	if !slices.Contains(s.Tools(), toolID) {
		says += ": " + policy.ToolRegistryFile + " has no entry for it"
		if near, ok := envelope.Nearest(toolID, s.Tools()); ok {
			says += fmt.Sprintf(" (did you mean %q?)", near)
		}
		return says
	}
	if _, loaded := s.Rules(toolID, ""); !loaded {
		return says + ": the policy has an entry for it, but the tool itself is missing"
	}
	return says + ": " + s.WhyNobody(toolID)
}

func policyCan(g *global) *cobra.Command {
	var q policyQuery
	cmd := &cobra.Command{
		Use: "can ROLE", Short: "List the tools that a role can call, and the lanes for it",
		Long: `Lists each tool and lane in which a policy set allows calls of a role, and what such a call needs: a run
(--run of "call"), scope keys (--scope KEY=VALUE), and scopes of its token. The set is that of a folder, or with --live
the policy in force with the tools of the bus, which needs an operator's token. It exits with code 1 if the role can
call nothing, and with 11 if the bus refuses the question.`,
		Example: "  toolbus policy can agent\n  toolbus policy can agent --live --json\n" +
			"  toolbus policy can agent --policy ./deployment --json",
		Args:              cli.Args(1, 1, "one role"),
		ValidArgsFunction: q.complete(g, roleNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := q.snapshot(cmd.Context(), g, "")
			if err != nil {
				return err
			}
			if !slices.Contains(s.Roles(), args[0]) {
				return fmt.Errorf("the set has no role %q (%s)", args[0], tool.DidYouMean(args[0], s.Roles()))
			}
			return g.printGrants(s.Can(args[0]), fmt.Sprintf("%s can call nothing", args[0]))
		},
	}
	q.flags(cmd)
	return cmd
}

// policyQuery are the flags that say which set a question is about.
type policyQuery struct {
	policyFolders
	live  bool
	given func(flag string) bool
}

func (q *policyQuery) flags(cmd *cobra.Command) {
	q.policyFolders.flags(cmd)
	cmd.Flags().BoolVar(&q.live, "live", false,
		"ask about the policy in force and the tools of the bus, not about folders")
	q.given = cmd.Flags().Changed
}

// snapshot compiles the set: that of the folders, or with --live the one in force. That has only the named tool of the
// bus, unless the name is "".
func (q *policyQuery) snapshot(ctx context.Context, g *global, only string) (s *policy.Snapshot, err error) {
	if !q.live {
		if s, err = q.compile(); err == nil {
			q.warnOfMissing(g.env.stderr, s)
		}
		return s, err
	}
	for _, flag := range []string{"policy", "tools"} {
		if q.given(flag) {
			return nil, usagef("--live asks the bus, and --%s names a folder: leave one of them out", flag)
		}
	}
	err = g.operating(ctx, func(c *admin.Client) error {
		v, set, err := liveSet(ctx, c)
		if err != nil {
			return err
		}
		tools, err := toolsOf(ctx, c, only)
		if err != nil {
			return err
		}
		if s, err = policy.Compile(set, tools); err != nil {
			return fmt.Errorf("revision %d of the policy does not fit the tools of the bus; mend it after `toolbus policy "+
				"pull`, and push it: %w", v.Revision, err)
		}
		fmt.Fprintf(g.env.stderr, "revision %d of the policy is in force\n", v.Revision)
		return nil
	})
	return s, err
}

// warnOfMissing warns of entries without a manifest, as the lint does: no call of these tools is allowed.
func (q *policyQuery) warnOfMissing(to io.Writer, s *policy.Snapshot) {
	missing := slices.DeleteFunc(slices.Clone(s.Tools()), func(id string) bool {
		_, loaded := s.Rules(id, "")
		return loaded
	})
	if len(missing) > 0 {
		fmt.Fprintf(to, "warning: %s has no manifest of %s: name the folder of the tools with --tools DIR\n",
			cli.EscapeCell(q.toolsFolder()), cli.EscapeCell(fewOf(missing)))
	}
}

// liveSet returns the policy in force, parsed.
func liveSet(ctx context.Context, c *admin.Client) (envelope.PolicyVersion, *policy.Set, error) {
	v, d, err := storedPolicy(ctx, c, 0)
	if err != nil {
		return v, nil, err
	}
	set, err := policy.Parse(policy.Documents(d))
	return v, set, err
}

// toolsOf returns the manifests of the bus, or only that of a tool, which may be missing.
func toolsOf(ctx context.Context, c *admin.Client, only string) ([]*tool.Manifest, error) {
	if only == "" {
		return manifestsOf(ctx, c)
	}
	info, err := c.DescribeTool(ctx, envelope.DescribeRequest{Tool: only, All: true})
	if toolbus.CodeOf(err) == envelope.CodeToolUnknown {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := tool.FromDescription(info)
	return []*tool.Manifest{m}, err
}

// complete completes the argument of a question with names that the set has.
func (q *policyQuery) complete(g *global, names func(*policy.Set) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		set, err := (*policy.Set)(nil), error(nil)
		if q.live {
			err = g.operating(ctx, func(c *admin.Client) (err error) { _, set, err = liveSet(ctx, c); return err })
		} else {
			set, err = q.parse()
		}
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(set), cobra.ShellCompDirectiveNoFileComp
	}
}

func roleNames(set *policy.Set) (names []string) {
	for _, r := range set.Roles {
		names = append(names, r.ID)
	}
	return names
}

func entryNames(set *policy.Set) (names []string) {
	for _, e := range set.Entries {
		names = append(names, e.ToolName)
	}
	return names
}

// printGrants prints grants, or none if the list is empty. Then the exit code is 1.
func (o *output) printGrants(grants []policy.Grant, none string) error {
	if grants == nil {
		grants = []policy.Grant{} // of JSON
	}
	err := o.print(grants, func(w io.Writer) error {
		if len(grants) == 0 {
			_, err := fmt.Fprintln(w, cli.EscapeText(none))
			return err
		}
		return listGrants(w, grants)
	})
	if err != nil {
		return err
	}
	return exitIf(len(grants) == 0, 1)
}

func listGrants(out io.Writer, grants []policy.Grant) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "ROLE\tLANE\tTOOL\tVERSION\tRUN\tSCOPE KEYS\tTOKEN SCOPES\tPROHIBITED")
	for _, one := range grants {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", one.Role, one.Lane, one.Tool, one.Version,
			cmp.Or(one.Runs, "required"), cli.EscapeCell(listed(one.RequiredScopeKeys)),
			cli.EscapeCell(listed(one.RequiredScopes)), cli.EscapeCell(listed(one.ProhibitedFlags)))
	}
	return w.Flush()
}

// listed joins names for a column of a table.
func listed(names []string) string {
	if len(names) == 0 {
		return "-"
	}
	return strings.Join(names, ",")
}
