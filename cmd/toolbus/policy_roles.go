package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// warnOfUnknownRoles warns of roles of a new credential that the policy in force lacks, if a policy can be read.
func warnOfUnknownRoles(ctx context.Context, to io.Writer, c *admin.Client, roles []string) {
	if len(roles) == 0 {
		return
	}
	v, set, err := liveSet(ctx, c)
	if err != nil {
		return
	}
	if unknown := lacking(roles, roleNames(set)); len(unknown) > 0 {
		fmt.Fprintf(to, "warning: revision %d of the policy, which is in force, has no role %s: calls with it are "+
			"refused until a policy has it\n", v.Revision, cli.EscapeCell(strings.Join(unknown, ", ")))
	}
}

// warnOfLostRoles warns of roles that issued credentials name, and that a push would take away. It asks for the
// credentials only if the new set lacks a role of the replaced one.
func warnOfLostRoles(
	ctx context.Context, to io.Writer, c *admin.Client, replaced envelope.PolicyVersion, d policy.Documents,
) {
	old, err := c.Policy(ctx, replaced)
	if err != nil || replaced.Versions.Roles == d.Versions().Roles {
		return
	}
	before, unread := policy.Parse(policy.Documents(old))
	after, unusable := policy.Parse(d) // the dispatcher says what is wrong with it
	if unread != nil || unusable != nil {
		return
	}
	lost := lacking(roleNames(before), roleNames(after))
	if len(lost) == 0 {
		return
	}
	holders := map[string][]string{} // by role
	for one, err := range c.Credentials(ctx, admin.CredentialFilter{}) {
		if err != nil {
			return
		}
		for _, role := range one.RoleIDs {
			holders[role] = append(holders[role], one.Actor)
		}
	}
	for _, role := range lost {
		if n := len(holders[role]); n > 0 {
			fmt.Fprintf(to, "warning: the new set has no role %s, which %s: %s\n", cli.EscapeCell(role),
				plural(n, "issued credential names", "issued credentials name"), cli.EscapeCell(fewOf(holders[role])))
		}
	}
}

// fewOf joins the first names of a list.
func fewOf(names []string) string {
	const most = 5
	if len(names) > most {
		names = append(slices.Clone(names[:most]), "…")
	}
	return strings.Join(names, ", ")
}

// lacking returns the names of wanted that are not among has.
func lacking(wanted, has []string) (all []string) {
	for _, name := range wanted {
		if !slices.Contains(has, name) {
			all = append(all, name)
		}
	}
	return all
}
