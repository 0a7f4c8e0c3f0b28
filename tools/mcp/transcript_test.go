//go:build linux

package mcptools_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool/tooltest"
)

// editor is a model that writes in capitals.
func editor(t *testing.T) *httptest.Server {
	return service{T: t, path: "/v1/chat/completions", key: "secret", answer: func(asked string) string {
		var q struct {
			Model    string
			Messages []struct{ Role, Content string }
		}
		if err := json.Unmarshal([]byte(asked), &q); err != nil || q.Model != "small" || len(q.Messages) != 2 ||
			q.Messages[0].Role != "system" || q.Messages[1].Role != "user" {
			t.Errorf("asked %s: %v", asked, err)
			return ""
		}
		text, reason := strings.ToUpper(q.Messages[1].Content), "stop"
		switch q.Messages[1].Content {
		case "No choice.":
			return `{"choices":[]}`
		case "No words.":
			text = " \n"
		case "Too long.":
			reason = "length"
		case "Chatter.":
			text = strings.Repeat("And another thing. ", 1000)
		}
		if strings.HasPrefix(text, "SUMMARY") {
			text = "In short."
		}
		answer, err := json.Marshal(map[string]any{
			"choices": []any{map[string]any{
				"message": map[string]any{"role": "assistant", "content": text}, "finish_reason": reason,
			}},
		})
		if err != nil {
			t.Error(err)
		}
		return string(answer)
	}}.start()
}

func transcript(text string) request {
	return request{tool: "transcript.clean", input: map[string]any{"text": text}}
}

type cleaned struct {
	Text string `json:"clean_text"`
}

func TestTranscriptWithModel(t *testing.T) {
	t.Parallel()
	s := start(t, "TRANSCRIPT_CHAT_URL="+editor(t).URL+"/v1", "TRANSCRIPT_CHAT_KEY=secret",
		"TRANSCRIPT_CHAT_MODEL=small")
	if got := gets[cleaned](s, transcript("Anna: so, um, the the plan")).Text; got != "ANNA: SO, THE PLAN" {
		t.Errorf("clean is %q", got)
	}
	for text, reason := range map[string]string{
		"No choice.": "malformed", "No words.": "empty", "Too long.": "cut", "Chatter.": "another_text",
		"Summary " + strings.Repeat("of what was said ", 400): "another_text",
	} {
		s.fails(transcript(text), "model_error", reason)
	}
	badService(s, "model_error", transcript)
}

// A long transcript is polished in pieces, and its chunks are what its clean text is.
func TestTranscriptStreams(t *testing.T) {
	t.Parallel()
	var long strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&long, "%s: this is sentence number %d.\n\n", []string{"Anna", "Bob"}[i%2], i)
	}
	for name, environ := range map[string][]string{
		"as it is": nil,
		"with a model": {
			"TRANSCRIPT_CHAT_URL=" + editor(t).URL + "/v1", "TRANSCRIPT_CHAT_KEY=secret", "TRANSCRIPT_CHAT_MODEL=small",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sink := &tooltest.Recorder{}
			r := transcript(long.String())
			r.sink = sink
			got := gets[cleaned](start(t, environ...), r).Text
			var paragraphs []string
			progress := 0
			for _, e := range sink.All() {
				var c struct{ Text string }
				if e.Kind == envelope.ChunkProgress {
					progress++
				} else if err := json.Unmarshal([]byte(e.Data), &c); err != nil {
					t.Error(err)
				} else {
					paragraphs = append(paragraphs, c.Text)
				}
			}
			if len(paragraphs) != 2000 || progress == 0 || strings.Join(paragraphs, "\n\n") != got {
				t.Errorf("%d paragraphs, %d times progress; is the text: %v",
					len(paragraphs), progress, strings.Join(paragraphs, "\n\n") == got)
			}
			if upper := strings.Contains(got, "ANNA: THIS IS"); upper != (environ != nil) {
				t.Errorf("starts %.80q", got)
			}
		})
	}
}

// Without a model the text is that of the tool that is a program.
func TestTranscriptWithoutModel(t *testing.T) {
	t.Parallel()
	s := start(t)
	if got := gets[cleaned](s, transcript("Anna: so, um, the the plan")).Text; got != "Anna: so, the plan" {
		t.Errorf("clean is %q", got)
	}
	for text, want := range map[string]string{"[Music]": `"empty_transcript"`, strings.Repeat("x", 2<<20): `"too_large"`} {
		if got := string(s.fails(transcript(text), "model_error", "").Details.Extra["kind"]); got != want {
			t.Errorf("the kind is %s, want %s", got, want)
		}
	}
}

// A model that is not there does not leave the text as it was.
func TestTranscriptUnreachable(t *testing.T) {
	t.Parallel()
	s := start(t, "TRANSCRIPT_CHAT_URL=http://127.0.0.1:1/v1")
	s.fails(transcript("Hello."), "model_error", "connection")
}
