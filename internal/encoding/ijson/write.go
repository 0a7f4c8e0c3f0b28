package ijson

import (
	"bufio"
	"bytes"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// WriteCanonical writes the canonical form of v, which must be I-JSON, without holding it in memory. The error is that
// of w.
func WriteCanonical(w io.Writer, v jsontext.Value) error {
	b := bufio.NewWriterSize(w, 16<<10)
	c := canonizer{text: v, w: b}
	c.value(SkipSpace(v, 0))
	return b.Flush()
}

// canonizer writes the values of a text. Its methods return the end of the value at i. Write errors show up when w is
// flushed.
type canonizer struct {
	text []byte
	w    *bufio.Writer
}

func (c *canonizer) value(i int) int {
	switch c.text[i] {
	case '{':
		return c.object(i)
	case '[':
		return c.array(i)
	}
	end := i + ValueLen(c.text[i:])
	c.scalar(c.text[i:end])
	return end
}

func (c *canonizer) array(i int) int {
	_ = c.w.WriteByte('[')
	for i = SkipSpace(c.text, i+1); c.text[i] != ']'; i = SkipSpace(c.text, i) {
		if c.text[i] == ',' {
			_ = c.w.WriteByte(',')
			i = SkipSpace(c.text, i+1)
		}
		i = c.value(i)
	}
	_ = c.w.WriteByte(']')
	return i + 1
}

// entry is a member of an object: the offsets of the start and end of its quoted name, and of the start of its value.
type entry struct{ start, end, value int }

func (c *canonizer) object(i int) int {
	var entries []entry
	for i = SkipSpace(c.text, i+1); c.text[i] != '}'; i = SkipSpace(c.text, i) {
		if c.text[i] == ',' {
			i = SkipSpace(c.text, i+1)
		}
		e := entry{start: i, end: i + StringLen(c.text[i:])}
		e.value = SkipSpace(c.text, SkipSpace(c.text, e.end)+1) // after the colon
		i = e.value + ValueLen(c.text[e.value:])
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b entry) int { return compareNames(c.name(a), c.name(b)) })
	separator := byte('{')
	for _, e := range entries {
		_ = c.w.WriteByte(separator)
		c.scalar(c.text[e.start:e.end])
		_ = c.w.WriteByte(':')
		c.value(e.value)
		separator = ','
	}
	if separator == '{' {
		_ = c.w.WriteByte('{')
	}
	_ = c.w.WriteByte('}')
	return i + 1
}

// name returns the name of a member without escapes.
func (c *canonizer) name(e entry) []byte {
	name := c.text[e.start+1 : e.end-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		name, _ = jsontext.AppendUnquote(nil, c.text[e.start:e.end])
	}
	return name
}

// compareNames compares names by their UTF-16 code units. Characters from U+10000 on have two units, and sort before
// U+E000.
func compareNames(a, b []byte) int {
	for len(a) > 0 && len(b) > 0 {
		ra, na := utf8.DecodeRune(a)
		rb, nb := utf8.DecodeRune(b)
		if ra != rb {
			if (ra > 0xffff) != (rb > 0xffff) && ra >= 0xe000 && rb >= 0xe000 {
				return int(rb - ra)
			}
			return int(ra - rb)
		}
		a, b = a[na:], b[nb:]
	}
	return len(a) - len(b)
}

func (c *canonizer) scalar(s []byte) {
	switch {
	case s[0] == '"':
		c.quoted(s)
	case s[0] != '-' && (s[0] < '0' || '9' < s[0]), !Fractional(s) && len(s) <= 15 && string(s) != "-0":
		_, _ = c.w.Write(s)
	default:
		number := jsontext.Value(bytes.Clone(s))
		_ = number.Canonicalize() // cannot fail: it is a number
		_, _ = c.w.Write(number)
	}
}

// maxEscapes is the approximate size of the part of a string that is held in memory, in bytes.
const maxEscapes = 4 << 10

// quoted writes a string. It copies parts without escapes, and rewrites runs of escapes in canonical form.
func (c *canonizer) quoted(s []byte) {
	for len(s) > 0 {
		n := bytes.IndexByte(s, '\\')
		if n < 0 {
			n = len(s)
		}
		_, _ = c.w.Write(s[:n])
		s = s[n:]
		run := escapes(s)
		if run == 0 {
			continue
		}
		text, _ := jsontext.AppendUnquote(nil, slices.Concat(quoteMark, s[:run], quoteMark))
		again, _ := jsontext.AppendQuote(nil, text)
		_, _ = c.w.Write(again[1 : len(again)-1])
		s = s[run:]
	}
}

var quoteMark = []byte{'"'}

// escapes returns the length of the run of escapes at the beginning of s, without splitting a surrogate pair.
func escapes(s []byte) (n int) {
	for half := false; n < len(s) && s[n] == '\\' && (half || n < maxEscapes); {
		if s[n+1] != 'u' {
			n += 2
			continue
		}
		half = !half && (s[n+2]|0x20) == 'd' && bytes.IndexByte([]byte("89abAB"), s[n+3]) >= 0
		n += 6
	}
	return n
}
