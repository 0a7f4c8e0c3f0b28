package clientconfig

import (
	"bytes"
	"slices"
	"strings"
)

// set returns a text in which the object at path has a member name with this value. An existing member of that name is
// replaced in place. A new one becomes the first member. set creates missing objects of the path.
func set(text []byte, path []string, name string, value layout) ([]byte, error) {
	plain := blanked(text)
	o, depth, found, err := walk(plain, path)
	if err != nil {
		return nil, err
	}
	if !found {
		names, whole := append(slices.Clone(path[depth+1:]), name), value
		value = func(indent, unit string) []byte { return nested(names, whole, indent, unit) }
		name = path[depth]
	}
	if m, there := o.member(name); there {
		indent := lineIndent(text, m.from)
		return slices.Concat(text[:m.value], value(indent, unitOf(indent, depth+1)), text[m.end:]), nil
	}
	return insert(text, o, depth+1, quoted(name), value), nil
}

// layout formats a value. All lines but the first begin with indent, and nested lines with further units of
// indentation.
type layout func(indent, unit string) []byte

// nested formats nested objects, one member per name. The innermost member has the value.
func nested(names []string, value layout, indent, unit string) []byte {
	if len(names) == 0 {
		return value(indent, unit)
	}
	inner := indent + unit
	return slices.Concat([]byte("{\n"+inner), quoted(names[0]), []byte(": "),
		nested(names[1:], value, inner, unit), []byte("\n"+indent+"}"))
}

// insert returns a text in which the object has a new first member.
func insert(text []byte, o object, depth int, name []byte, value layout) []byte {
	if len(o.members) > 0 {
		first := o.members[0].from
		space := spaceBefore(text, first)
		indent := lineIndent(text, first)
		member := slices.Concat(name, []byte(": "), value(indent, unitOf(indent, depth)), []byte(","), space)
		return slices.Concat(text[:first], member, text[first:])
	}
	outer := lineIndent(text, o.from)
	unit := unitOf(outer, depth-1)
	member := slices.Concat([]byte("\n"+outer+unit), name, []byte(": "), value(outer+unit, unit))
	if inner := text[o.inside:o.close]; len(bytes.TrimSpace(inner)) > 0 { // a comment is inside the object
		return slices.Concat(text[:o.inside], member, text[o.inside:])
	}
	return slices.Concat(text[:o.inside], member, []byte("\n"+outer), text[o.close:])
}

// remove returns a text without a member of an object, and without the comma that belongs to it. Comments stay.
func remove(text []byte, o object, name string) []byte {
	i := slices.IndexFunc(o.members, func(m span) bool { return m.name == name })
	m := o.members[i]
	bare := uncommented(text)
	gone := make([]bool, len(text))
	mark := func(from, to int) {
		for k := from; k < to; k++ {
			gone[k] = true
		}
	}
	mark(m.from, m.end)
	if after := skipSpace(bare, m.end); bare[after] == ',' {
		mark(after, after+1)
	} else if i > 0 {
		before := o.members[i-1].end
		before += bytes.IndexByte(bare[before:m.from], ',')
		mark(before, before+1)
	}
	return dropped(text, gone, m)
}

// dropped returns a text without the removed member, and without lines that contained nothing else.
func dropped(text []byte, gone []bool, m span) []byte {
	begin := m.from
	for begin > 0 && text[begin-1] != '\n' && (isSpace(text[begin-1]) || gone[begin-1]) {
		begin--
	}
	end := m.end
	for end < len(text) && text[end] != '\n' && (isSpace(text[end]) || gone[end]) {
		end++
	}
	alone := begin > 0 && text[begin-1] == '\n' && end < len(text) && text[end] == '\n'
	from, to := m.from, m.end
	switch {
	case alone:
		from, to = begin, end+1
	case slices.Contains(gone[begin:m.from], true): // the comma before it
		from = begin
	case end > m.end && text[end] != '\n': // the space before the next member
		to = end
	}
	for k := from; k < to; k++ {
		gone[k] = true
	}
	out := make([]byte, 0, len(text))
	for k, c := range text {
		if !gone[k] {
			out = append(out, c)
		}
	}
	return out
}

// lineIndent returns the spaces and tabs at the beginning of the line that contains an offset.
func lineIndent(text []byte, at int) string {
	begin := bytes.LastIndexByte(text[:at], '\n') + 1
	end := begin
	for end < len(text) && (text[end] == ' ' || text[end] == '\t') {
		end++
	}
	return string(text[begin:end])
}

// spaceBefore returns the white space directly before an offset.
func spaceBefore(text []byte, at int) []byte {
	begin := at
	for begin > 0 && isSpace(text[begin-1]) {
		begin--
	}
	if begin == at {
		return []byte(" ")
	}
	return text[begin:at]
}

func skipSpace(text []byte, at int) int {
	for at < len(text)-1 && isSpace(text[at]) {
		at++
	}
	return at
}

// unitOf returns one unit of indentation, given the indent of a line at a depth; two spaces if it cannot tell.
func unitOf(indent string, depth int) string {
	switch {
	case strings.HasPrefix(indent, "\t"):
		return "\t"
	case depth > 0 && len(indent) > 0 && len(indent)%depth == 0:
		return strings.Repeat(" ", len(indent)/depth)
	}
	return "  "
}
