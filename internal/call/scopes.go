package call

import (
	"slices"
	"strings"
)

// maxScopes bounds [Owner.Scopes], in bytes: an event has it in its header.
const maxScopes = 512

// everyScope stands for scopes that are too long to be noted. Only a token with this scope covers it.
const everyScope = "*"

// NoteScopes returns the text for [Owner.Scopes]: "+", and the scopes with spaces between them. Where these would be
// longer than 512 bytes, or have a space, it returns "+*".
func NoteScopes(scopes ...string) string {
	slices.Sort(scopes)
	scopes = slices.Compact(scopes)
	note := "+" + strings.Join(scopes, " ")
	if len(note) > maxScopes || strings.Count(note, " ") >= max(1, len(scopes)) {
		return "+" + everyScope
	}
	return note
}

// Needs returns the scopes that the call of o needs; known is false if the log does not say.
func (o Owner) Needs() (scopes []string, known bool) {
	note, known := strings.CutPrefix(o.Scopes, "+")
	return strings.FieldsFunc(note, func(r rune) bool { return r == ' ' }), known
}
