package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// Group makes cmd a command that does nothing itself: it prints its help, and an unknown subcommand is a usage error.
func Group(cmd *cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		like := cmd.SuggestionsFor(args[0])
		if len(like) == 0 {
			return Usagef("unknown command %q: `%s --help` lists the commands", args[0], cmd.CommandPath())
		}
		return Usagef("unknown command %q: did you mean %s?", args[0], strings.Join(like, " or "))
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.SuggestionsMinimumDistance = 2
	return cmd
}
