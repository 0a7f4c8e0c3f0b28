package cli

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// WrapHelp breaks the lines that describe flags in the help of cmd and of its subcommands.
func WrapHelp(cmd *cobra.Command) {
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		var text bytes.Buffer
		out := cmd.OutOrStderr()
		cmd.SetOut(&text)
		err := new(cobra.Command).UsageFunc()(cmd) // as without this function
		cmd.SetOut(out)
		if err != nil {
			return fmt.Errorf("help: %w", err)
		}
		usage := text.String()
		for _, flags := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.InheritedFlags()} {
			if long := strings.TrimSpace(flags.FlagUsages()); long != "" {
				usage = strings.Replace(usage, long, strings.TrimSpace(flags.FlagUsagesWrapped(helpWidth)), 1)
			}
		}
		_, err = io.WriteString(out, usage)
		return err
	})
}
