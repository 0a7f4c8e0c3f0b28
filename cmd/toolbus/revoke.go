package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

func revokeCmd(g *global) *cobra.Command {
	reason := ""
	cmd := &cobra.Command{
		Use: "revoke [FAMILY|FILE]", Short: "Revoke a credential, or all credentials of an actor",
		Args: cli.Args(0, 1, "a family, or a file"),
		Long: `Revokes the family of tokens FAMILY, as "credentials list" and "inspect" show it, or the family of a
credentials file. With --actor it revokes all families of an actor of --tenant and of its parts (ACTOR/...).
Families narrowed from them are revoked, too. Within a second dispatchers refuse calls with their tokens and close
their connections.

The revocation is stored in any case, because tokens made with --secrets-dir and narrowed tokens are not listed. If
no listed family matches, the exit code is 1, and the nearest listed names are printed: check the spelling before
you rely on it. The family of a file exists, so it is not compared with the list. A word that names no file and is too
short or too long for a family is refused.`,
		Example: `  toolbus credentials revoke 4reidtfrk20p8kjm8sc1
  toolbus credentials revoke billing.token --reason "billing has left, see INC-7"
  toolbus credentials revoke --actor agent://billing --tenant acme`,
		RunE: func(cmd *cobra.Command, args []string) error {
			q, file, err := g.revocation(args)
			if err != nil {
				return err
			}
			q.Reason = reason
			return g.operating(cmd.Context(), func(c *admin.Client) error {
				a, err := c.RevokeTokens(cmd.Context(), q)
				if err != nil {
					return err
				}
				return g.revoked(q, file, a)
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "",
		"why, in at most 1000 bytes, for the audit record")
	return cmd
}

// revoked prints the result of a revocation. If no listed family matches, the command fails, because a misspelt name
// leaves the intended tokens valid. file is the credentials file with the family, which proves that the family exists;
// "" if there is none.
func (g *global) revoked(q envelope.RevokeRequest, file string, a envelope.RevokeResponse) error {
	what := "family " + q.Family
	if q.Actor != "" {
		what = fmt.Sprintf("actor %s in tenant %s", q.Actor, q.Tenant)
	}
	what = cli.EscapeCell(what)
	if a.Already > 0 {
		return g.say(a, fmt.Sprintf("revoked %s: of %s, %s already", what,
			plural(a.Families, "listed family", "listed families"), plural(a.Already, "was revoked", "were revoked")))
	}
	if a.Families > 0 {
		return g.say(a, fmt.Sprintf("revoked %s: ended %s", what, plural(a.Families, "listed family", "listed families")))
	}
	if file != "" {
		return g.say(a, fmt.Sprintf("revoked %s of %s, which is not listed", what, cli.EscapeCell(file)))
	}
	if g.json {
		if err := cli.WriteJSON(g.env.stdout, a); err != nil {
			return err
		}
	}
	nearest := "; `toolbus credentials list` shows what is listed"
	if len(a.Nearest) > 0 {
		nearest = "; did you mean " + cli.EscapeCell(strings.Join(a.Nearest, ", or ")) + "?"
	}
	fmt.Fprintf(g.env.stderr, "toolbus: no listed family is that of %s%s\nThe revocation is stored all the same, for "+
		"tokens that are not listed.\n", what, nearest)
	return exitError(1)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// revocation returns the request of the command line, and the credentials file with the family.
func (g *global) revocation(args []string) (q envelope.RevokeRequest, file string, err error) {
	switch {
	case len(args) == 0 && g.given("actor"):
		return envelope.RevokeRequest{Tenant: g.tenant, Actor: g.actor}, "", nil
	case len(args) == 0:
		return q, "", usagef("name a family, a credentials file, or an actor with --actor")
	case g.given("actor"):
		return q, "", usagef("leave the family or --actor out: revoke takes one of them")
	case auth.IsFamily(args[0]) && !exists(args[0]):
		return envelope.RevokeRequest{Family: args[0]}, "", nil
	case args[0] != "-" && !exists(args[0]):
		return q, "", usagef("%q is neither a file nor a family: `toolbus credentials list` shows families", args[0])
	}
	p, err := g.inspected(args[0])
	return envelope.RevokeRequest{Family: p.Family}, args[0], err
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
