package main

import (
	"time"

	"github.com/spf13/cobra"
)

// completionTime is the time in which the bus must answer for a completion.
const completionTime = time.Second

// completeFlag adds shell completion to a flag.
func completeFlag(cmd *cobra.Command, flag string, with cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, with); err != nil {
		panic(err) // cannot happen: the caller has added the flag
	}
}

// values completes a flag with its possible values.
func values[T ~string](of []T) cobra.CompletionFunc {
	texts := make([]string, len(of))
	for i, v := range of {
		texts[i] = string(v)
	}
	return cobra.FixedCompletions(texts, cobra.ShellCompDirectiveNoFileComp)
}
