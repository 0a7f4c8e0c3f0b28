package mcp

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// TestCut cuts a result to every size. The rest is I-JSON of at most that size, with the beginning of the content and
// without half a character. The warning names what is missing.
func TestCut(t *testing.T) {
	text := "äöü 😀 \"quoted\" \n" + strings.Repeat("line\n", 20)
	whole := `{"content":[{"type":"text","text":"first"},{"type":"image","data":"aGk=","mimeType":"image/png"},` +
		`{"type":"text","text":` + string(ijson.Quote(text)) + `,"annotations":{"priority":1}},` +
		`{"type":"text","text":"last"}],` +
		`"structuredContent":{"n":1},"isError":true,"_meta":{"x":1},"other":[1,2,3]}`
	const least = len(`{"content":[],"isError":true}`)
	longest := 0
	for most := len(whole) - 1; most >= least; most-- {
		got, says := cut(ijson.Members(jsontext.Value(whole)), most)
		if len(got) > most || !ijson.Valid(got) || says == "" {
			t.Fatalf("%d bytes: %d, %s, %q", most, len(got), got, says)
		}
		var result struct {
			Content []struct{ Type, Text string }
			IsError bool
		}
		if err := json.Unmarshal(got, &result, json.MatchCaseInsensitiveNames(true)); err != nil || !result.IsError {
			t.Fatalf("%d bytes: %s: %v", most, got, err)
		}
		for i, b := range result.Content {
			switch whole := []string{"first", "", text, "last"}[i]; {
			case !utf8.ValidString(b.Text) || !strings.HasPrefix(whole, b.Text):
				t.Fatalf("%d bytes: block %d is %q", most, i, b.Text)
			case b.Text != whole && i != len(result.Content)-1:
				t.Fatalf("%d bytes: something follows a block that was cut: %s", most, got)
			}
		}
		longest = max(longest, len(got))
	}
	if longest < len(whole)-len(`{"type":"text","text":"last"}`)-1 {
		t.Errorf("too much was cut: %d of %d bytes are left", longest, len(whole))
	}
}

// TestCutStructured cuts a success to every size: its structured content is whole, or it is an error that says that the
// tool was run.
func TestCutStructured(t *testing.T) {
	const value = `{"a":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx","n":1.0}`
	for name, text := range map[string]string{
		"the same text": `{"n":1, "a":"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"}`,
		"a long text":   strings.Repeat("a line\n", 100),
	} {
		whole := `{"content":[` + string(textBlock(text)) + `],"structuredContent":` + value + `}`
		for most := len(whole) - 1; most >= 200; most-- {
			got, says := cut(ijson.Members(jsontext.Value(whole)), most)
			var result struct {
				Content    []block        `json:"content"`
				Structured jsontext.Value `json:"structuredContent"`
				IsError    bool           `json:"isError"`
			}
			if err := json.Unmarshal(got, &result); err != nil || len(got) > most || says == "" {
				t.Fatalf("%s, %d bytes: %d, %s, %q, %v", name, most, len(got), got, says, err)
			}
			switch {
			case string(result.Structured) == value && !result.IsError:
			case most >= len(value)+len(`{"content":[],"structuredContent":}`):
				t.Fatalf("%s, %d bytes: the structured content was lost: %s", name, most, got)
			case !result.IsError || len(result.Content) == 0 || !strings.Contains(result.Content[0].Text, "was run"):
				t.Fatalf("%s, %d bytes: %s", name, most, got)
			}
		}
	}
}
