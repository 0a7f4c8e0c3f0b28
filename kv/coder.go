package kv

import (
	"strconv"
	"strings"
)

// coder writes records to out, or reads them from in. A record is a letter and fields, each behind a bar, up to a
// semicolon; empty fields at its end are left out. What is read behind the fields that this build knows are members
// that a newer one added: they are kept as they are and written on.
type coder struct {
	out     []byte
	in      string // of the record that is read: what has not been read yet
	rest    string // the records behind it
	reading bool
	escapes bool            // there are some in what is read
	bad     bool            // what was read is malformed
	unknown error           // what was read is of a newer form
	sums    strings.Builder // the hashes that were read
}

// begin opens a record for writing.
func (c *coder) begin(letter byte) { c.out = append(c.out, letter) }

// end closes a record: written, behind the members of a newer build; read, keeping these in more.
func (c *coder) end(more *string) {
	if !c.reading {
		if *more == "" {
			for c.out[len(c.out)-1] == '|' {
				c.out = c.out[:len(c.out)-1]
			}
		}
		c.out = append(append(c.out, *more...), ';')
		return
	}
	*more, c.in = c.in, ""
	c.bad = c.bad || *more != "" && ((*more)[0] != '|' || strings.HasSuffix(*more, "|"))
}

// next opens the record of a letter for reading, if that is what comes next.
func (c *coder) next(letter byte) bool {
	if c.bad || c.rest == "" || c.rest[0] != letter {
		return false
	}
	end := strings.IndexByte(c.rest, ';')
	if end < 0 {
		c.bad = true
		return false
	}
	c.in, c.rest = c.rest[1:end], c.rest[end+1:]
	return true
}

// field reads one field as it is written; it is empty behind the last one.
func (c *coder) field() string {
	if c.in == "" {
		return ""
	}
	if c.in[0] != '|' {
		c.bad = true
		return ""
	}
	field := c.in[1:]
	if end := strings.IndexByte(field, '|'); end >= 0 {
		field, c.in = field[:end], field[end:]
	} else {
		c.in = ""
	}
	return field
}

// text codes a string.
func text[T ~string](c *coder, v *T) {
	if !c.reading {
		c.out = appendEscaped(append(c.out, '|'), string(*v))
		return
	}
	*v = T(c.plain(c.field()))
}

// plain returns a field without its escapes.
func (c *coder) plain(field string) string {
	if !c.escapes {
		return field
	}
	s, ok := unescape(field)
	c.bad = c.bad || !ok
	return s
}

// number codes an integer; zero is the empty field.
func number[T ~int | ~int64 | ~uint64](c *coder, v *T) {
	if !c.reading {
		if c.out = append(c.out, '|'); *v != 0 {
			c.out = appendNumber(c.out, *v)
		}
		return
	}
	field := c.field()
	if field == "" {
		*v = 0
		return
	}
	if n, err := strconv.ParseInt(field, 10, 64); err == nil {
		*v = T(n)
	} else {
		n, err := strconv.ParseUint(field, 10, 64)
		*v, c.bad = T(n), c.bad || err != nil
	}
	var digits [20]byte
	c.bad = c.bad || *v == 0 || string(appendNumber(digits[:0], *v)) != field
}

func appendNumber[T ~int | ~int64 | ~uint64](b []byte, v T) []byte {
	if v < 0 {
		return strconv.AppendInt(b, int64(v), 10)
	}
	return strconv.AppendUint(b, uint64(v), 10)
}

// since codes an integer as what it is more than base.
func since[T ~int64](c *coder, v *T, base T) {
	more := *v - base
	number(c, &more)
	*v = base + more
}

func flag(c *coder, v *bool) {
	n := 0
	if *v {
		n = 1
	}
	number(c, &n)
	*v, c.bad = n == 1, c.bad || n != 0 && n != 1
}

const hexDigits = "0123456789abcdef"

// specials are the bytes that are escaped: what structures a line, and what a header must not have.
var specials = func() (set [256]bool) {
	for b := range ' ' + 1 {
		set[b] = true
	}
	for _, b := range []byte{'|', ';', '%', 0x7f} {
		set[b] = true
	}
	return set
}()

func appendEscaped(out []byte, s string) []byte {
	plain := 0
	for i := range len(s) {
		if b := s[i]; specials[b] {
			out = append(append(out, s[plain:i]...), '%', hexDigits[b>>4], hexDigits[b&15])
			plain = i + 1
		}
	}
	return append(out, s[plain:]...)
}

// unescape is the inverse of appendEscaped; ok is false for what that does not make.
func unescape(s string) (plain string, ok bool) {
	if strings.IndexByte(s, '%') < 0 {
		return s, true
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			out = append(out, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		high, low := strings.IndexByte(hexDigits, s[i+1]), strings.IndexByte(hexDigits, s[i+2])
		if high < 0 || low < 0 || !specials[byte(high<<4|low)] {
			return "", false
		}
		out = append(out, byte(high<<4|low))
		i += 2
	}
	return string(out), true
}
