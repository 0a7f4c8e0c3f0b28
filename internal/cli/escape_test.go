package cli_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/seed-018f16cc/toolbus/internal/cli"
)

// Text of others controls neither the terminal nor the order of what it shows, and a cell adds no cell and no line.
func TestEscape(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain": "plain", "two\nlines\tand": "two\nlines\tand", "\x1b[2J": "·[2J", "a\u202eb": "a·b", "\u2066x\u2069": "·x·",
		"a\u2028b\u2029c\u0085": "a·b·c·", "\u200f\u061c": "··", "👩\u200d👧 ü漢": "👩\u200d👧 ü漢", "\r\x00\x7f": "···",
	} {
		if got := cli.EscapeText(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
		cell := strings.NewReplacer("\n", "·", "\t", "·").Replace(want)
		if got := cli.EscapeCell(text); got != cell {
			t.Errorf("%q becomes the cell %q, want %q", text, got, cell)
		}
	}
}

// No character that Unicode calls a control, a separator of lines or a control of direction is left, and JSON keeps its
// value.
func FuzzEscape(f *testing.F) {
	f.Add("x\nFORGED\t\u202e\x1b]0;a\x07")
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "")
		for _, r := range cli.EscapeCell(text) {
			if unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control) {
				t.Errorf("%q keeps %U", text, r)
			}
		}
		raw, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		var back string
		if err := json.Unmarshal([]byte(cli.EscapeJSON(string(raw))), &back); err != nil || back != text {
			t.Errorf("%q becomes %q, %v", text, back, err)
		}
	})
}
