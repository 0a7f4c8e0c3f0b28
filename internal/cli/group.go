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
		like := mostSimilar(cmd, args[0])
		if len(like) == 0 {
			return Usagef("unknown command %q: `%s --help` lists the commands", args[0], cmd.CommandPath())
		}
		return Usagef("unknown command %q: did you mean %s?", args[0], strings.Join(like, " or "))
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return cmd
}

// mostSimilar returns the subcommands that differ from a name by one edit, or else by two.
func mostSimilar(cmd *cobra.Command, name string) (like []string) {
	for _, edits := range []int{1, 2} {
		cmd.SuggestionsMinimumDistance = edits
		if like = cmd.SuggestionsFor(name); len(like) > 0 {
			break
		}
	}
	return like
}
