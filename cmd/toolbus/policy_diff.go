package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

func policyDiffCmd(g *global) *cobra.Command {
	return &cobra.Command{
		Use: "diff DIR", Short: "Show what a push of a folder would allow and forbid", Args: cli.Args(1, 1, "a folder"),
		Long: `Compares the policy in force with the set of a folder, for the tools of the bus, and lists what a push would
change: each role, lane and tool with + that it would allow, and with - that it would no longer allow. What a call
needs, such as a scope key, is compared, too: a grant with other needs is listed with - and +. Timeouts, targets of
writes and descriptions are not; the command names each document that differs. Needs an operator's token.

Exit codes: 0 compared, 1 the set is invalid or does not fit the tools of the bus, 11 the bus refused.`,
		Example: "  toolbus policy diff ./deployment\n  toolbus policy diff ./deployment --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := readSet(args[0])
			if err != nil {
				return err
			}
			return g.operating(cmd.Context(), func(c *admin.Client) error {
				p, err := comparePolicies(cmd.Context(), c, d)
				if err != nil {
					return err
				}
				return g.print(p, p.write)
			})
		},
	}
}

// policyChange is the difference between the policy in force and a folder, as JSON.
type policyChange struct {
	Revision  uint64         `json:"revision_in_force"` // 0 before the first push
	Documents []string       `json:"documents"`         // that differ
	Allowed   []policy.Grant `json:"allowed"`           // by the new set alone
	Forbidden []policy.Grant `json:"forbidden"`         // allowed by the one in force alone
}

func comparePolicies(ctx context.Context, c *admin.Client, d policy.Documents) (p policyChange, err error) {
	next, err := policy.Parse(d)
	if err != nil {
		return p, err
	}
	now, err := newestPolicy(ctx, c)
	if err != nil {
		return p, err
	}
	before, set := policy.Documents{}, &policy.Set{}
	if now.Revision > 0 {
		stored, err := c.Policy(ctx, now)
		if err != nil {
			return p, err
		}
		before = policy.Documents(stored)
		if set, err = policy.Parse(before); err != nil {
			return p, fmt.Errorf("revision %d, which is in force: %w", now.Revision, err)
		}
	}
	tools, err := manifestsOf(ctx, c)
	if err != nil {
		return p, err
	}
	was, err := policy.Compile(set, tools)
	if err != nil {
		return p, fmt.Errorf("revision %d, which is in force: %w", now.Revision, err)
	}
	will, err := policy.Compile(next, tools)
	if err != nil {
		return p, err
	}
	p = policyChange{Revision: now.Revision, Documents: []string{}}
	p.Allowed, p.Forbidden = grantsOnlyIn(will, was), grantsOnlyIn(was, will)
	old := setFiles(before)
	for i, file := range setFiles(d) {
		if string(file.content) != string(old[i].content) {
			p.Documents = append(p.Documents, file.name)
		}
	}
	return p, nil
}

// grantsOnlyIn returns the grants that one set has and another has not.
func grantsOnlyIn(one, other *policy.Snapshot) []policy.Grant {
	only := []policy.Grant{}
	for _, role := range one.Roles() {
		has := map[string]bool{} // every member of a grant
		for _, grant := range other.Can(role) {
			has[fmt.Sprint(grant)] = true
		}
		for _, grant := range one.Can(role) {
			if !has[fmt.Sprint(grant)] {
				only = append(only, grant)
			}
		}
	}
	return only
}

func (p policyChange) write(w io.Writer) error {
	if len(p.Documents) == 0 {
		_, err := fmt.Fprintf(w, "the folder has the set of revision %d, which is in force\n", p.Revision)
		return err
	}
	fmt.Fprintf(w, "these documents differ from revision %d: %s\n", p.Revision, strings.Join(p.Documents, ", "))
	if len(p.Allowed)+len(p.Forbidden) == 0 {
		_, err := fmt.Fprintln(w, "the same calls are allowed, and need the same")
		return err
	}
	return listChanges(w, p)
}

// listChanges lists the grants that come and go as one table.
func listChanges(w io.Writer, p policyChange) error {
	var table strings.Builder
	if err := listGrants(&table, slices.Concat(p.Forbidden, p.Allowed)); err != nil {
		return err
	}
	for i, line := range strings.Split(strings.TrimSuffix(table.String(), "\n"), "\n") {
		sign := "+"
		switch {
		case i == 0:
			sign = " "
		case i <= len(p.Forbidden):
			sign = "-"
		}
		if _, err := fmt.Fprintln(w, sign, strings.TrimRight(line, " ")); err != nil {
			return err
		}
	}
	return nil
}
