package tool

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// edit replaces bytes of a file.
type edit struct {
	from, to int
	text     string
}

// scalarPattern matches a scalar of YAML on one line.
var scalarPattern = regexp.MustCompile(`^("[^"]*"|'[^']*'|[^\s#,}\]]+)`)

// scalar returns the edit that replaces the scalar at a pointer, or nil if it is not on one line.
func (s *source) scalar(at jsontext.Pointer, text string) *edit {
	where := s.values[at]
	from := 0
	for line := 1; line < where.line; line++ {
		from += strings.IndexByte(s.text[from:], '\n') + 1
	}
	for range where.column - 1 {
		_, size := utf8.DecodeRuneInString(s.text[from:])
		from += size
	}
	old := scalarPattern.FindString(s.text[from:])
	if old == "" {
		return nil
	}
	return &edit{from, from + len(old), text}
}

// Fix mends the problems of a folder that have a derived solution, and returns the names of the files that it changed.
// [Lint] must have returned the problems, and the folder must not have changed since.
func Fix(dir string, problems Problems) (changed []string, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("tools folder: %w", err)
	}
	defer root.Close()
	edits := map[string][]edit{}
	for _, p := range problems {
		if p.edit != nil {
			edits[p.File] = append(edits[p.File], *p.edit)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(edits)) {
		if err := rewrite(root, name, edits[name]); err != nil {
			return changed, fmt.Errorf("%s: %w", name, err)
		}
		changed = append(changed, name)
	}
	return changed, nil
}

// rewrite applies edits to a file, and replaces it at once.
func rewrite(root *os.Root, name string, edits []edit) error {
	raw, err := fs.ReadFile(root.FS(), name)
	if err != nil {
		return err
	}
	info, err := root.Stat(name)
	if err != nil {
		return err
	}
	mark := len(raw) - len(strings.TrimPrefix(string(raw), "\ufeff"))
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	var b strings.Builder
	at := 0
	for _, e := range edits {
		b.Write(raw[at : mark+e.from])
		b.WriteString(e.text)
		at = mark + e.to
	}
	b.Write(raw[at:])
	next := path.Join(path.Dir(name), "."+path.Base(name)+".new")
	if err := root.WriteFile(next, []byte(b.String()), info.Mode().Perm()); err != nil {
		return err
	}
	return root.Rename(next, name)
}
