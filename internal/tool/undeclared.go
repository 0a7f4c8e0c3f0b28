package tool

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// Undeclared returns a warning for each string in the input of f that is named like an address, a path or a command but
// has no such format. Dispatchers cannot check it. The warnings name file.
func (f *Function) Undeclared(file string) (warnings Problems) {
	pointers, err := f.Request.Unformatted(meansMore)
	if err != nil { // cannot happen: the same schema was compiled before
		return Problems{{File: file, Message: err.Error(), Severity: Warning}}
	}
	for _, at := range pointers {
		warnings = append(warnings, Problem{
			File: file, Severity: Warning, Message: fmt.Sprintf("%s has no format in the input of %q", at, f.Name),
			Hint: "declare what it is, format uri, path or command, so that unsafe ones are refused",
		})
	}
	return warnings
}

// undeclared returns the warnings of all functions of the tools in a set.
func undeclared(set *Set) (warnings Problems) {
	for _, m := range set.List() {
		for _, name := range slices.Sorted(maps.Keys(m.Functions)) {
			file := path.Join(filepath.Base(m.Dir), manifestFile)
			warnings = append(warnings, m.Functions[name].Undeclared(file)...)
		}
	}
	return warnings
}

// undeclaredIn returns the warnings of all functions of a tool as a dispatcher describes it.
func undeclaredIn(info envelope.ToolInfo) (warnings Problems, err error) {
	for _, name := range slices.Sorted(maps.Keys(info.Functions)) {
		schema := info.Functions[name].Request
		if schema == nil {
			continue
		}
		f := Function{Name: name}
		if f.Request, err = jsonschema.Compile(name, schema, nil); err != nil {
			return nil, fmt.Errorf("input of %s: %w", info.ToolID, err)
		}
		warnings = append(warnings, f.Undeclared(info.ToolID)...)
	}
	return warnings, nil
}

// meansMore reports whether one of the words of a name says that its value is an address, a path or a command.
func meansMore(name string) bool {
	return slices.ContainsFunc(nameWords(name), func(word string) bool {
		return slices.Contains([]string{"path", "url", "cmd", "command"}, strings.ToLower(word))
	})
}

// nameWords splits the name of a member: target_url, target-url, targetURL and URLTarget have two words each.
func nameWords(name string) (words []string) {
	letters, from := []rune(name), 0
	for i, r := range letters {
		switch {
		case !unicode.IsLetter(r):
			words = append(words, string(letters[from:i]))
			from = i + 1
		case i > from && unicode.IsUpper(r) && beginsWord(letters, i):
			words = append(words, string(letters[from:i]))
			from = i
		}
	}
	return append(words, string(letters[from:]))
}

// beginsWord reports whether the upper-case letter at i begins a word, and is not one of an abbreviation.
func beginsWord(letters []rune, i int) bool {
	return unicode.IsLower(letters[i-1]) || i+1 < len(letters) && unicode.IsLower(letters[i+1])
}
