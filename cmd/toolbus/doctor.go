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
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokensource"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
)

func doctorCmd(g *global) *cobra.Command {
	var keys, profile string
	var files []string
	var scrub bool
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check a deployment and print how to fix it", GroupID: "operate", Args: cli.NoArgs,
		Long: `Checks the server, the streams, executors, dispatchers, safety locks, clocks and the rights of the
connection. Its last line counts the checks. The exit code is 1 if a check fails. Items of the contract for tools
(docs/tool_contract.md) are open if nothing enforces them yet; they have one row, and one each with --json.

For a deployment with tokens it compares servers, accounts and streams with the profile of the deployment. With the
token of an operator it asks a dispatcher. With --secrets-dir it connects with rights of its own, and asks
dispatchers with an operator's token that is valid for a minute. With a token of another role it warns which checks it
could not make.

With --scrub it then reads all that the streams hold. It compares what it has read with the counts of the server, with
checksums, and with the list of the calls that the call log must have. It names what is damaged: calls with their
tenants, and other messages with their subjects. It changes nothing, and may run while the bus is used. On a terminal it
says how far it is. In a deployment with tokens it needs --secrets-dir.

With --config it connects to no server: it checks the limits in configuration files, including those that a running
server does not report. With --secrets-dir, too, it checks that servers sync as the profile of the deployment says.`,
		Example: "  toolbus doctor\n  toolbus doctor --server nats://bus:4222 --json\n" +
			"  toolbus doctor --server nats://bus:4222 --secrets-dir ./deployment/keys\n" +
			"  toolbus doctor --scrub --secrets-dir ./deployment/keys\n" +
			"  toolbus doctor --config /etc/toolbus/nats-1.conf",
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch f := cmd.Flags(); {
			case f.Changed("secrets-dir") && keys == "":
				return usagef("--secrets-dir is empty: name a folder, or leave the flag out")
			case scrub && len(files) > 0:
				return usagef("--scrub reads a running server, and --config a file: leave one of them out")
			case f.Changed("profile") && keys == "":
				return usagef("--profile needs --secrets-dir: name the folder of the deployment's secrets with it")
			}
			checks, err := configured(files, keys, profile)
			if err == nil && len(files) == 0 {
				checks, err = g.diagnose(cmd.Context(), keys, profile, scrub)
			}
			if err != nil {
				return err
			}
			failed := func(c admin.Check) bool { return c.Status == admin.CheckFailed }
			err = g.print(checks, func(w io.Writer) error { return printChecks(w, checks) })
			return cmp.Or(err, exitIf(slices.ContainsFunc(checks, failed), 1))
		},
	}
	cmd.Flags().StringVar(&keys, "secrets-dir", "",
		"`DIR` with the secrets of the deployment, written by \"toolbus keys init\"")
	cmd.Flags().StringSliceVar(&files, "config", nil,
		"configuration `FILE` of a server to check, instead of a running one; repeat it for more")
	cmd.Flags().StringVar(&profile, "profile", "",
		"with --secrets-dir: expected profile, single, single-durable, standard or durable (default: that of the deployment)")
	cmd.Flags().BoolVar(&scrub, "scrub", false, "read all streams, and name what is damaged")
	return cmd
}

// configured checks configuration files of servers, for the profile of the deployment if the folder of its secrets is
// known.
func configured(files []string, secrets, profile string) (checks []admin.Check, _ error) {
	if len(files) > 0 && secrets != "" && profile == "" {
		keys, err := deployment.Load(secrets)
		if err != nil {
			return nil, err
		}
		profile = keys.Profile
	}
	for _, file := range files {
		checks = append(checks, admin.Configuration(file, profile)...)
	}
	return checks, nil
}

// diagnose makes the usual checks, and with scrub those of all streams after them.
func (g *global) diagnose(ctx context.Context, keys, profile string, scrub bool) ([]admin.Check, error) {
	if scrub && keys == "" {
		if err := g.mayScrub(ctx); err != nil {
			return nil, err
		}
	}
	checks, err := g.look(ctx, keys, profile)
	err = cmp.Or(err, context.Cause(ctx)) // what failed because of an interruption says nothing
	if err != nil || !scrub {
		return checks, err
	}
	found, err := g.scrub(ctx, keys)
	return append(checks, found...), err
}

