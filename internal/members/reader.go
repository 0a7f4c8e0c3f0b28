package members

import (
	"strconv"
	"strings"
)

// Reader reads from Rest, which is known to be JSON, what a [Writer] writes, by methods of the same names in the same
// order. Whatever it does not expect it finds odd, be it as good JSON: its owner has the library read the whole then.
// What it returns shares the memory of Rest.
type Reader struct {
	Rest string
	Odd  bool // what was read is of no use
}

// Raw reads s.
func (r *Reader) Raw(s string) { r.Odd = !r.has(s) || r.Odd }

func (r *Reader) has(s string) (found bool) {
	r.Rest, found = strings.CutPrefix(r.Rest, s)
	return found
}

// Text reads a string.
func (r *Reader) Text(name string) string {
	r.Raw(name)
	return r.quoted()
}

// quoted reads a string without an escape, as nearly all are.
func (r *Reader) quoted() string {
	r.Raw(`"`)
	end := strings.IndexByte(r.Rest, '"')
	if r.Odd || end < 0 || strings.IndexByte(r.Rest[:end], '\\') >= 0 {
		r.Odd = true
		return ""
	}
	text := r.Rest[:end]
	r.Rest = r.Rest[end+1:]
	return text
}

// TextIf reads a string, if it comes next.
func (r *Reader) TextIf(name string) string {
	if !r.has(name) {
		return ""
	}
	return r.quoted()
}

// TextsIf reads an array of strings, if it comes next.
func (r *Reader) TextsIf(name string) []string {
	if !r.has(name) {
		return nil
	}
	r.Raw("[")
	all := []string{}
	for !r.Odd && !r.has("]") {
		if len(all) > 0 {
			r.Raw(",")
		}
		all = append(all, r.quoted())
	}
	return all
}

// Int reads an integer.
func (r *Reader) Int(name string) int64 {
	r.Raw(name)
	end := strings.IndexAny(r.Rest, ",}")
	if r.Odd || end < 0 {
		r.Odd = true
		return 0
	}
	n, err := strconv.ParseInt(r.Rest[:end], 10, 64)
	r.Odd = err != nil // a fraction, for one
	r.Rest = r.Rest[end:]
	return n
}

// IntIf reads an integer, if it comes next.
func (r *Reader) IntIf(name string) int64 {
	if !strings.HasPrefix(r.Rest, name) {
		return 0
	}
	return r.Int(name)
}

// BoolIf reads true, if it comes next.
func (r *Reader) BoolIf(name string) bool {
	if !r.has(name) {
		return false
	}
	r.Raw("true")
	return !r.Odd
}
