package cli

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// OldFlag adds old to flags: the name of flag in the release before this one. Help and completion do not show it. It
// sets flag. It is an error if flag itself has another value on the command line. Remove it with the next release.
func OldFlag(flags *pflag.FlagSet, old string, flag *pflag.Flag) { addOld(flags, old, flag, nil) }

// OldSyncFlag adds old to flags: a switch that --sync always has replaced.
func OldSyncFlag(flags *pflag.FlagSet, old string) {
	addOld(flags, old, flags.Lookup("sync"), func(s string) (string, error) {
		always, err := strconv.ParseBool(s)
		if always {
			return SyncAlways, err
		}
		return SyncInterval, err
	})
}

func addOld(flags *pflag.FlagSet, old string, flag *pflag.Flag, convert func(string) (string, error)) {
	added := flags.VarPF(&oldValue{flag: flag, old: old, convert: convert}, old, "", "old name of --"+flag.Name)
	added.Hidden, added.NoOptDefVal = true, flag.NoOptDefVal
	if convert != nil {
		added.NoOptDefVal = "true"
	}
}

// oldValue is the value of a flag's old name. It writes to the flag.
type oldValue struct {
	flag    *pflag.Flag
	old     string
	convert func(string) (string, error) // nil if the flag takes the same values
	given   *string                      // value that the old name set; nil if it is not on the command line
}

// String implements [pflag.Value].
func (v *oldValue) String() string {
	if v.flag == nil {
		return "" // pflag asks the zero value for its default
	}
	return v.flag.Value.String()
}

// Type implements [pflag.Value].
func (v *oldValue) Type() string { return v.flag.Value.Type() }

// Set implements [pflag.Value].
func (v *oldValue) Set(s string) error {
	if v.convert != nil {
		var err error
		if s, err = v.convert(s); err != nil {
			return err
		}
	}
	before := v.flag.Value.String()
	current := v.flag.Changed && (v.given == nil || *v.given != before) // the flag itself is on the command line
	if err := v.flag.Value.Set(s); err != nil {
		return err
	}
	now := v.flag.Value.String()
	if current && before != now {
		return v.contradiction(now, before)
	}
	v.given, v.flag.Changed = &now, true
	return nil
}

func (v *oldValue) contradiction(old, current string) error {
	return fmt.Errorf("--%s, the old name of --%s, sets it to %q and --%[2]s to %[4]q: leave --%[1]s out",
		v.old, v.flag.Name, old, current)
}

// CheckOldFlags returns an [ErrUsage] if the command line has an old name of a flag and, after it, the flag with
// another value.
func CheckOldFlags(flags *pflag.FlagSet) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		v, ok := f.Value.(*oldValue)
		if ok && v.given != nil && *v.given != v.flag.Value.String() {
			err = errors.Join(err, Usagef("%v", v.contradiction(*v.given, v.flag.Value.String())))
		}
	})
	return err
}
