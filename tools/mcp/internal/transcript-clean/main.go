package main

import (
	"os"

	"github.com/seed-018f16cc/toolbus/tools/internal/jsonhttp"
	"github.com/seed-018f16cc/toolbus/tools/internal/mcpserver"
	"github.com/seed-018f16cc/toolbus/tools/internal/transcript"
)

func main() {
	var polish transcript.Polish
	if url := os.Getenv("TRANSCRIPT_CHAT_URL"); url != "" {
		polish = editor{
			service: jsonhttp.Service{Name: "the model", URL: url, Key: os.Getenv("TRANSCRIPT_CHAT_KEY")},
			model:   os.Getenv("TRANSCRIPT_CHAT_MODEL"),
		}.polish
	}
	os.Exit(mcpserver.Main("transcript-clean", map[string]mcpserver.Tool{
		"transcript.clean": {
			Program: transcript.Tool(polish),
			Means:   map[string]string{"empty_transcript": "model_error", "too_large": "model_error"},
		},
	}, func() {}))
}
