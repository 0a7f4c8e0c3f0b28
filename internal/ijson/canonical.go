package ijson

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// Canonical returns v in the one form of RFC 8785 (JCS), so that equal values have equal bytes.
// A v that already has this form is returned as it is; otherwise the result is new. A v that is
// no I-JSON has no canonical form and is an error.
func Canonical(v jsontext.Value) (jsontext.Value, error) {
	if found := Check(v); found != nil {
		return nil, fmt.Errorf("no canonical form: %s at %q: %s", found[0].Rule, found[0].Pointer, found[0].Message)
	}
	return CanonicalChecked(v)
}

// CanonicalChecked is Canonical for a v that is known to be I-JSON.
func CanonicalChecked(v jsontext.Value) (jsontext.Value, error) {
	if isCanonical(v) {
		return v, nil
	}
	c := v.Clone()
	if err := c.Canonicalize(); err != nil {
		return nil, fmt.Errorf("canonical form: %w", err)
	}
	return c, nil
}

// isCanonical reports whether v is certainly in canonical form already, in one pass. It may say
// no of rare values that are. v must be I-JSON.
func isCanonical(v jsontext.Value) bool {
	var last [MaxDepth + 1][]byte // the last name in each open object
	depth := 0
	for i := 0; i < len(v); i++ {
		switch c := v[i]; c {
		case ' ', '\t', '\r', '\n':
			return false
		case '{', '[':
			depth++
			last[depth] = nil
		case '}', ']':
			depth--
		case '"':
			s := v[i : i+StringLen(v[i:])]
			i += len(s) - 1
			if !plainString(s) {
				return false
			}
			if i+1 < len(v) && v[i+1] == ':' {
				if !inOrder(last[depth], s) {
					return false
				}
				last[depth] = s
			}
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			n := NumberLen(v[i:])
			if Fractional(v[i:i+n]) || n == 2 && v[i+1] == '0' && c == '-' {
				return false
			}
			i += n - 1
		}
	}
	return true
}

// plainString reports whether a JSON string is written as RFC 8785 demands. Of the escapes it
// knows those that are always canonical.
func plainString(s []byte) bool {
	for {
		i := bytes.IndexByte(s, '\\')
		if i < 0 {
			return true
		}
		switch s[i+1] {
		case '"', '\\', 'b', 'f', 'n', 'r', 't':
			s = s[i+2:]
		default:
			return false
		}
	}
}

// inOrder reports whether the name b may follow a. The order is that of UTF-16, which is that of
// the bytes as long as all characters are below U+E000 and nothing is escaped.
func inOrder(a, b []byte) bool {
	if !simpleName(b) {
		return false
	}
	return a == nil || bytes.Compare(a[1:len(a)-1], b[1:len(b)-1]) < 0
}

func simpleName(b []byte) bool {
	for _, c := range b {
		if c >= 0xee || c == '\\' {
			return false
		}
	}
	return true
}
