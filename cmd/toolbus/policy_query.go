package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

func policyWhoCan(g *global) *cobra.Command {
	var f policyFolders
	cmd := &cobra.Command{
		Use: "who-can TOOL", Short: "List the roles and lanes in which a tool can be called",
		Long: `Lists each role and lane in which a policy set allows calls of a tool, and what such a call needs. It exits
with code 1 if nobody can call the tool.`,
		Example: "  toolbus policy who-can text.search\n  toolbus policy who-can fs.write --policy ./deployment --json",
		Args:    cli.Args(1, 1, "one tool id"),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := f.compile()
			if err != nil {
				return err
			}
			return g.printGrants(s.WhoCan(args[0]), fmt.Sprintf("nobody can call %s", args[0]))
		},
	}
	f.flags(cmd)
	return cmd
}

func policyCan(g *global) *cobra.Command {
	var f policyFolders
	cmd := &cobra.Command{
		Use: "can ROLE", Short: "List the tools that a role can call, and the lanes for it",
		Long: `Lists each tool and lane in which a policy set allows calls of a role, and what such a call needs. It exits
with code 1 if the role can call nothing.`,
		Example: "  toolbus policy can agent\n  toolbus policy can agent --policy ./deployment --json",
		Args:    cli.Args(1, 1, "one role"),
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := f.compile()
			if err != nil {
				return err
			}
			if !slices.Contains(s.Roles(), args[0]) {
				return fmt.Errorf("the set has no role %q (%s)", args[0], tool.DidYouMean(args[0], s.Roles()))
			}
			return g.printGrants(s.Can(args[0]), fmt.Sprintf("%s can call nothing", args[0]))
		},
	}
	f.flags(cmd)
	return cmd
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
	fmt.Fprintln(w, "ROLE\tLANE\tTOOL\tVERSION\tNEEDS\tPROHIBITED")
	for _, one := range grants {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", one.Role, one.Lane, one.Tool, one.Version,
			cli.EscapeCell(listed(one.RequiredScopeKeys)), cli.EscapeCell(listed(one.ProhibitedFlags)))
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
