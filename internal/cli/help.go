package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// ExecuteRoot executes a root command. --help of an unknown subcommand is a usage error, as the subcommand alone is.
func ExecuteRoot(ctx context.Context, root *cobra.Command) error {
	var unknown error
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd.HasSubCommands() && cmd.Args != nil {
			unknown = cmd.Args(cmd, cmd.Flags().Args())
		}
		if unknown == nil {
			help(cmd, args)
		}
	})
	return cmp.Or(root.ExecuteContext(ctx), unknown)
}

// helpWidth is the width of the descriptions of flags in help, in columns.
const helpWidth = 100

// ArrangeHelp sets the form of the help of cmd and of its subcommands. It begins with what a reader needs first: one
// line about the command, its usage, examples and subcommands. The long text and the flags follow, in broken lines.
func ArrangeHelp(cmd *cobra.Command) {
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		usage := cmd.UsageString()
		if cmd.Long != "" {
			usage = strings.Replace(usage, "\nFlags:\n", "\n"+strings.TrimSpace(cmd.Long)+"\n\nFlags:\n", 1)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s\n\n%s", cmd.Short, usage)
	})
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		cmd.LocalFlags().VisitAll(shortDefault)
		var text bytes.Buffer
		out := cmd.OutOrStderr()
		cmd.SetOut(&text)
		err := new(cobra.Command).UsageFunc()(cmd) // as without this function
		cmd.SetOut(out)
		if err != nil {
			return fmt.Errorf("help: %w", err)
		}
		usage := text.String()
		if cmd.HasAvailableSubCommands() { // these list the global flags
			global := cmd.InheritedFlags().FlagUsages()
			usage = strings.Replace(usage, "\n\nGlobal Flags:\n"+strings.TrimRight(global, "\n"), "", 1)
		}
		for _, flags := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
			if long := strings.TrimSpace(flags.FlagUsages()); long != "" {
				usage = strings.Replace(usage, long, strings.TrimSpace(flags.FlagUsagesWrapped(helpWidth)), 1)
			}
		}
		const choice = "[=true|false]" // of each flag that is true or false: noise, but its column stays
		_, err = io.WriteString(out, strings.ReplaceAll(usage, choice, strings.Repeat(" ", len(choice))))
		return err
	})
}

// shortDefault lets the help write 15m0s as 15m.
func shortDefault(f *pflag.Flag) {
	if d, err := time.ParseDuration(f.DefValue); err == nil && f.Value.Type() == "duration" {
		f.DefValue = timer.Text(d)
	}
}
