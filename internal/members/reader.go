package members

import (
	"strconv"
	"strings"
)

// Reader reads from Rest, which is UTF-8 without control characters, what a [Writer] writes, by methods of the same
// names in the same order. Whatever it does not expect it finds odd, be it as good JSON: its owner has the library read
// the whole then. What it returns shares the memory of Rest.
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

// Uint reads an integer that is not negative, in the one way that JSON has for it.
func (r *Reader) Uint(name string) uint64 {
	r.Raw(name)
	end := 0
	for end < len(r.Rest) && '0' <= r.Rest[end] && r.Rest[end] <= '9' {
		end++
	}
	n, err := strconv.ParseUint(r.Rest[:end], 10, 63)
	r.Odd = r.Odd || err != nil || end > 1 && r.Rest[0] == '0'
	r.Rest = r.Rest[end:]
	return n
}

// UintIf reads an integer that is not negative, if it comes next.
func (r *Reader) UintIf(name string) uint64 {
	if !strings.HasPrefix(r.Rest, name) {
		return 0
	}
	return r.Uint(name)
}

// BoolIf reads true, if it comes next.
func (r *Reader) BoolIf(name string) bool {
	if !r.has(name) {
		return false
	}
	r.Raw("true")
	return !r.Odd
}
