package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// WriteJSON prints v as JSON for people.
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

// drives reports whether a character drives a terminal.
func drives(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }

// EscapeJSON returns JSON text with control characters replaced by JSON escapes, so that a terminal does not obey them.
// The value of the JSON stays the same. Such characters can stand unescaped only in strings.
func EscapeJSON(text string) string {
	if !mayDrive(text) || strings.IndexFunc(text, drives) < 0 {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if drives(r) {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// mayDrive reports whether text is more than printable ASCII, which is soon known of what a million lines are.
func mayDrive(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return true
		}
	}
	return false
}

// EscapeText replaces what would drive a terminal: what a tool says is shown, not obeyed.
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
