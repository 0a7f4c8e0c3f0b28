package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// WriteJSON prints v as indented JSON.
func WriteJSON(w io.Writer, v any) error {
	return writeJSON(w, v, jsontext.Multiline(true), jsontext.WithIndent("  "), json.Deterministic(true))
}

// WriteJSONLine prints v as JSON on one line.
func WriteJSONLine(w io.Writer, v any) error { return writeJSON(w, v) }

func writeJSON(w io.Writer, v any, options ...json.Options) error {
	data, err := json.Marshal(v, options...)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, EscapeJSON(string(data)))
	return err
}

// drives reports whether a character controls a terminal, or the order or the lines in which it shows text.
func drives(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control))
}

// EscapeJSON replaces the characters that control a terminal in JSON text by JSON escapes. The value of the JSON stays
// the same, because such characters can occur only in strings.
func EscapeJSON(text string) string {
	if !mayDrive(text) || strings.IndexFunc(text, drives) < 0 {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if drives(r) {
			fmt.Fprintf(&out, `\u%04x`, r) // none is beyond U+FFFF
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// mayDrive reports whether text contains anything but printable ASCII. It is a fast check for large outputs.
func mayDrive(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return true
		}
	}
	return false
}

// EscapeText replaces each character that controls a terminal by a dot. It is for texts of others that may have several
// lines, such as a description.
func EscapeText(s string) string {
	if !mayDrive(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if drives(r) {
			return '·'
		}
		return r
	}, s)
}

// EscapeCell is [EscapeText] for a cell of a table or a part of a line, such as a name. It also replaces tabs and line
// ends: text of others must not look like a further cell or line.
func EscapeCell(s string) string {
	return strings.NewReplacer("\n", "·", "\t", "·").Replace(EscapeText(s))
}
