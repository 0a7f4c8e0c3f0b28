package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

// Values of --sync. SyncInterval means the interval in the server's configuration, two minutes by default.
const (
	SyncAlways   = "always"
	SyncInterval = "interval"
)

// SyncFlag adds --sync to cmd. always is true if the flag is [SyncAlways]; its value before the call is the default.
func SyncFlag(cmd *cobra.Command, always *bool, usage string) {
	cmd.Flags().Var((*syncValue)(always), "sync", usage)
	words := cobra.FixedCompletions([]string{SyncAlways, SyncInterval}, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc("sync", words); err != nil {
		panic(err) // the flag was added above
	}
}

type syncValue bool

// String implements [pflag.Value].
func (s *syncValue) String() string {
	if *s {
		return SyncAlways
	}
	return SyncInterval
}

// Type implements [pflag.Value]. Help shows the result in place of a value.
func (*syncValue) Type() string { return SyncAlways + "|" + SyncInterval }

// Set implements [pflag.Value].
func (s *syncValue) Set(word string) error {
	if word != SyncAlways && word != SyncInterval {
		return fmt.Errorf("use %s or %s", SyncAlways, SyncInterval)
	}
	*s = word == SyncAlways
	return nil
}
