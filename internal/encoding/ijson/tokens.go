package ijson

import "bytes"

// The functions of this file are for texts that are known to be JSON; of others they say something, and do not fail.

// SkipSpace returns where the first byte from i on is that is no white space.
func SkipSpace(v []byte, i int) int {
	for i < len(v) && (v[i] == ' ' || v[i] == '\n' || v[i] == '\t' || v[i] == '\r') {
		i++
	}
	return i
}

// StringLen returns the length of the JSON string that v starts with, quotes included.
func StringLen(v []byte) int {
	quote := 0 // the next one; looked for again only once it is passed, for strings may be all escapes
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

// ScalarLen returns the length of the number or literal that v starts with.
func ScalarLen(v []byte) int {
	for i, c := range v {
		switch c {
		case ',', ']', '}', ' ', '\n', '\t', '\r':
			return i
		}
	}
	return len(v)
}

// ValueLen returns the length of the JSON value that v starts with.
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
