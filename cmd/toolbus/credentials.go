package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokenstore"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

func credentialsCmd(g *global) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use: "credentials", Short: "Issue, show, renew, narrow, revoke and list credentials", GroupID: "operate",
		Example: "  toolbus credentials whoami\n  toolbus credentials issue --actor agent://billing --out billing.token",
		Long: `A credential is a file with a token, which names its actor, its role and its rights. A token is valid
for 15 minutes by default. The program that uses the file renews it until the end of the time that the operator set.`,
	})
	cmd.AddCommand(issueCmd(g), inspectCmd(g), whoamiCmd(g), renewCmd(g), narrowCmd(g), revokeCmd(g),
		listCredentialsCmd(g), rotateCmd(g))
	return cmd
}

// handed holds the flags for the file of a token.
type handed struct {
	out   string
	force bool
	ended func(auth.Principal) bool // reports whether a credential is listed as good no more; nil knows of none
}

// free returns an error if the file of --out is there and may not be replaced. Ask for no token then: nobody would have
// it.
func (h handed) free() error {
	if _, err := os.Lstat(h.out); h.out == "" || h.force || err != nil {
		return nil
	}
	return occupied(h.out)
}

func occupied(name string) error {
	return fmt.Errorf("%s is there already: name another file, or replace it with --force", name)
}

func (h *handed) flags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&h.out, "out", "o", "",
		"write the token to `FILE`, which only you may read (default: print it)")
	cmd.Flags().BoolVar(&h.force, "force", false,
		"replace the file if it exists")
}

// hand writes a token to its file, or prints it.
func (g *global) hand(h handed, a envelope.TokenResponse) error {
	if h.out == "" {
		if g.json {
			return cli.WriteJSON(g.env.stdout, a)
		}
		_, err := fmt.Fprintln(g.env.stdout, a.Token)
		return err
	}
	warnOfReplaced(g.env.stderr, h, a)
	if err := writeSecret(h.out, a.Token, h.force); err != nil {
		return err
	}
	return g.say(heldToken(h.out, a.Family, "", a.Expires, a.RenewUntil))
}

// heldToken describes the token that a file now has, as JSON and in words: until when it is valid as it is, and until
// when it can be renewed.
func heldToken(file, family, done string, expires, renewable time.Time) (asJSON map[string]any, says string) {
	asJSON = map[string]any{"file": file, "family": family, "expires": expires.UTC()}
	last := "not renewable"
	if !renewable.IsZero() {
		asJSON["renew_until"], last = renewable.UTC(), "renewable until "+at(renewable.UTC())
	}
	return asJSON, fmt.Sprintf("%s: family %s%s; expires %s, %s", file, family, done, at(expires.UTC()), last)
}

// warnOfReplaced says that the credential whose file is replaced stays valid.
func warnOfReplaced(to io.Writer, h handed, a envelope.TokenResponse) {
	if !h.force {
		return
	}
	held, err := heldBy(h.out)
	if err != nil { // the file is new, or no credential
		return
	}
	p := held.Principal()
	if p.Family == a.Family || h.ended != nil && h.ended(p) {
		return
	}
	if until := later(p.Expires, p.RenewUntil); time.Now().Before(until) {
		fmt.Fprintf(to, "warning: the family %s, which %s held, is good until %s: `toolbus credentials revoke "+
			"%[1]s` ends it\n", p.Family, cli.EscapeCell(h.out), until.UTC().Format(time.RFC3339))
	}
}

