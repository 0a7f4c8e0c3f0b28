package client

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of the summary of an input.
const (
	maxMembers    = 32
	maxMemberName = 64 // bytes
)

// inputSummary describes an input for the log, without any value: its type and size, or those of the members of an
// object with their names (000 §4.7).
func inputSummary(input jsontext.Value) string {
	if input.Kind() != '{' {
		return typeAndSize(input)
	}
	in := jsontext.NewDecoder(bytes.NewReader(input), jsontext.AllowDuplicateNames(true))
	if _, err := in.ReadToken(); err != nil {
		return typeAndSize(input)
	}
	var all []string
	for in.PeekKind() == '"' {
		if len(all) == maxMembers {
			all = append(all, "…")
			break
		}
		name, err := in.ReadToken()
		if err != nil {
			break
		}
		text := name.String() // which is not valid any more after the next read
		value, err := in.ReadValue()
		if err != nil {
			break
		}
		all = append(all, strings.ToValidUTF8(text[:min(len(text), maxMemberName)], "")+": "+typeAndSize(value))
	}
	return "{" + strings.Join(all, ", ") + "}"
}

// typeAndSize returns the type of a value in JSON, and its size in bytes.
func typeAndSize(v jsontext.Value) string {
	kinds := map[jsontext.Kind]string{
		'n': "null", 't': "boolean", 'f': "boolean", '"': "string", '0': "number", '{': "object", '[': "array",
	}
	kind, ok := kinds[v.Kind()]
	if !ok {
		return fmt.Sprintf("%d bytes", len(v))
	}
	return fmt.Sprintf("%s of %d bytes", kind, len(v))
}
