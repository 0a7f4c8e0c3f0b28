package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/demo"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

func demoCmd(g *global) *cobra.Command {
	o := demo.Options{Environ: g.env.environ}
	cmd := &cobra.Command{
		Use: "demo", Short: "Show calls that succeed, join, fail and survive a crash, on a bus of its own", GroupID: "run",
		Args: cli.NoArgs,
		Long: `Starts a bus in a temporary folder, a dispatcher, two executors as processes of their own and a small
web site, makes eight calls that go well and badly, and prints what became of each, with the audit
record of one. Exits with 0 only if everything came out as it should. Needs neither a running bus
nor a network.`,
		Example: "  toolbus demo\n  toolbus demo --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := g.isServer(cmd); err != nil {
				return err
			}
			return runDemo(cmd.Context(), g, o)
		},
	}
	cmd.AddCommand(demoToolCmd(g))
	return cmd
}

func runDemo(ctx context.Context, g *global, o demo.Options) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the toolbus command: %w", err)
	}
	o.Self = self
	table := &demo.Table{Out: g.env.stdout, Terminal: g.env.terminal}
	if !g.json {
		o.Show = table
	}
	report, err := demo.Run(ctx, o)
	if err != nil {
		return err
	}
	err = g.print(report, func(io.Writer) error {
		table.Summary(report)
		return nil
	})
	return cmp.Or(err, exitIf(!report.OK, 1))
}

// demoToolCmd is the program of the demo's tool.
func demoToolCmd(g *global) *cobra.Command {
	return &cobra.Command{
		Use: "tool [child]", Short: "Be the demo's own tool", Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && args[0] == demo.Child {
				timer.Sleep(context.WithoutCancel(cmd.Context()), time.Hour)
				return nil
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			p := demo.Program{Self: self, Environ: g.env.environ, Stdin: g.env.stdin, Stdout: g.env.stdout}
			return p.Run(cmd.Context())
		},
	}
}
