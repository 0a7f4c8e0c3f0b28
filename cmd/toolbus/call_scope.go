package main

import (
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

// maxScopeValue is the longest value of a key of the scope, in characters, as in the schema of requests.
const maxScopeValue = 256

// addScope adds the flag for the keys of context.scope.
func (f *callFlags) addScope(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.scope, "scope", nil, "scope key with its value, `KEY=VALUE` (context.scope), "+
		"where the lane or the tool requires the key; repeat it for more")
	completeFlag(cmd, "scope", cobra.NoFileCompletions)
}

// scopeKeys returns the scope that the flags name, or nil without them. An empty value is refused: to dispatchers it is
// a missing one.
func scopeKeys(flags []string) (map[string]string, error) {
	scope := make(map[string]string, len(flags))
	for _, flag := range flags {
		key, value, pair := strings.Cut(flag, "=")
		_, twice := scope[key]
		switch {
		case !pair || key == "":
			return nil, usagef("--scope %s is not KEY=VALUE: write it as in --scope case_id=77", cli.EscapeCell(flag))
		case value == "":
			return nil, usagef("--scope %s= has no value: name one, or leave the flag out", cli.EscapeCell(key))
		case twice:
			return nil, usagef("--scope names the key %s twice: name each key once", cli.EscapeCell(key))
		case utf8.RuneCountInString(key) > envelope.MaxLabel || utf8.RuneCountInString(value) > maxScopeValue:
			return nil, usagef("--scope %.20s… is too long: a key has at most %d characters, and a value at most %d",
				cli.EscapeCell(flag), envelope.MaxLabel, maxScopeValue)
		}
		scope[key] = value
	}
	if len(scope) > envelope.MaxScopeKeys {
		return nil, usagef("--scope names %d keys: a call has at most %d", len(scope), envelope.MaxScopeKeys)
	}
	if len(scope) == 0 {
		return nil, nil
	}
	return scope, nil
}
