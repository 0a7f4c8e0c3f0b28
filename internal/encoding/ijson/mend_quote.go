package ijson

import (
	"fmt"
	"unicode/utf8"
)

const replacement = "\ufffd"

// quote copies the string at i. It writes U+FFFD for each invalid byte and each lone surrogate.
func (m *mender) quote(i int) int {
	start := i
	m.out = append(m.out, '"')
	flawed := false
	for i++; i < len(m.text); {
		switch c := m.text[i]; {
		case c == '"':
			m.out = append(m.out, '"')
			if flawed {
				m.repair(RuleUTF8, m.text[start:i+1])
			}
			return i + 1
		case c == '\\':
			end, half := m.escape(i)
			if end == bad {
				return bad
			}
			if half {
				m.out, flawed = append(m.out, replacement...), true
			} else {
				m.out = append(m.out, m.text[i:end]...)
			}
			i = end
		case c < ' ':
			m.out = fmt.Appendf(m.out, `\u%04x`, c)
			i++
		default:
			r, n := utf8.DecodeRune(m.text[i:])
			if r == utf8.RuneError && n == 1 {
				m.out, flawed = append(m.out, replacement...), true
			} else {
				m.out = append(m.out, m.text[i:i+n]...)
			}
			i += n
		}
	}
	return bad
}

// escape returns the end of the escape that starts at i, and whether it is half of a surrogate pair.
func (m *mender) escape(i int) (end int, half bool) {
	if i+1 >= len(m.text) {
		return bad, false
	}
	s := scanner{text: m.text}
	var q quoted
	end = s.escape(i, &q)
	return end, q.half
}