func (g *global) look(ctx context.Context, keys, profile string) ([]admin.Check, error) {
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
	a.Credentials = "" // the secrets authenticate the connection
	var o toolbus.Options
	if err := a.Into(&o); err != nil {
		return nil, err
	}
	return admin.DiagnoseWithSecrets(ctx, a.Server, keys, profile, o.NATS...)
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
	if failed := connected(ctx, a.Server, o); failed != nil {
		return []admin.Check{*failed}, nil
	}
	held, err := tokensource.Read(a.Credentials, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	says := held.Principal()
	if says.Role == auth.Executor {
		return []admin.Check{envelope.Failed("credentials", "they are of the executor "+says.Actor+", which may not ask for "+
			"any of the checks", "run doctor with an operator's token: --credentials FILE, or with --secrets-dir DIR")}, nil
	}
	of.Tenant, of.Actor, of.Token = says.Tenant, says.Actor, held.Token
	return admin.Diagnose(ctx, a.Server, of, o.NATS...), nil
}

// connected connects, which renews the credentials. It returns the failed check if the bus refuses them, or if no
// dispatcher answers for them: to connect again would take as long.
func connected(ctx context.Context, server string, o toolbus.Options) *admin.Check {
	conn, err := toolbus.Connect(ctx, server, o)
	if err == nil {
		conn.Close()
		return nil
	}
	if refusal, ok := errors.AsType[*toolbus.Error](err); ok {
		why := refusal.Reason()
		return new(envelope.Failed("credentials", why.String(), why.Fix))
	}
	if errors.Is(err, bus.ErrUnanswered) {
		why, _, _ := strings.Cut(err.Error(), "\n") // the other lines are the hint
		return new(envelope.Failed("server", why, bus.ConnectHint(err)))
	}
	return nil // other errors are findings of the checks
}

func printChecks(w io.Writer, checks []admin.Check) error {
	var text strings.Builder
	for _, c := range folded(checks) {
		fmt.Fprintf(&text, "%-4s  %-22s %s\n", strings.ToUpper(string(c.Status)), c.Name, cli.EscapeText(c.Says))
		if c.Fix != "" {
			fmt.Fprintf(&text, "%30s%s\n", "fix: ", c.Fix)
		}
	}
	text.WriteString(counted(checks) + "\n")
	_, err := io.WriteString(w, text.String())
	return err
}

// folded returns the checks with one row for all open items of the contract, which stay the same from day to day.
func folded(checks []admin.Check) (rows []admin.Check) {
	var items []string
	for _, c := range checks {
		if item, ok := strings.CutPrefix(c.Name, "contract: "); ok && c.Status == checkOpen && c.Fix == "" {
			items = append(items, item)
			continue
		}
		rows = append(rows, c)
	}
	if len(items) == 0 {
		return rows
	}
	return append(rows, admin.Check{Name: "contract", Status: checkOpen, Says: fmt.Sprintf(
		"%s of docs/tool_contract.md, section 13, not enforced yet or not known without a call: there is nothing to do. "+
			"--json says which: %s",
		plural(len(items), "item", "items"), strings.Join(items, ", "))})
}

// checkOpen is the status of a check that was not made.
const checkOpen envelope.CheckStatus = "open"

// counted returns how many checks have each status.
func counted(checks []admin.Check) string {
	count := map[envelope.CheckStatus]int{}
	for _, c := range checks {
		count[c.Status]++
	}
	var says []string
	for _, status := range []envelope.CheckStatus{admin.CheckOK, admin.CheckWarning, admin.CheckFailed, checkOpen} {
		says = append(says, fmt.Sprintf("%d %s", count[status], strings.ToUpper(string(status))))
	}
	return strings.Join(says, ", ")
}
