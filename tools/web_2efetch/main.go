package main

import (
	"context"
	"time"

	"github.com/seed-018f16cc/toolbus/tools/internal/toolproc"
)

func main() { toolproc.Main(newTool()) }

func newTool() toolproc.Tool {
	return toolproc.Tool{"fetch": {Execute: toolproc.Typed(run)}}
}

type input struct {
	URL            string `json:"url"`
	IncludeRawHTML bool   `json:"include_raw_html,omitzero"`
}

type output struct {
	FinalURL    string  `json:"final_url"`
	Title       *string `json:"title"`
	Byline      *string `json:"byline"`
	PublishedAt *string `json:"published_at"` // RFC 3339
	Lang        *string `json:"lang"`
	CleanText   string  `json:"clean_text"`
	RawHTML     string  `json:"raw_html"`
}

// maxTime bounds a call without a deadline.
const maxTime = time.Minute

func run(ctx context.Context, _ *toolproc.Call, in input, _ *toolproc.Stream) (toolproc.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	address, err := parseURL(in.URL)
	if err != nil {
		return toolproc.Result{}, err
	}
	answer, err := fetch(ctx, address)
	if err != nil {
		return toolproc.Result{}, err
	}
	p, err := decode(answer)
	if err != nil {
		return toolproc.Result{}, err
	}
	a, err := read(p)
	if err != nil {
		return toolproc.Result{}, err
	}
	out := output{
		FinalURL: cleanURL(p.url), Title: a.title, Byline: a.byline, PublishedAt: a.published, Lang: a.lang, CleanText: a.text,
	}
	if in.IncludeRawHTML {
		out.RawHTML = p.text
	}
	return fitting(toolproc.Result{Output: out, Warnings: a.warnings}, in.IncludeRawHTML)
}

// fitting refuses an output that is too large for an answer.
func fitting(res toolproc.Result, raw bool) (toolproc.Result, error) {
	switch {
	case toolproc.Fits(res):
		return res, nil
	case raw:
		return toolproc.Result{}, parseFailed("raw_html_too_large", "the page is too large to include its raw HTML; leave out include_raw_html")
	}
	return toolproc.Result{}, parseFailed("text_too_large", "the text of the page is larger than an answer may be")
}
