package policy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Sanitized checks that dispatchers sanitize the paths, addresses and commands in the inputs of the tools with an entry
// (003 §Security requirement): each declares its format, or its entry names it in unsanitized. Otherwise the error is
// of type [tool.Problems]. A set that a former build has pushed may be in force all the same.
func Sanitized(set *Set, tools []*tool.Manifest) error {
	index := make(map[string]int, len(set.Entries))
	for i, e := range set.Entries {
		index[e.ToolName] = i
	}
	var problems tool.Problems
	for _, m := range tools {
		i, registered := index[m.ToolID]
		if !registered {
			continue
		}
		all, err := uncheckedIn(m)
		if err != nil {
			return err
		}
		at := jsontext.Pointer(fmt.Sprintf("/tools/%d/unsanitized", i))
		for _, u := range all {
			if !slices.Contains(set.Entries[i].Unsanitized, u.pointer) {
				problems = append(problems, u.problem(set.registry, at, m))
			}
		}
	}
	if problems != nil {
		return problems
	}
	return nil
}

// unchecked is a string in the input of a function that should be sanitized, and is not.
type unchecked struct{ fn, pointer, format string }

// uncheckedIn returns the unchecked strings of a tool, by function and pointer.
func uncheckedIn(m *tool.Manifest) (all []unchecked, err error) {
	for name, f := range m.Functions {
		found, err := f.Unsanitized()
		if err != nil {
			return nil, fmt.Errorf("input of %s: %w", m.ToolID, err)
		}
		for pointer, format := range found {
			all = append(all, unchecked{name, pointer, format})
		}
	}
	slices.SortFunc(all, func(a, b unchecked) int {
		return cmp.Or(cmp.Compare(a.fn, b.fn), cmp.Compare(a.pointer, b.pointer))
	})
	return all, nil
}

// pointersOf returns the pointers of unchecked strings, sorted, each once.
func pointersOf(all []unchecked) []string {
	pointers := map[string]bool{}
	for _, u := range all {
		pointers[u.pointer] = true
	}
	return slices.Sorted(maps.Keys(pointers))
}

func (u unchecked) problem(doc *tool.Document, at jsontext.Pointer, m *tool.Manifest) tool.Problem {
	return doc.Problem(at,
		fmt.Sprintf("%s takes any text as %q in the input of %q, which is meant as format %s", m.ToolID, u.pointer, u.fn,
			u.format),
		fmt.Sprintf("declare the format in its schema, or allow any text: unsanitized: [%q]", u.pointer))
}
