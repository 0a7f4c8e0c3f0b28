package tool

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// edit replaces bytes of a file. The result must have a value at a pointer, in a manifest, or a section, in an
// errors.md.
type edit struct {
	from, to int
	text     string
	at       jsontext.Pointer
	value    string
	declares *ErrorSpec
}

// holds reports whether a file has what the edit was to write.
func (e *edit) holds(text []byte) bool {
	if e.declares == nil {
		s := newSource("", manifestWords())
		return s.parse(text) && s.at(e.at) == any(e.value)
	}
	return slices.ContainsFunc(parseErrorspec(text).sections, func(s errorSection) bool {
		return s.declared && len(s.problems) == 0 && s.spec.Name == e.declares.Name && s.spec.equal(*e.declares)
	})
}

// scalarPattern matches a scalar of YAML that ends on its line, with nothing but a comment behind it.
var scalarPattern = regexp.MustCompile(`^("[^"\\\r\n]*"|'[^'\r\n]*'|[^\s"'|>#,{}\[\]]+)[ \t]*(#.*)?\r?(\n|$)`)

// scalar returns the edit that replaces the string at a pointer, or nil unless it stands alone at the end of a line.
func (s *source) scalar(at jsontext.Pointer, value string) *edit {
	where := s.values[at]
	from := 0
	for line := 1; line < where.line; line++ {
		from += strings.IndexByte(s.text[from:], '\n') + 1
	}
	for range where.column - 1 {
		_, size := utf8.DecodeRuneInString(s.text[from:])
		from += size
	}
	old := scalarPattern.FindStringSubmatch(s.text[from:])
	if old == nil || strings.Trim(old[1], `"'`) != s.at(at) {
		return nil
	}
	return &edit{from: from, to: from + len(old[1]), text: strconv.Quote(value), at: at, value: value}
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

var (
	errLink  = errors.New("is a symbolic link: run lint --fix where the file is")
	errUnfit = errors.New("cannot be mended: correct it by hand, as lint says")
)

// rewrite applies edits to a file, and replaces it at once. If the result does not have what the edits were to write,
// the file stays as it is.
func rewrite(root *os.Root, name string, edits []edit) error {
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errLink
	}
	raw, err := root.ReadFile(name)
	if err != nil {
		return err
	}
	text := applied(raw, edits)
	for _, e := range edits {
		if !e.holds(text) {
			return errUnfit
		}
	}
	next := path.Join(path.Dir(name), "."+path.Base(name)+".new")
	if err := root.WriteFile(next, text, info.Mode().Perm()); err != nil {
		return err
	}
	if err := root.Chmod(next, info.Mode().Perm()); err != nil { // whatever the umask says
		return err
	}
	return root.Rename(next, name)
}

// applied returns a file with edits, whose positions do not count a byte order mark.
func applied(raw []byte, edits []edit) []byte {
	mark := len(raw) - len(bytes.TrimPrefix(raw, []byte("\ufeff")))
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	var text []byte
	at := 0
	for _, e := range edits {
		text = append(append(text, raw[at:mark+e.from]...), e.text...)
		at = mark + e.to
	}
	return append(text, raw[at:]...)
}
