package mcp

import (
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of a finder, in bytes.
const (
	idBytes  = 1 << 10   // of one id or name of a member, quotes included
	idsBytes = 256 << 10 // of all ids that a finder keeps
)

// finder finds the ids of requests in a line that is too long or is not valid JSON. It reads the line in pieces and
// keeps only the ids. It reads the members of an object at the top, or of the objects in an array at the top. If a name
// occurs twice, the last value counts, as in most JSON parsers. The zero value is ready to use.
type finder struct {
	ids  []jsontext.Value // of the requests that were read completely
	size int              // size of ids in bytes, with overhead

	depth, base     int  // depth: open brackets; base: 1 in an array at the top, otherwise 0
	object          bool // an object at depth base is open
	text, escaped   bool // inside a string; after a backslash in it
	token           []byte
	named           bool // a colon follows the name in this member
	name            string
	id              jsontext.Value // of the open object
	method, outcome bool           // the open object has a method; has a result or an error
}

// Write reads the next piece of the line. It returns no error.
func (f *finder) Write(p []byte) (int, error) {
	for _, c := range p {
		switch {
		case f.text:
			f.within(c)
		case c == '"':
			f.endScalar()
			f.text, f.token = true, append(f.token[:0], c)
		case c == '{' || c == '[':
			f.open(c)
		case c == '}' || c == ']':
			f.close()
		case c == ',':
			f.endScalar()
			f.next()
		case c == ':':
			f.colon()
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			f.endScalar()
		default:
			f.keep(c)
		}
	}
	return len(p), nil
}

// found returns the ids of the requests in the line. Call it once, after the last piece. A number at the end of a cut
// line is not an id, because digits may be missing.
func (f *finder) found() []jsontext.Value {
	f.end()
	return f.ids
}

// member reports whether the finder is directly inside an object whose members it reads.
func (f *finder) member() bool { return f.object && f.depth == f.base+1 }

// keep keeps a byte of a token that may be an id or a name. It keeps at most idBytes+1 bytes; a token of that length is
// too long.
func (f *finder) keep(c byte) {
	if f.member() && len(f.token) <= idBytes {
		f.token = append(f.token, c)
	}
}

// within reads a byte of a string.
func (f *finder) within(c byte) {
	f.keep(c)
	switch {
	case f.escaped:
		f.escaped = false
	case c == '\\':
		f.escaped = true
	case c == '"':
		f.text = false
		if f.member() && f.named {
			f.value(f.token)
			f.token = f.token[:0]
		}
	}
}

// endScalar ends a number or a literal such as null.
func (f *finder) endScalar() {
	if f.member() && f.named && len(f.token) > 0 {
		f.value(f.token)
		f.token = f.token[:0]
	}
}

// colon makes the string before it the name of the member.
func (f *finder) colon() {
	if !f.member() || f.named {
		return
	}
	f.name, f.named = "", true
	if len(f.token) <= idBytes {
		name, _ := jsontext.AppendUnquote(nil, f.token) // the valid part of an invalid string
		f.name = string(name)
	}
	f.token = f.token[:0]
}

// next ends a member.
func (f *finder) next() {
	if f.member() {
		f.named, f.name, f.token = false, "", f.token[:0]
	}
}

func (f *finder) open(c byte) {
	if f.member() && f.named {
		f.value(nil) // a list or an object
	}
	f.token = f.token[:0]
	switch {
	case f.depth == 0 && c == '[':
		f.base = 1
	case f.depth == f.base && c == '{':
		f.object, f.named, f.name, f.id, f.method, f.outcome = true, false, "", nil, false, false
	}
	f.depth++
}

func (f *finder) close() {
	f.endScalar()
	if f.member() {
		f.end()
	}
	f.depth = max(0, f.depth-1)
	if f.depth == 0 {
		f.base = 0
	}
}

// end ends the open object. It ignores responses, whose ids belong to requests of the server.
func (f *finder) end() {
	size := len(f.id) + 32
	if f.object && f.id != nil && (f.method || !f.outcome) && f.size+size <= idsBytes {
		f.ids, f.size = append(f.ids, f.id), f.size+size
	}
	f.object, f.id, f.token = false, nil, f.token[:0]
}

// value handles the value of a member: a scalar, or nil for an array or object.
func (f *finder) value(raw []byte) {
	switch f.name {
	case "id":
		f.id = nil
		if answerable(raw) {
			f.id = append(jsontext.Value(nil), raw...)
		}
	case "method":
		f.method = true
	case "result", "error":
		f.outcome = true
	}
	f.name = ""
}

// answerable reports whether an answer can contain the id exactly as the client wrote it. It may contain a lone
// surrogate.
func answerable(raw []byte) bool {
	if len(raw) == 0 || len(raw) > idBytes || !utf8.Valid(raw) {
		return false
	}
	v := jsontext.Value(raw)
	return (v.Kind() == '"' || v.Kind() == '0') && v.IsValid(jsontext.AllowInvalidUTF8(true))
}
