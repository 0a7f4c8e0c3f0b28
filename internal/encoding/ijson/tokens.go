package ijson

import "bytes"

// The functions of this file require valid JSON. For other texts they return an undefined result, and do not panic.

// SkipSpace returns the offset of the first byte from i on that is not white space.
func SkipSpace(v []byte, i int) int {
	for i < len(v) && (v[i] == ' ' || v[i] == '\n' || v[i] == '\t' || v[i] == '\r') {
		i++
	}
	return i
}

// StringLen returns the length of the JSON string at the beginning of v, with its quotes.
func StringLen(v []byte) int {
	quote := 0 // next quote; searched again only after i has passed it: a string may be all escapes
	for i := 1; i < len(v); {
		if quote < i {
			n := bytes.IndexByte(v[i:], '"')
			if n < 0 {
				break
			}
			quote = i + n
		}
		escape := bytes.IndexByte(v[i:quote], '\\')
		if escape < 0 {
			return quote + 1
		}
		i += escape + 2
	}
	return len(v)
}

// ScalarLen returns the length of the number or literal at the beginning of v.
func ScalarLen(v []byte) int {
	for i, c := range v {
		switch c {
		case ',', ']', '}', ' ', '\n', '\t', '\r':
			return i
		}
	}
	return len(v)
}

// ValueLen returns the length of the JSON value at the beginning of v.
func ValueLen(v []byte) int {
	depth := 0
	for i := 0; i < len(v); {
		switch c := v[i]; c {
		case '"':
			i += StringLen(v[i:])
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\n', '\t', '\r':
			i++
			continue
		default:
			i += ScalarLen(v[i:])
		}
		if depth == 0 {
			return i
		}
	}
	return len(v)
}

// Fractional reports whether a JSON number has a fraction or an exponent.
func Fractional(number []byte) bool { return bytes.ContainsAny(number, ".eE") }