// ended reports whether the family of p is listed as revoked or distrusted.
func ended(ctx context.Context, c *admin.Client, p auth.Principal) bool {
	for one, err := range c.Credentials(ctx, admin.CredentialFilter{Tenant: p.Tenant, Actor: p.Actor}) {
		if err != nil || one.Family == p.Family {
			return err == nil && (one.Revoked || one.Distrusted)
		}
	}
	return false
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// writeSecret writes a file that only its owner may read.
func writeSecret(name, text string, force bool) error {
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	f, err := os.OpenFile(name, flags, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return occupied(name)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text + "\n")
	return errors.Join(err, f.Close())
}

// checkPool checks that the role exists, and that an executor has a pool, and nobody else.
func checkPool(q envelope.IssueRequest) error {
	roles := textsOf(auth.Roles())
	switch executes := q.Role == string(auth.Executor); {
	case !slices.Contains(roles, q.Role):
		return usagef("no role %q: %s", q.Role, tool.DidYouMean(q.Role, roles))
	case executes && q.Pool == "":
		return usagef("name the pool that the executor takes calls from with --pool, such as --pool default")
	case !executes && q.Pool != "":
		return usagef("--pool is for --role executor; this credential is of role %s", q.Role)
	}
	return nil
}

func issueCmd(g *global) *cobra.Command {
	q, h, lasts, life, keys := envelope.IssueRequest{}, handed{}, time.Duration(0), time.Duration(0), ""
	cmd := &cobra.Command{
		Use: "issue --actor ACTOR", Short: "Issue a credential: a file with a token", Args: cli.NoArgs,
		Long: `Issues a credential for --actor in --tenant, of the role --role. It needs the credentials of an
operator, or --secrets-dir and then no running bus.

The program that uses the file renews its token every 15 minutes, as long as --for says. A client that cannot renew
one, such as an MCP client of "toolbus gateway mcp", needs a token of up to 24 hours: use --life. Every credential
can be revoked.

A call may claim the scopes of its token; a tool whose manifest requires a scope refuses calls without it. A call has
one of the roles of its token; without --role-id that is the default role of the dispatchers. A role or a lane that the
policy in force does not have is a warning, and so is a pool in which no tool of the bus runs. Give the complete name
of the actor: agent://billing and billing are two actors.`,
		Example: `  toolbus credentials issue --actor agent://billing --scope pay:write --for 720h --out billing.token
  toolbus credentials issue --actor agent://desk --role-id reader --role-id writer --out desk.token
  toolbus credentials issue --role executor --actor executor://gpu --pool gpu --for 2160h --out gpu.token
  toolbus credentials issue --actor agent://desktop --life 24h --out desktop.token
  toolbus credentials issue --role operator --actor user://ada --for 24h --out ada.token \
    --secrets-dir ./deployment/keys`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !g.given("actor") {
				return usagef("name the actor that the credential is for with --actor")
			}
			q.Tenant, q.Actor = g.tenant, g.actor
			q.RenewS, q.LifeS = int64(lasts/time.Second), int64(life/time.Second)
			if err := cmp.Or(checkIssue(lasts, life), checkPool(q), h.free()); err != nil {
				return err
			}
			warnOfActor(g.env.stderr, q.Actor, q.Role)
			if keys != "" {
				a, err := mintOffline(keys, q)
				if err != nil {
					return err
				}
				return g.hand(h, a)
			}
			return g.operating(cmd.Context(), func(c *admin.Client) error {
				a, err := c.IssueToken(cmd.Context(), q)
				if err != nil {
					return err
				}
				warnOfUnknownNames(cmd.Context(), g.env.stderr, c, rolesOf(q.Role, q.RoleIDs), q.Lane)
				warnOfUnknownPool(cmd.Context(), g.env.stderr, c, q.Pool)
				h.ended = func(p auth.Principal) bool { return ended(cmd.Context(), c, p) }
				return g.hand(h, a)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&q.Role, "role", string(auth.Agent),
		"role: agent, door (an MCP gateway), auditor, executor or operator")
	f.StringArrayVar(&q.Scopes, "scope", nil,
		"`SCOPE` of the token, which tools may require; repeat it for more; * is all")
	f.StringArrayVar(&q.RoleIDs, "role-id", nil,
		"`ROLE` of the policy that calls may have as context.role_id; repeat it for more (default: the default "+
			"role of the dispatchers)")
	f.StringVar(&q.Run, "run", "",
		"valid only for calls of the run with this `ID`")
	f.StringVar(&q.Lane, "lane", "",
		"valid only for calls of the lane with this `ID`")
	f.StringVar(&q.Pool, "pool", "",
		"pool that an executor takes calls from; for --role executor")
	f.DurationVar(&lasts, "for", 30*24*time.Hour,
		"time during which the token can be renewed, at most 2160h; 0: never")
	f.DurationVar(&life, "life", auth.Life,
		"time during which each token is valid without renewal, 1s to 24h")
	f.StringVar(&keys, "secrets-dir", "",
		"`DIR` with the secrets of the deployment, written by \"toolbus keys init\"; then no bus is needed")
	g.completePolicy(cmd)
	completeFlag(cmd, "role", values(auth.Roles()))
	h.flags(cmd)
	return cmd
}

// warnOfActor warns of an actor without the scheme of its role.
func warnOfActor(to io.Writer, actor, role string) {
	if !strings.Contains(actor, "://") {
		fmt.Fprintf(to, "warning: the actor %s is not %s://%[1]s; calls have to name it as it is here\n",
			cli.EscapeCell(actor), role)
	}
}

// checkIssue refuses invalid times.
func checkIssue(lasts, life time.Duration) error {
	switch {
	case lasts < 0 || lasts > tokenstore.MaxRenewal:
		return usagef("--for is 0 to %s, not %s", timer.Text(tokenstore.MaxRenewal), timer.Text(lasts))
	case life < time.Second || life > auth.MaxLife:
		return usagef("--life is 1s to %s, not %s", timer.Text(auth.MaxLife), timer.Text(life))
	}
	return nil
}

// mintOffline signs a token with the first key of a deployment. If the deployment uses another key by now, the token
// counts as expired, and is renewed at its first use.
func mintOffline(folder string, q envelope.IssueRequest) (a envelope.TokenResponse, err error) {
	keys, err := deployment.Load(folder)
	if err != nil {
		return a, err
	}
	signer, err := keys.Signer()
	if err != nil {
		return a, err
	}
	now := time.Now().Truncate(time.Second)
	p := auth.Principal{
		Tenant: q.Tenant, Actor: q.Actor, Role: auth.Role(q.Role), Scopes: q.Scopes, RoleIDs: q.RoleIDs,
		Run: q.Run, Lane: q.Lane, Pool: q.Pool, ID: auth.NewID(), Family: auth.NewFamily(q.RoleIDs), Issued: now,
		Expires:    now.Add(cmp.Or(time.Duration(q.LifeS)*time.Second, auth.Life)),
		RenewUntil: now.Add(time.Duration(q.RenewS) * time.Second),
	}
	if a.Token, err = signer.Mint(p); err != nil {
		return a, usagef("%v", err)
	}
	a.Family, a.Expires, a.RenewUntil = p.Family, p.Expires.UTC(), p.RenewUntil.UTC()
	return a, nil
}

// shownToken holds the claims of a token for output.
type shownToken struct {
	Tenant     string    `json:"tenant"`
	Actor      string    `json:"actor"`
	Role       string    `json:"role"`
	Scopes     []string  `json:"scopes,omitzero"`
	RoleIDs    []string  `json:"role_ids,omitzero"`
	Pool       string    `json:"pool,omitzero"`
	Run        string    `json:"run,omitzero"`
	Lane       string    `json:"lane,omitzero"`
	Family     string    `json:"family"`
	Chain      []string  `json:"chain,omitzero"`
	KeyID      string    `json:"key_id"`
	Issued     time.Time `json:"issued,omitzero"`
	Expires    time.Time `json:"expires,omitzero"`
	RenewUntil time.Time `json:"renew_until,omitzero"`
}

func inspectCmd(g *global) *cobra.Command {
	return &cobra.Command{
		Use: "inspect FILE", Short: "Show the claims of a credential without verifying it",
		Args: cli.Args(1, 1, "a file, or -"),
		Long: `Shows the claims of the token in a file, but not the token. It asks no dispatcher and does not verify
the signature: use "credentials whoami" to learn whether the bus accepts the token.`,
		Example: "  toolbus credentials inspect billing.token\n  toolbus credentials inspect - <billing.token --json",
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := g.inspected(args[0])
			if err != nil {
				return err
			}
			t := shown(p)
			return g.print(t, t.write)
		},
	}
}

func shown(p auth.Principal) shownToken {
	return shownToken{p.Tenant, p.Actor, string(p.Role), p.Scopes, p.RoleIDs, p.Pool, p.Run, p.Lane, p.Family, p.Chain,
		p.KeyID, p.Issued.UTC(), p.Expires.UTC(), p.RenewUntil.UTC()}
}

func (g *global) inspected(file string) (auth.Principal, error) {
	if file != "-" {
		held, err := heldBy(file)
		if err != nil {
			return auth.Principal{}, err
		}
		return held.Principal(), nil
	}
	text, err := io.ReadAll(io.LimitReader(g.env.stdin, auth.MaxToken+2))
	if err != nil {
		return auth.Principal{}, err
	}
	return auth.Inspect(strings.TrimSpace(string(text)))
}

func (t shownToken) write(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 4, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%s\t%s\n", name, cli.EscapeCell(value))
		}
	}
	line("role of the credential", t.Role)
	line("tenant", t.Tenant)
	line("actor", t.Actor)
	line("scopes", strings.Join(t.Scopes, " "))
	line("policy roles", strings.Join(t.RoleIDs, " "))
	line("pool", t.Pool)
	line("run", t.Run)
	line("lane", t.Lane)
	line("family", t.Family)
	line("narrowed from", strings.Join(t.Chain, " "))
	line("key", t.KeyID)
	line("issued", at(t.Issued))
	line("expires", at(t.Expires)+ago(t.Expires))
	line("renewable until", at(t.RenewUntil)+ago(t.RenewUntil))
	return w.Flush()
}

