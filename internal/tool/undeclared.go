package tool

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
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
		warnings = append(warnings, inSchema(f.Request, at, Problem{
			File: file, Severity: Warning, Message: fmt.Sprintf("%s has no format in the input of %q", at, f.Name),
			Hint: fmt.Sprintf("declare format %s, or what else it is, so that unsafe ones are refused", found[at]),
		}, at+" has no format"))
	}
	return warnings
}

// schemaWarnings returns the warnings about the schemas of all functions of a tool. They name file. The author of an
// imported tool is its server, whose keywords nobody here can correct.
func schemaWarnings(functions map[string]*Function, imported bool, file string) (warnings Problems) {
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		f := functions[name]
		warnings = append(warnings, f.Undeclared(file)...)
		if !imported {
			warnings = append(warnings, unknownKeywords(f.Request, fmt.Sprintf("the input of %q", name), file)...)
			warnings = append(warnings, unknownKeywords(f.Response, fmt.Sprintf("the output of %q", name), file)...)
		}
	}
	return once(warnings)
}

// once returns the problems without those that are there before: functions share files.
func once(problems Problems) (all Problems) {
	for _, p := range problems {
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// maxUnknown is the largest number of unknown keywords of one schema that lint names.
const maxUnknown = 20

// unknownKeywords returns a warning for each keyword of a schema that JSON Schema does not define.
func unknownKeywords(s *jsonschema.Schema, of, file string) (warnings Problems) {
	if s == nil {
		return nil
	}
	for _, k := range s.Unknown(maxUnknown) {
		hint := "JSON Schema 2020-12 does not define it: leave it out, or begin its name with x-"
		if meant, ok := envelope.Nearest(k.Name, jsonschema.Keywords()); ok {
			hint = fmt.Sprintf("did you mean %q?", meant)
		}
		at := cmp.Or(k.At, "the top")
		warnings = append(warnings, inSchema(s, string(jsontext.Pointer(k.At).AppendToken(k.Name)), Problem{
			File: file, Severity: Warning, Hint: hint,
			Message: fmt.Sprintf("the keyword %q at %s of the schema for %s has no effect", k.Name, at, of),
		}, fmt.Sprintf("the keyword %q at %s of the schema has no effect", k.Name, at)))
	}
	return warnings
}

// inSchema returns a problem at its place in the file of the schema, with a message that fits every function that uses
// the file. Without a file it returns p.
func inSchema(s *jsonschema.Schema, at string, p Problem, message string) Problem {
	if s.File != "" {
		p.File, p.Message = path.Join(path.Dir(p.File), s.File), message
		p.Line, p.Column = s.Position(jsontext.Pointer(at))
	}
	return p
}

// warningsOf returns the warnings about the schemas of all tools in a set.
func warningsOf(set *Set) (warnings Problems) {
	for _, m := range set.List() {
		file := path.Join(filepath.Base(m.Dir), manifestFile)
		warnings = append(warnings, schemaWarnings(m.Functions, m.Listed != nil, file)...)
	}
	return warnings
}
