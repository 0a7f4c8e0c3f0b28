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

// drives reports whether a character controls a terminal.
func drives(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }

// EscapeJSON replaces control characters in JSON text by JSON escapes, so that they cannot control the terminal. The
// value of the JSON stays the same, because such characters can occur only in strings.
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

// mayDrive reports whether text contains anything but printable ASCII. It is a fast check for large outputs.
func mayDrive(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return true
		}
	}
	return false
}

// EscapeText replaces control characters by a dot, so that text from tools and other processes cannot control the
// terminal.
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
