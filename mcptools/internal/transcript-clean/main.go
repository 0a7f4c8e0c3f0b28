package main

import (
	"os"

	"github.com/seed-018f16cc/toolbus/internal/transcript"
	"github.com/seed-018f16cc/toolbus/mcptools/internal/ask"
	"github.com/seed-018f16cc/toolbus/mcptools/internal/serve"
)

func main() {
	var polish transcript.Polish
	if url := os.Getenv("TRANSCRIPT_CHAT_URL"); url != "" {
		polish = editor{
			service: ask.Service{Name: "the model", URL: url, Key: os.Getenv("TRANSCRIPT_CHAT_KEY")},
			model:   os.Getenv("TRANSCRIPT_CHAT_MODEL"),
		}.polish
	}
	os.Exit(serve.Main("transcript-clean", map[string]serve.Tool{
		"transcript.clean": {
			Program: transcript.Tool(polish),
			Means:   map[string]string{"empty_transcript": "model_error", "too_large": "model_error"},
		},
	}, func() {}))
}
