package ijson

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// WithoutHuge returns a JSON value without the members that hold a number beyond the range of a double, such as 1e400,
// or an array with one: many JSON libraries refuse the whole text for it. It calls dropped, which may be nil, with the
// pointer of each such member. An array of arrays counts as one array. Without such a number it returns v.
func WithoutHuge(v jsontext.Value, dropped func(at jsontext.Pointer)) jsontext.Value {
	if dropped == nil {
		dropped = func(jsontext.Pointer) {}
	}
	return withoutHuge(v, "", dropped)
}

func withoutHuge(v jsontext.Value, at jsontext.Pointer, dropped func(at jsontext.Pointer)) jsontext.Value {
	if !anyHuge(v) {
		return v
	}
	if v.Kind() == '[' {
		items := Items(v)
		for i, item := range items {
			items[i] = withoutHuge(item, at.AppendToken(strconv.Itoa(i)), dropped)
		}
		return Array(items...)
	}
	members := Members(v)
	for i, m := range members {
		below := at.AppendToken(string(m.Plain()))
		if isHuge(m.Value) {
			dropped(below)
			members[i].Name = nil
			continue
		}
		members[i].Value = withoutHuge(m.Value, below, dropped)
	}
	return Object(slices.DeleteFunc(members, func(m Member) bool { return m.Name == nil })...)
}

// isHuge reports whether v is a number beyond the range of a double, or an array of such at any depth.
func isHuge(v jsontext.Value) bool {
	if v.Kind() == '0' {
		_, err := strconv.ParseFloat(string(v), 64)
		return err != nil
	}
	return slices.ContainsFunc(Items(v), isHuge)
}

// anyHuge reports whether v has such a number anywhere below.
func anyHuge(v jsontext.Value) bool {
	return isHuge(v) || slices.ContainsFunc(Items(v), anyHuge) ||
		slices.ContainsFunc(Members(v), func(m Member) bool { return anyHuge(m.Value) })
}
