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
	structured := `{"content":[],"structuredContent":{"a":"` + strings.Repeat("x", 100) + `"}}`
	got, says := cut(ijson.Members(jsontext.Value(structured)), 50)
	if string(got) != `{"content":[]}` || !strings.Contains(says, "structuredContent was left out") {
		t.Errorf("%s, %s", got, says)
	}
}
