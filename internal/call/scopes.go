package call

import (
	"slices"
	"strings"
)

// maxScopes is the largest length of [Owner.Scopes] in bytes, because an event has it in a header.
const maxScopes = 512

// everyScope replaces scopes that are too long. Only a token with this scope covers it.
const everyScope = "*"

// NoteScopes returns the value of [Owner.Scopes]: "+" and the sorted scopes, separated by spaces. If that is longer
// than 512 bytes, or a scope contains a space, it returns "+*".
func NoteScopes(scopes ...string) string {
	slices.Sort(scopes)
	scopes = slices.Compact(scopes)
	note := "+" + strings.Join(scopes, " ")
	if len(note) > maxScopes || strings.Count(note, " ") >= max(1, len(scopes)) {
		return "+" + everyScope
	}
	return note
}

// Needs returns the scopes that the call of o needs. known is false if the log does not contain them.
func (o Owner) Needs() (scopes []string, known bool) {
	note, known := strings.CutPrefix(o.Scopes, "+")
	return strings.FieldsFunc(note, func(r rune) bool { return r == ' ' }), known
}
