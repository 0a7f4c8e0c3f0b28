package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// rolesOf returns the roles of the policy that calls with a credential may have. Without --role-id that is the default
// role of the dispatchers: this one, unless they were started with another.
func rolesOf(role string, ids []string) []string {
	if len(ids) == 0 && role == string(auth.Agent) {
		return []string{policy.DefaultRole}
	}
	return ids
}

// byDefault explains a warning about a role that a credential may have without naming it.
func byDefault(role string) string {
	if role != policy.DefaultRole {
		return ""
	}
	return fmt.Sprintf("; without --role-id a credential has the role %s, unless dispatchers have another --default-role",
		role)
}

// warnOfUnknownNames warns of roles, and of a lane, of a new credential that the policy in force lacks, if a policy can
// be read.
func warnOfUnknownNames(ctx context.Context, to io.Writer, c *admin.Client, roles []string, lane string) {
	if len(roles) == 0 && lane == "" {
		return
	}
	v, set, err := liveSet(ctx, c)
	if err != nil {
		return
	}
	for _, role := range lacking(roles, roleNames(set)) {
		fmt.Fprintf(to, "warning: revision %d of the policy, which is in force, has no role %s: calls with it are "+
			"refused until a policy has it%s\n", v.Revision, cli.EscapeCell(role), byDefault(role))
	}
	if lanes := laneNames(set); lane != "" && !slices.Contains(lanes, lane) {
		fmt.Fprintf(to, "warning: revision %d of the policy, which is in force, has no lane %s: %s\n", v.Revision,
			cli.EscapeCell(lane), tool.DidYouMean(lane, lanes))
	}
}

// warnOfLostRoles warns of roles that issued credentials have, and that a push would take away. The first push takes
// away all that its set lacks. It asks for the credentials only if the new set lacks a role of the replaced one.
func warnOfLostRoles(
	ctx context.Context, to io.Writer, c *admin.Client, replaced envelope.PolicyVersion, d policy.Documents,
) {
	first := replaced.Revision == 0
	var before []string
	if !first {
		old, err := c.Policy(ctx, replaced)
		if err != nil || replaced.Versions.Roles == d.Versions().Roles {
			return
		}
		before = rolesIn(old)
	}
	after := rolesIn(admin.Policy(d))
	if after == nil || !first && len(lacking(before, after)) == 0 { // the dispatcher says what is wrong with the set
		return
	}
	holders, err := holdersOf(ctx, c)
	if err != nil {
		return
	}
	for _, role := range lacking(slices.Sorted(maps.Keys(holders)), after) {
		if n := len(holders[role]); first || slices.Contains(before, role) {
			fmt.Fprintf(to, "warning: the new set has no role %s, which %s: %s%s\n", cli.EscapeCell(role),
				plural(n, "issued credential has", "issued credentials have"), cli.EscapeCell(fewOf(holders[role])),
				byDefault(role))
		}
	}
}

// warnOfTools warns of tools of the bus that the new set has no entry for, and of entries without a tool.
func warnOfTools(ctx context.Context, to io.Writer, c *admin.Client, d policy.Documents) {
	set, err := policy.Parse(d)
	if err != nil { // the dispatcher says what is wrong with the set
		return
	}
	listed, err := onBus{c, envelope.DescribeRequest{All: true}}.Tools(ctx)
	if err != nil {
		return
	}
	var tools, entries []string
	for _, t := range listed.Tools {
		tools = append(tools, t.ToolID)
	}
	for _, e := range set.Entries {
		entries = append(entries, e.ToolName)
	}
	if open := lacking(tools, entries); len(open) > 0 {
		fmt.Fprintf(to, "warning: the new set has no entry for %s of the bus, so nobody can call %s: %s\n",
			plural(len(open), "tool", "tools"), itOrThem(len(open)), cli.EscapeCell(fewOf(open)))
	}
	if unknown := lacking(entries, tools); len(unknown) > 0 {
		fmt.Fprintf(to, "warning: %s: the dispatchers have no %s\n",
			plural(len(unknown), "entry of the new set has no tool", "entries of the new set have no tool"),
			cli.EscapeCell(fewOf(unknown)))
	}
}

// rolesIn returns the roles of a policy, or nil if it cannot be parsed.
func rolesIn(p admin.Policy) []string {
	set, err := policy.Parse(policy.Documents(p))
	if err != nil {
		return nil
	}
	return append([]string{}, roleNames(set)...)
}

// holdersOf returns the actors of the issued credentials that are good, by role of the policy.
func holdersOf(ctx context.Context, c *admin.Client) (map[string][]string, error) {
	holders := map[string][]string{}
	for one, err := range c.Credentials(ctx, admin.CredentialFilter{}) {
		if err != nil {
			return nil, err
		}
		if one.Revoked || one.Distrusted {
			continue
		}
		for _, role := range rolesOf(one.Role, one.RoleIDs) {
			holders[role] = append(holders[role], one.Actor)
		}
	}
	return holders, nil
}

// warnOfUnknownPool warns if no tool of the bus runs in the pool of a new credential. It warns of none if there is no
// tool at all.
func warnOfUnknownPool(ctx context.Context, to io.Writer, c *admin.Client, pool string) {
	if pool == "" {
		return
	}
	listed, err := onBus{c, envelope.DescribeRequest{All: true}}.Tools(ctx)
	if err != nil || len(listed.Tools) == 0 {
		return
	}
	pools := map[string]bool{}
	for _, t := range listed.Tools {
		pools[t.Pool] = true
	}
	if pools[pool] {
		return
	}
	fmt.Fprintf(to, "warning: no tool of the bus runs in the pool %s: %s\n", cli.EscapeCell(pool),
		tool.DidYouMean(pool, slices.Sorted(maps.Keys(pools))))
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
