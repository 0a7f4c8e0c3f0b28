package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokensource"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

func renewCmd(g *global) *cobra.Command {
	return &cobra.Command{
		Use: "renew [FILE]", Short: "Exchange the token of a credentials file for a new one now",
		Args: cli.Args(0, 1, "at most one file"), ValidArgsFunction: completeFiles,
		Long: `Replaces the token in a credentials file (default: --credentials) by a new one with the same rights. A
program that uses the file does so itself: use this command for a file that a program only reads. It also renews an
expired token, until the time that "credentials inspect" shows.

Exit codes: 0 the file has the new token; 10 or 11 the bus refused, with the reason; 1 no dispatcher answered, or
the file cannot be written.`,
		Example: "  toolbus credentials renew billing.token\n  toolbus credentials renew --credentials billing.token --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := g.holder(cmd.Context(), args)
			if err != nil {
				return err
			}
			return g.renew(cmd.Context(), a)
		},
	}
}

// completeFiles completes the name of one file.
func completeFiles(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveDefault
}

func heldBy(file string) (*tokensource.Source, error) {
	return tokensource.Read(file, slog.New(slog.DiscardHandler))
}

func (g *global) renew(ctx context.Context, a cli.Access) error {
	if a.Credentials == "" {
		return usagef("name the file with the token, as an argument or by --credentials")
	}
	before, err := heldBy(a.Credentials)
	if err != nil {
		return err
	}
	conn, err := g.establish(ctx, a, toolbus.ClientOptions{})
	if err != nil {
		return err
	}
	defer conn.Close()
	after, err := heldBy(a.Credentials)
	if err == nil && after.Token() == before.Token() { // establish renews an expired token
		if err = conn.Renew(ctx); err == nil {
			after, err = heldBy(a.Credentials)
		}
	}
	if err != nil {
		return err
	}
	if after.Token() == before.Token() {
		return fmt.Errorf("the bus renewed the token, but %s could not be replaced: make its folder writable", a.Credentials)
	}
	p := after.Principal()
	return g.say(heldToken(a.Credentials, p.Family, ", renewed", p.Expires, p.RenewUntil))
}

// identified is the output of whoami: the claims of the token, and whether the bus accepts it.
type identified struct {
	shownToken
	Accepted string          `json:"accepted"` // one of the constants below
	Error    *envelope.Error `json:"error,omitzero"`
}

// Values of identified.Accepted.
const (
	acceptedYes     = "yes"
	acceptedNo      = "no"
	acceptedUnknown = "unknown"   // no dispatcher answered
	acceptedOpen    = "not asked" // the bus checks no tokens
)

func whoamiCmd(g *global) *cobra.Command {
	return &cobra.Command{
		Use: "whoami [FILE]", Short: "Show who you are to the bus, and whether it accepts your token",
		Args: cli.Args(0, 1, "at most one file"), ValidArgsFunction: completeFiles,
		Long: `Connects with the credentials of the command line, or of FILE, and shows the claims of the token:
tenant, actor, role, scopes, run, lane, family, and until when it is valid and can be renewed. On a bus of "toolbus
dev" it shows the actor of "toolbus call". It renews an expired token first, as every command does.

Exit codes: 0 the bus accepts the token, or needs none; 10 or 11 it refuses, with the reason; 1 no server or
dispatcher answered.`,
		Example: "  toolbus credentials whoami\n  toolbus credentials whoami billing.token --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := g.holder(cmd.Context(), args)
			if err != nil {
				return err
			}
			return g.whoami(cmd.Context(), a)
		},
	}
}

func (g *global) whoami(ctx context.Context, a cli.Access) error {
	conn, failed := g.establish(ctx, a, toolbus.ClientOptions{})
	if failed == nil {
		defer conn.Close()
	}
	is, err := g.identified(a.Credentials) // read after connecting, which may renew the token
	refusal, refused := errors.AsType[*toolbus.Error](failed)
	switch {
	case err != nil || failed != nil && a.Credentials == "":
		return cmp.Or(failed, err)
	case refused:
		is.Accepted, is.Error = acceptedNo, refusal.Reason()
	case failed != nil:
		is.Accepted = acceptedUnknown
	case !conn.NATS().AuthRequired():
		is.Accepted = acceptedOpen
	}
	if err := g.print(is, is.write); err != nil || !refused {
		return cmp.Or(err, failed)
	}
	if !g.json {
		cli.PrintError(g.env.stderr, refusal.Reason(), "")
	}
	return exitError(exitCode(refusal.Code().Status()))
}

// identified returns the claims of a credentials file, or, without a file, the tenant and actor of the command line.
func (g *global) identified(file string) (identified, error) {
	if file == "" {
		return identified{shownToken: shownToken{Tenant: g.tenant, Actor: g.actor}, Accepted: acceptedYes}, nil
	}
	held, err := heldBy(file)
	if err != nil {
		return identified{}, err
	}
	return identified{shownToken: shown(held.Principal()), Accepted: acceptedYes}, nil
}

func (i identified) write(to io.Writer) error {
	err := i.shownToken.write(to)
	if err == nil {
		_, err = fmt.Fprintln(to, "accepted by the bus:", i.Accepted)
	}
	return err
}
