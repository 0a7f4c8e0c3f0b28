package ijson

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// Member is one member of an object: its name with quotes, and its value, both as in the text.
type Member struct{ Name, Value jsontext.Value }

// Is reports whether the member has this name.
func (m Member) Is(name string) bool { return string(m.Plain()) == name }

// Plain returns the name without quotes and escapes.
func (m Member) Plain() []byte {
	if bytes.IndexByte(m.Name, '\\') < 0 {
		return m.Name[1 : len(m.Name)-1]
	}
	plain, _ := jsontext.AppendUnquote(nil, m.Name) // cannot fail: it is a valid string
	return plain
}

// Members returns the members of a JSON object in their order. They share the memory of v. Members returns nothing
// for any other value.
func Members(v jsontext.Value) (all []Member) {
	i := SkipSpace(v, 0)
	if i == len(v) || v[i] != '{' {
		return nil
	}
	for i = SkipSpace(v, i+1); i < len(v) && v[i] != '}'; i = SkipSpace(v, i) {
		if v[i] == ',' {
			i = SkipSpace(v, i+1)
		}
		end := i + StringLen(v[i:])
		start := SkipSpace(v, SkipSpace(v, end)+1) // after the colon
		name := v[i:end:end]
		i = start + ValueLen(v[start:])
		all = append(all, Member{name, v[start:i:i]})
	}
	return all
}

// Items returns the items of a JSON array. They share the memory of v. Items returns nothing for any other value.
func Items(v jsontext.Value) (all []jsontext.Value) {
	i := SkipSpace(v, 0)
	if i == len(v) || v[i] != '[' {
		return nil
	}
	for i = SkipSpace(v, i+1); i < len(v) && v[i] != ']'; i = SkipSpace(v, i) {
		if v[i] == ',' {
			i = SkipSpace(v, i+1)
		}
		end := i + ValueLen(v[i:])
		all = append(all, v[i:end:end])
		i = end
	}
	return all
}

// Object returns the object with these members.
func Object(members ...Member) jsontext.Value {
	out := []byte{'{'}
	for _, m := range members {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, m.Name...), ':'), m.Value...)
	}
	return append(out, '}')
}

// Array returns the array with these items.
func Array(items ...jsontext.Value) jsontext.Value {
	out := []byte{'['}
	for _, item := range items {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, item...)
	}
	return append(out, ']')
}

// Quote returns s as a JSON string. Bytes that are not valid UTF-8 become U+FFFD.
func Quote(s string) jsontext.Value {
	quoted, _ := jsontext.AppendQuote(nil, bytes.ToValidUTF8([]byte(s), []byte("\ufffd"))) // valid UTF-8 causes no error
	return quoted
}
