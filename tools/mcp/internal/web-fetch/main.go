package main

import (
	"flag"
	"os"

	"github.com/seed-018f16cc/toolbus/internal/tool/address"
	"github.com/seed-018f16cc/toolbus/program"
	"github.com/seed-018f16cc/toolbus/tools/internal/jsonhttp"
	"github.com/seed-018f16cc/toolbus/tools/internal/mcpserver"
	"github.com/seed-018f16cc/toolbus/tools/internal/webpage"
)

func main() {
	var allowed address.Networks
	flag.Var(&allowed, address.Flag, address.Usage)
	flag.Parse()
	engine := engine{
		service: jsonhttp.Service{
			Name: "the search engine", URL: os.Getenv("LITELLM_BASE_URL"), Key: os.Getenv("LITELLM_API_KEY"),
		},
		tool: os.Getenv("LITELLM_SEARCH_TOOL"),
	}
	os.Exit(mcpserver.Main("web-fetch", map[string]mcpserver.Tool{
		"search.web": {Program: program.Tool{"search": {Execute: program.Typed(engine.search)}}},
		"web.fetch": {
			Program: webpage.Tool(allowed),
			Means:   map[string]string{"not_fetchable": "fetch_failed", "invalid_url": "fetch_failed"},
		},
	}, func() {}))
}
