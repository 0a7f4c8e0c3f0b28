package clientconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// mark is the byte order mark that some editors write before JSON.
var mark = []byte("\xef\xbb\xbf")

// errNoObject means that a file is not the configuration of a client.
var errNoObject = errors.New("it is no JSON object")

// span is the position of a member in a text: its name begins at from, its value at value, and end is the offset after
// it.
type span struct {
	name             string
	from, value, end int
}

// object is the position of an object in a text: { is at from, inside is the offset after that, and } is at close.
type object struct {
	from, inside, close int
	members             []span
}

// member returns the member with a name.
func (o object) member(name string) (span, bool) {
	i := slices.IndexFunc(o.members, func(m span) bool { return m.name == name })
	if i < 0 {
		return span{}, false
	}
	return o.members[i], true
}

// top returns the outermost object of a text. plain is the result of [blanked] for the text.
func top(plain []byte) (object, error) {
	o, end, err := objectAt(plain, 0)
	if err != nil {
		return o, err
	}
	if len(bytes.TrimSpace(plain[end:])) > 0 {
		return o, errors.New("something follows the object")
	}
	return o, nil
}

// objectAt returns the object that begins at an offset, or after white space there, and the offset after its end.
func objectAt(plain []byte, at int) (o object, end int, err error) {
	dec := jsontext.NewDecoder(bytes.NewReader(plain[at:]))
	if token, err := dec.ReadToken(); err != nil || token.Kind() != '{' {
		return o, 0, errNoObject
	}
	o.inside = at + int(dec.InputOffset())
	o.from = o.inside - 1
	for dec.PeekKind() == '"' {
		before := at + int(dec.InputOffset())
		token, err := dec.ReadToken()
		if err != nil {
			return o, 0, syntax(err)
		}
		m := span{name: token.String(), from: before + bytes.IndexByte(plain[before:], '"')}
		value, err := dec.ReadValue()
		if err != nil {
			return o, 0, syntax(err)
		}
		m.end = at + int(dec.InputOffset())
		m.value = m.end - len(value)
		o.members = append(o.members, m)
	}
	if _, err := dec.ReadToken(); err != nil {
		return o, 0, syntax(err)
	}
	end = at + int(dec.InputOffset())
	o.close = end - 1
	return o, end, nil
}

// syntax returns an error of the decoder without the text that it quotes, which may be a credential.
func syntax(err error) error {
	var bad *jsontext.SyntacticError
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return errors.New("an object in it has a name twice")
	}
	if errors.As(err, &bad) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("it is no JSON, at byte %d", bad.ByteOffset)
	}
	return errors.New("it is no JSON, or not all of it")
}

// walk returns the object at a path of members. If a member is missing or is not an object, found is false, depth is
// the number of members that exist, and o is the last of these objects.
func walk(plain []byte, path []string) (o object, depth int, found bool, err error) {
	if o, err = top(plain); err != nil {
		return o, 0, false, err
	}
	for i, name := range path {
		m, there := o.member(name)
		if !there || plain[m.value] != '{' {
			return o, i, false, nil
		}
		if o, _, err = objectAt(plain, m.value); err != nil {
			return o, i, false, err
		}
	}
	return o, len(path), true, nil
}

// uncommented returns a text of the same length in which spaces replace comments and a byte order mark.
func uncommented(text []byte) []byte {
	out := slices.Clone(text)
	if bytes.HasPrefix(out, mark) {
		copy(out, "   ")
	}
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case c == '"':
			for i++; i < len(out) && out[i] != '"'; i++ {
				if out[i] == '\\' {
					i++
				}
			}
		case c == '/' && i+1 < len(out) && (out[i+1] == '/' || out[i+1] == '*'):
			i = blankComment(out, i) - 1
		}
	}
	return out
}

// blankComment replaces a comment by spaces, and returns the offset after its end.
func blankComment(out []byte, from int) (end int) {
	stop := []byte("\n")
	if out[from+1] == '*' {
		stop = []byte("*/")
	}
	end = len(out)
	if i := bytes.Index(out[from+2:], stop); i >= 0 {
		end = from + 2 + i + len(stop)
	}
	for i := from; i < end; i++ {
		if out[i] != '\n' {
			out[i] = ' '
		}
	}
	return end
}

// blanked converts JSON with comments to JSON of the same length. Spaces replace comments, and commas after the last
// member of an object or list.
func blanked(text []byte) []byte {
	out := uncommented(text)
	comma := -1 // offset of the last comma if only space has followed it, else -1
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case c == '"':
			comma = -1
			for i++; i < len(out) && out[i] != '"'; i++ {
				if out[i] == '\\' {
					i++
				}
			}
		case c == ',':
			comma = i
		case (c == '}' || c == ']') && comma >= 0:
			out[comma] = ' '
			comma = -1
		case !isSpace(c):
			comma = -1
		}
	}
	return out
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// orEmpty returns text, or an empty object if the text is empty.
func orEmpty(text []byte) []byte {
	if len(bytes.TrimSpace(bytes.TrimPrefix(text, mark))) > 0 {
		return text
	}
	if bytes.HasPrefix(text, mark) {
		return slices.Concat(mark, []byte("{}\n"))
	}
	return []byte("{}\n")
}
