package main

import (
	"os"

	"github.com/seed-018f16cc/toolbus/internal/webpage"
	"github.com/seed-018f16cc/toolbus/mcptools/internal/ask"
	"github.com/seed-018f16cc/toolbus/mcptools/internal/serve"
	"github.com/seed-018f16cc/toolbus/program"
)

func main() {
	engine := engine{
		service: ask.Service{
			Name: "the search engine", URL: os.Getenv("LITELLM_BASE_URL"), Key: os.Getenv("LITELLM_API_KEY"),
		},
		tool: os.Getenv("LITELLM_SEARCH_TOOL"),
	}
	os.Exit(serve.Main("web-fetch", map[string]serve.Tool{
		"search.web": {Program: program.Tool{"search": {Execute: program.Typed(engine.search)}}},
		"web.fetch": {
			Program: webpage.Tool(),
			Means:   map[string]string{"not_fetchable": "fetch_failed", "invalid_url": "fetch_failed"},
		},
	}, func() {}))
}
