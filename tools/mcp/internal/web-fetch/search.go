package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus/program"
	"github.com/seed-018f16cc/toolbus/tools/internal/jsonhttp"
)

// maxTime bounds a search without a deadline.
const maxTime = time.Minute

// engine is a search engine.
type engine struct {
	service jsonhttp.Service
	tool    string
}

type query struct {
	Query      string `json:"query"`
	MaxResults int    `json:"max_results,omitzero"`
}

// asked is what the engine is asked.
type asked struct {
	Query      string `json:"query"`
	MaxResults int    `json:"max_results,omitzero"`
	Tool       string `json:"search_tool_name,omitzero"`
}

// found is what it answers, of which the rest is left out.
type found struct {
	Results []page `json:"results"`
}

type page struct {
	Title   string  `json:"title"`
	URL     string  `json:"url"`
	Snippet string  `json:"snippet"`
	Date    *string `json:"date"`
}

func (e engine) search(ctx context.Context, _ *program.Call, in query, _ *program.Stream) (program.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	switch {
	case strings.TrimSpace(in.Query) == "":
		return program.Result{}, invalid("blank", "the query has no words")
	case e.service.URL == "":
		return program.Result{}, failed("configuration", "no search engine is configured: LITELLM_BASE_URL is not set")
	}
	var all found
	if err := e.service.Post(ctx, "/v1/search", asked{in.Query, in.MaxResults, e.tool}, &all); err != nil {
		return program.Result{}, explain(err)
	}
	return result(in, all)
}

// result is what callers are told of what was found.
func result(in query, all found) (program.Result, error) {
	if all.Results == nil {
		return program.Result{}, failed("malformed", "the search engine answered without results")
	}
	for _, p := range all.Results {
		if p.URL == "" {
			return program.Result{}, failed("malformed", "the search engine found a page without a URL")
		}
	}
	if in.MaxResults > 0 && len(all.Results) > in.MaxResults {
		all.Results = all.Results[:in.MaxResults]
	}
	res := program.Result{Output: all}
	if !program.Fits(res) {
		return program.Result{}, failed("too_large", "the search engine found more than an answer may hold")
	}
	return res, nil
}

// explain names an error of the engine as the contract does.
func explain(err error) error {
	failure, is := errors.AsType[*jsonhttp.Failure](err)
	switch {
	case jsonhttp.Ended(err):
		return program.NoEffect("timeout", "the time was up before the search engine had answered")
	case !is:
		return err
	case failure.Status == http.StatusBadRequest, failure.Status == http.StatusUnprocessableEntity:
		return failure.Named("invalid_query")
	}
	return failure.Named("upstream_failure")
}

func invalid(reason, message string) error {
	return (&jsonhttp.Failure{Reason: reason, Text: message}).Named("invalid_query")
}

func failed(reason, message string) error {
	return (&jsonhttp.Failure{Reason: reason, Text: message}).Named("upstream_failure")
}
