package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokensource"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
)

func doctorCmd(g *global) *cobra.Command {
	var keys, profile string
	var files []string
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check a deployment and say what to do about it", GroupID: "operate", Args: cli.NoArgs,
		Long: `Looks at the server, the streams, executors, dispatchers and clocks, and at the rights of the connection. The
exit code is 1 when a check fails.

Of a deployment with tokens it compares servers, accounts and streams with the profile that its keys were made
with. With the token of an operator it asks a dispatcher about them; with --secrets-dir it looks for itself, and at
dispatchers with a token for an operator that it makes for a minute.

With --config it asks no server: it checks the limits in the configuration files of servers, those of accounts and
logs, too, which a running server does not report.`,
		Example: "  toolbus doctor\n  toolbus doctor --server nats://bus:4222 --json\n" +
			"  toolbus doctor --server nats://bus:4222 --secrets-dir ./deployment/keys\n" +
			"  toolbus doctor --config /etc/toolbus/nats-1.conf",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("secrets-dir") && keys == "" || cmd.Flags().Changed("profile") && keys == "" {
				return usagef("--secrets-dir names the folder of the deployment's secrets, and --profile goes with it")
			}
			var checks []admin.Check
			for _, file := range files {
				checks = append(checks, admin.Configuration(file)...)
			}
			if len(files) == 0 {
				var err error
				if checks, err = g.diagnose(cmd.Context(), keys, profile); err != nil {
					return err
				}
			}
			failed := func(c admin.Check) bool { return c.Status == admin.CheckFailed }
			err := g.print(checks, func(w io.Writer) error { return printChecks(w, checks) })
			return cmp.Or(err, exitIf(slices.ContainsFunc(checks, failed), 1))
		},
	}
	cmd.Flags().StringVar(&keys, "secrets-dir", "", "folder of the deployment's secrets, of `toolbus keys init`")
	cli.OldFlag(cmd.Flags(), "keys", cmd.Flags().Lookup("secrets-dir"))
	cmd.Flags().StringSliceVar(&files, "config", nil, "configuration file of a server to check, instead of a running one")
	cmd.Flags().StringVar(&profile, "profile", "",
		"with --secrets-dir: the profile that it should be of, by default the one that it was made with")
	return cmd
}

func (g *global) diagnose(ctx context.Context, keys, profile string) ([]admin.Check, error) {
	a, err := g.access()
	if err != nil {
		return nil, err
	}
	if keys == "" {
		return g.diagnoseAsCaller(ctx, a)
	}
	if profile != "" {
		if _, err := deployment.ProfileNamed(profile); err != nil {
			return nil, usagef("%v", err)
		}
	}
	a.Credentials = "" // keys say who it is
	var o toolbus.Options
	if err := a.Into(&o); err != nil {
		return nil, err
	}
	k, err := deployment.Load(keys)
	if err != nil {
		return nil, err
	}
	return admin.WithKeys(ctx, a.Server, k, profile, o.NATS...), nil
}

func (g *global) diagnoseAsCaller(ctx context.Context, a cli.Access) ([]admin.Check, error) {
	a, err := a.As(ctx, g.self(auth.Operator))
	if err != nil {
		return nil, err
	}
	var o toolbus.Options
	if err := a.Into(&o); err != nil {
		return nil, err
	}
	of := toolbus.ClientOptions{Tenant: g.tenant, Actor: g.actor}
	if a.Credentials == "" {
		return admin.Diagnose(ctx, a.Server, of, o.NATS...), nil
	}
	conn, err := toolbus.Connect(ctx, a.Server, o) // which renews them; what is wrong is a finding
	if refusal, ok := errors.AsType[*toolbus.Refusal](err); ok {
		why := refusal.Reason
		return []admin.Check{envelope.Failed("credentials", why.String(), why.Fix)}, nil
	}
	if err == nil {
		conn.Close()
	}
	held, err := tokensource.Read(a.Credentials, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	of.Tenant, of.Actor, of.Token = held.Says().Tenant, held.Says().Actor, held.Token
	return admin.Diagnose(ctx, a.Server, of, o.NATS...), nil
}

func printChecks(w io.Writer, checks []admin.Check) error {
	var text strings.Builder
	for _, c := range checks {
		fmt.Fprintf(&text, "%-4s  %-22s %s\n", strings.ToUpper(string(c.Status)), c.Name, cli.EscapeText(c.Says))
		if c.Fix != "" {
			fmt.Fprintf(&text, "%30s%s\n", "fix: ", c.Fix)
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}
