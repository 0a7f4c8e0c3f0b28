package tool

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
)

// Unsanitized returns the strings in the input of f that are addresses, paths or commands by [Meanings], but declare no
// such format, so that [Function.Unsafe] does not check them. It returns them by JSON pointer, with the format.
func (f *Function) Unsanitized() (map[string]string, error) {
	if f.Request == nil {
		return nil, nil
	}
	return f.Request.Unformatted(meant)
}

// Undeclared returns a warning for each string of [Function.Unsanitized]. The warnings name file.
func (f *Function) Undeclared(file string) (warnings Problems) {
	found, err := f.Unsanitized()
	if err != nil { // cannot happen: the same schema was compiled before
		return Problems{{File: file, Message: err.Error(), Severity: Warning}}
	}
	for _, at := range slices.Sorted(maps.Keys(found)) {
		warnings = append(warnings, Problem{
			File: file, Severity: Warning, Message: fmt.Sprintf("%s has no format in the input of %q", at, f.Name),
			Hint: fmt.Sprintf("declare format %s, or what else it is, so that unsafe ones are refused", found[at]),
		})
	}
	return warnings
}

// undeclaredIn returns the warnings of all functions of a tool. They name file.
func undeclaredIn(functions map[string]*Function, file string) (warnings Problems) {
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		warnings = append(warnings, functions[name].Undeclared(file)...)
	}
	return warnings
}

// undeclared returns the warnings of all tools in a set.
func undeclared(set *Set) (warnings Problems) {
	for _, m := range set.List() {
		warnings = append(warnings, undeclaredIn(m.Functions, path.Join(filepath.Base(m.Dir), manifestFile))...)
	}
	return warnings
}
