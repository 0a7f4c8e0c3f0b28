package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// FlagError returns the usage error of a wrong flag. It suggests the most similar flag of the command for an unknown
// one. Use it as the flag error function of root commands.
func FlagError(cmd *cobra.Command, err error) error {
	if cmd.HasSubCommands() && cmd.Args != nil { // the flags behind an unknown command are unknown, too
		if unknown := cmd.Args(cmd, cmd.Flags().Args()); unknown != nil {
			return unknown
		}
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if near, ok := nearestFlag(cmd.Flags(), unknown.GetSpecifiedName()); ok {
			return Usagef("%v: did you mean --%s?", err, near)
		}
	}
	return Usagef("%v", err)
}

// nearestFlag returns the flag whose first words are the name, or the reverse, or which is its plural, or else the one
// that is most similar.
func nearestFlag(flags *pflag.FlagSet, name string) (near string, ok bool) {
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == name+"s" || strings.HasPrefix(f.Name, name+"-") || strings.HasPrefix(name, f.Name+"-") {
			near = f.Name
		}
		names = append(names, f.Name)
	})
	if near != "" {
		return near, true
	}
	return envelope.Nearest(name, names)
}