func at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339)
}

func ago(t time.Time) string {
	if !t.IsZero() && time.Now().After(t) {
		return " (over)"
	}
	return ""
}

func narrowCmd(g *global) *cobra.Command {
	q, h, part, lasts := envelope.NarrowRequest{}, handed{}, "", time.Duration(0)
	cmd := &cobra.Command{
		Use: "narrow", Short: "Derive a token with fewer rights from your own", Args: cli.NoArgs,
		Long: `Derives a token from the credentials of the command line. The new token may claim only the scopes that
you name, ends with yours at the latest, and is revoked with yours.`,
		Example: `  toolbus credentials narrow --part researcher --scope read --for 1h --out researcher.token
  toolbus credentials narrow --run run-7 --credentials billing.token`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q.LifeS = int64(lasts / time.Second)
			if err := h.free(); err != nil {
				return err
			}
			c, done, err := g.narrower(cmd.Context())
			if err != nil {
				return err
			}
			defer done()
			if own := c.Options().Actor; g.given("actor") && g.actor != own {
				return usagef("--actor names another actor than your token, which is of %s: leave it out, or make a token of "+
					"%[1]s/NAME with --part NAME", own)
			}
			if part != "" {
				q.Actor = c.Options().Actor + "/" + part
			}
			a, err := c.NarrowToken(cmd.Context(), q)
			if err != nil {
				return err
			}
			return g.hand(h, a)
		},
	}
	f := cmd.Flags()
	f.StringVar(&part, "part", "",
		"`NAME` of a part of your actor: the token is for ACTOR/NAME")
	f.StringArrayVar(&q.Scopes, "scope", nil,
		"`SCOPE` of the new token, one of yours; repeat it for more")
	f.StringArrayVar(&q.RoleIDs, "role-id", nil,
		"`ROLE` that calls may have, one of yours; repeat it for more (default: all of yours)")
	f.StringVar(&q.Run, "run", "", "valid only for calls of the run with this `ID`")
	f.StringVar(&q.Lane, "lane", "", "valid only for calls of the lane with this `ID`")
	f.DurationVar(&lasts, "for", 0,
		"time during which the token is valid (default: as long as yours)")
	h.flags(cmd)
	return cmd
}

