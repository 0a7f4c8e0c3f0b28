package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/doctor"
	"github.com/spf13/cobra"
)

func doctorCmd(g *global) *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Check a deployment and say what to do about it", GroupID: "operate", Args: cli.NoArgs,
		Long: "Looks at the server, the streams, executors, dispatchers and clocks. The exit code is 1 when a check " +
			"fails.",
		Example: "  toolbus doctor\n  toolbus doctor --server nats://bus:4222 --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := g.access()
			if err != nil {
				return err
			}
			var o toolbus.Options
			if err := a.Into(&o); err != nil {
				return err
			}
			checks := doctor.Diagnose(cmd.Context(), a.Server,
				toolbus.ClientOptions{Tenant: g.tenant, Actor: g.actor}, o.NATS...)
			failed := func(c doctor.Check) bool { return c.Status == doctor.CheckFailed }
			err = g.print(checks, func(w io.Writer) error { return printChecks(w, checks) })
			return cmp.Or(err, exitIf(slices.ContainsFunc(checks, failed), 1))
		},
	}
}

func printChecks(w io.Writer, checks []doctor.Check) error {
	var text strings.Builder
	for _, c := range checks {
		fmt.Fprintf(&text, "%-4s  %-22s %s\n", strings.ToUpper(string(c.Status)), c.Name, plain(c.Says))
		if c.Fix != "" {
			fmt.Fprintf(&text, "%30s%s\n", "fix: ", c.Fix)
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}
