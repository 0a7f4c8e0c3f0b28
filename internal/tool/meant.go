package tool

import (
	"slices"
	"strings"
	"unicode"

	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// MeantBy is a row of the table that says which strings of inputs are addresses, paths or commands. All words are in
// lower case, and a plural with s counts as its singular.
type MeantBy struct {
	Format string   // see [Function.Unsafe]
	Words  []string // one of the name of a member, or of the first three of its description
	Ends   []string // the last word of a name, or its last two as one
}

// Meanings returns the table.
func Meanings() []MeantBy {
	return []MeantBy{
		{jsonschema.FormatPath, []string{"path", "filepath"},
			[]string{"file", "filename", "dir", "directory", "directories", "folder", "cwd"}},
		{jsonschema.FormatURI, []string{"url", "uri"}, []string{"href"}},
		{jsonschema.FormatCommand, []string{"cmd", "command"}, []string{"argv"}},
	}
}

// describing is how many words of a description count.
const describing = 3

// meant returns the format of the strings that a member with this name and description means, or "".
func meant(name, description string) string {
	words := nameWords(name)
	var ends []string
	if n := len(words); n > 0 {
		ends = append(ends, words[n-1], strings.Join(words[max(0, n-2):], ""))
	}
	told := strings.FieldsFunc(strings.ToLower(description), func(r rune) bool { return !unicode.IsLetter(r) })
	words = append(words, told[:min(len(told), describing)]...)
	for _, by := range Meanings() {
		if slices.ContainsFunc(words, isOneOf(by.Words)) || slices.ContainsFunc(ends, isOneOf(by.Ends)) {
			return by.Format
		}
	}
	return ""
}

// isOneOf returns whether a word is one of these, or its plural.
func isOneOf(these []string) func(word string) bool {
	return func(word string) bool {
		return slices.Contains(these, word) || slices.Contains(these, strings.TrimSuffix(word, "s"))
	}
}

// nameWords splits the name of a member into words in lower case: target_url, target-url, targetURL and URLTarget have
// two each.
func nameWords(name string) (words []string) {
	letters, from := []rune(name), 0
	end := func(at, next int) {
		if at > from {
			words = append(words, strings.ToLower(string(letters[from:at])))
		}
		from = next
	}
	for i, r := range letters {
		switch {
		case !unicode.IsLetter(r):
			end(i, i+1)
		case i > from && unicode.IsUpper(r) && beginsWord(letters, i):
			end(i, i)
		}
	}
	end(len(letters), len(letters))
	return words
}

// beginsWord reports whether the upper-case letter at i begins a word, and is not one of an abbreviation.
func beginsWord(letters []rune, i int) bool {
	return unicode.IsLower(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1])
}