func listCredentialsCmd(g *global) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List issued credentials that have not expired", Args: cli.NoArgs,
		Long: `Lists families of tokens, the newest first, of all tenants, or of --tenant and --actor. Families that
were narrowed, or made with --secrets-dir, are not listed. STATE is good, revoked, or distrusted by
"rotate-keys --distrust".`,
		Example: "  toolbus credentials list\n  toolbus credentials list --tenant acme --actor agent://billing --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			f := admin.CredentialFilter{}
			if g.given("tenant") {
				f.Tenant = g.tenant
			}
			if g.given("actor") {
				f.Actor = g.actor
			}
			return g.operating(cmd.Context(), func(c *admin.Client) error {
				all := []admin.Credential{}
				for one, err := range c.Credentials(cmd.Context(), f) {
					if err != nil {
						return err
					}
					all = append(all, one)
				}
				return g.print(all, func(w io.Writer) error { return writeCredentials(w, all) })
			})
		},
	}
}

func writeCredentials(to io.Writer, all []admin.Credential) error {
	t := table{header: []string{"FAMILY", "ROLE", "STATE", "UNTIL", "ACTOR", "TENANT", "SCOPES", "FOR"}}
	for _, c := range all {
		state := "good"
		switch {
		case c.Revoked:
			state = "revoked"
		case c.Distrusted:
			state = "distrusted"
		}
		only := strings.Join([]string{named("pool", c.Pool), named("roles", strings.Join(c.RoleIDs, ",")),
			named("run", c.Run), named("lane", c.Lane)}, "")
		t.add(c.Family, string(c.Role), state, c.Until.UTC().Format(time.RFC3339), c.Actor, unusual(c.Tenant),
			strings.Join(c.Scopes, " "), strings.TrimSpace(only))
	}
	return t.write(to)
}

