package tool

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// Severity says what follows from a Problem.
type Severity string

// The severities.
const (
	Refused Severity = ""        // the folder is not loaded
	Fault   Severity = "fault"   // lint fails; the folder is loaded
	Warning Severity = "warning" // nothing follows
)

// Problem is one error in a manifest, with its position and a hint on how to correct it. Line and Column start at 1.
// They are 0 if the problem concerns the whole file.
type Problem struct {
	File     string   `json:"file"`
	Line     int      `json:"line,omitzero"`
	Column   int      `json:"column,omitzero"`
	Severity Severity `json:"severity,omitzero"`
	Message  string   `json:"message"`
	Hint     string   `json:"fix,omitzero"`

	// Unrunnable means that no run of the tool can start on this host: its program, or what that needs, is not there.
	Unrunnable bool `json:"-"`
	// Refusing means that the build that was loaded before is not served either.
	Refusing bool `json:"-"`

	edit *edit // what [Fix] does about it; nil if only the author can mend it
}

// String formats p as file:line:column: message (hint).
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	if p.Severity == Warning {
		b.WriteString(": warning")
	}
	b.WriteString(": " + p.Message)
	if p.Hint != "" {
		b.WriteString(" (" + p.Hint + ")")
	}
	return b.String()
}

// Folder returns the name of the tool's folder in the folder of tools.
func (p Problem) Folder() string {
	folder, _, _ := strings.Cut(p.File, "/")
	return folder
}

// Problems is the error of [Load]: all problems of all manifests, sorted by file and position.
type Problems []Problem

// Below returns the problems of files below a folder of tools, whose names then begin with that folder.
func (ps Problems) Below(dir string) Problems {
	below := slices.Clone(ps)
	for i, p := range below {
		below[i].File = filepath.Join(dir, p.File)
	}
	return below
}

// Error lists all problems, one per line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Violations returns the problems as the violations of an error, each with its place as pointer.
func (ps Problems) Violations() (all []jsonschema.Violation) {
	for _, p := range ps {
		place, says, _ := strings.Cut(p.String(), ": ")
		all = append(all, jsonschema.Violation{Pointer: place, Rule: "problem", Message: says})
	}
	return all
}

// refused reports whether a folder with these problems is not loaded.
func (ps Problems) refused() bool {
	return slices.ContainsFunc(ps, func(p Problem) bool { return p.Severity == Refused })
}

// Refused returns the problems that keep a tool from being loaded.
func (ps Problems) Refused() Problems {
	return slices.DeleteFunc(slices.Clone(ps), func(p Problem) bool { return p.Severity != Refused })
}

// Unloaded returns the problems that keep a tool from being loaded or from running on this host.
func (ps Problems) Unloaded() Problems {
	return slices.DeleteFunc(slices.Clone(ps), func(p Problem) bool { return p.Severity != Refused && !p.Unrunnable })
}

// Failed reports whether there is a problem that is no warning.
func (ps Problems) Failed() bool {
	return slices.ContainsFunc(ps, func(p Problem) bool { return p.Severity != Warning })
}

// didYouMean suggests the candidate that is most similar to word, or lists all candidates if none is similar.
func didYouMean(word string, candidates []string) string {
	if best, ok := envelope.Nearest(word, candidates); ok {
		return fmt.Sprintf("did you mean %q?", best)
	}
	if len(candidates) == 0 {
		return "declare it first"
	}
	return "allowed: " + strings.Join(candidates, ", ")
}
