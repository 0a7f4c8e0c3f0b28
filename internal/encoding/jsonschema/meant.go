package jsonschema

import (
	"fmt"
	"slices"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// Bounds of the time in which similar names are looked for: the number of violations of a value that may have one, and
// of the names that are compared for each.
const (
	maxMeant    = 16
	maxCompared = 256
)

// stepsOfName is the number of steps that the comparison of two names counts.
const stepsOfName = 4

// meant returns the question whether the undeclared member name of the object in was meant to be a declared one that is
// missing there, or "" if none is similar.
func (m *memberRules) meant(c *checker, in map[string]any, name string) string {
	near, ok := nearest(c, name, m.properties, func(declared string) bool { return !has(in, declared) })
	if !ok {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", near)
}

// misspelt returns the question whether an undeclared member of the object in was meant to be the missing member name,
// or "" if none is similar. If m allows no undeclared members, each of them is a violation that asks by itself.
func (m *memberRules) misspelt(c *checker, in map[string]any, name string) string {
	if m == nil || m.closed {
		return ""
	}
	near, ok := nearest(c, name, in, func(given string) bool { return m.properties[given] == nil })
	if !ok {
		return ""
	}
	return fmt.Sprintf("; did you mean it by %q?", near)
}

// nearest returns the key of names that is most similar to word, of those that may be meant.
func nearest[T any](c *checker, word string, names map[string]T, may func(string) bool) (name string, ok bool) {
	if len(c.found.list) >= maxMeant || len(names) > maxCompared {
		return "", false
	}
	c.take(stepsOfName * len(names))
	var all []string
	for n := range names {
		if may(n) {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return ijson.Nearest(word, all)
}