func named(what, name string) string {
	if name == "" {
		return ""
	}
	return what + " " + name + " "
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func rotateCmd(g *global) *cobra.Command {
	distrust := false
	cmd := &cobra.Command{
		Use: "rotate-keys", Short: "Replace the key that signs tokens", Args: cli.NoArgs,
		Long: `Makes a new signing key. Dispatchers use it when all of them know it. Tokens of the former key are good
until they expire, for 24 hours at most, and programs renew them as usual: calls do not fail.

With --distrust, tokens of former keys are invalid at once: use it if somebody may have a copy of a key. Within a second
dispatchers refuse calls with these tokens and close their connections. The command replaces the token of its own
credentials file. Then issue every other credential again.`,
		Example: "  toolbus credentials rotate-keys\n  toolbus credentials rotate-keys --distrust",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.operating(cmd.Context(), func(c *admin.Client) error {
				r, err := c.RotateKeys(cmd.Context(), distrust)
				if err != nil {
					return err
				}
				if r.Token != "" {
					if err := g.keepOwn(r.Token); err != nil {
						return err
					}
					r.Token = "" // it is in the credentials file now
				}
				former := fmt.Sprintf("tokens of former keys expire as before, at %s at the latest", r.Until.Format(time.RFC3339))
				if distrust {
					former = "no token of a former key is accepted: issue the other credentials again"
				}
				return g.say(r, fmt.Sprintf("key %s is used from %s on; %s", r.KeyID, r.Since.Format(time.RFC3339), former))
			})
		},
	}
	cmd.Flags().BoolVar(&distrust, "distrust", false,
		"reject every token that former keys have signed, at once")
	return cmd
}

// keepOwn replaces the token in the credentials file of the command line. If that fails, it prints the token: without
// it nobody could issue credentials any more.
func (g *global) keepOwn(token string) error {
	a, err := g.access()
	if err == nil {
		err = writeSecret(a.Credentials, token, true)
	}
	if err != nil {
		fmt.Fprintln(g.env.stdout, token)
	}
	return err
}

// firstOperator is the actor of the first credential of a deployment.
const firstOperator = "user://operator"

// firstCredential writes the credential of the first operator of a new deployment, and returns the name of its file.
func firstCredential(dir string) (string, error) {
	a, err := mintOffline(filepath.Join(dir, "keys"), envelope.IssueRequest{
		Tenant: toolbus.DefaultTenant, Actor: firstOperator, Role: string(auth.Operator),
		RenewS: int64(90 * 24 * time.Hour / time.Second),
	})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "operator.token")
	return file, writeSecret(file, a.Token, false)
}
