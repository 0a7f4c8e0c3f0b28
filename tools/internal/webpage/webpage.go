package webpage

import (
	"context"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/tool/address"
	"github.com/seed-018f16cc/toolbus/program"
)

// Tool returns the tool, whose one function is fetch. It reaches public addresses, and those in the allowed networks.
func Tool(allowed address.Networks) program.Tool {
	f := fetcher{address.Dialer{Allowed: allowed, Timeout: startTime}}
	return program.Tool{"fetch": {Execute: program.Typed(f.run)}}
}

// Input says which page is wanted.
type Input struct {
	URL            string `json:"url"`
	IncludeRawHTML bool   `json:"include_raw_html,omitzero"`
}

// Output is a page. What is nil the page does not say.
type Output struct {
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

func (f fetcher) run(ctx context.Context, _ *program.Call, in Input, _ *program.Stream) (program.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	from, err := parseURL(in.URL)
	if err != nil {
		return program.Result{}, err
	}
	answer, err := f.fetch(ctx, from)
	if err != nil {
		return program.Result{}, err
	}
	p, err := decode(answer)
	if err != nil {
		return program.Result{}, err
	}
	a, err := read(p)
	if err != nil {
		return program.Result{}, err
	}
	out := Output{
		FinalURL: cleanURL(p.url), Title: a.title, Byline: a.byline, PublishedAt: a.published, Lang: a.lang,
		CleanText: a.text,
	}
	if in.IncludeRawHTML {
		out.RawHTML = p.text
	}
	return fitting(program.Result{Output: out, Warnings: a.warnings}, in.IncludeRawHTML)
}

// fitting refuses an output that is too large for an answer.
func fitting(res program.Result, raw bool) (program.Result, error) {
	switch {
	case program.Fits(res):
		return res, nil
	case raw:
		return program.Result{}, parseFailed("raw_html_too_large",
			"the page is too large to include its raw HTML; leave out include_raw_html")
	}
	return program.Result{}, parseFailed("text_too_large", "the text of the page is larger than an answer may be")
}
