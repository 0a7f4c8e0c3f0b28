package executor

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// work is the request of a work message. A dispatcher has checked it, so it is not decoded again: the tool gets two of
// its members unchanged, and all other facts are in the log.
type work struct {
	all, input, context jsontext.Value
}

// request decodes the request for the trace hooks, without unknown members.
func (w work) request() *envelope.Request {
	req := new(envelope.Request)
	if err := json.Unmarshal(w.all, req); err != nil {
		return new(envelope.Request)
	}
	return req
}

// parse reads a work message.
func parse(entry call.Entry) (body call.RequestBody, w work, err error) {
	request, ok := call.OnlyRequest(entry.Body)
	if body.Request = request; !ok || !ijson.Valid(request) {
		if body, err = call.DecodeRequestBody(entry.Body); err != nil {
			return body, w, fmt.Errorf("work message: %w", err)
		}
	}
	if w.all = body.Request; w.all.Kind() != '{' {
		return body, w, errors.New("work message: the request is no object")
	}
	w.split()
	return body, w, nil
}

// split sets input and context, the members that the tool gets.
func (w *work) split() {
	v := w.all
	for i := ijson.SkipSpace(v, 0) + 1; i < len(v); i++ {
		if v[i] != '"' {
			continue // between two members, or after the last one
		}
		name := v[i : i+ijson.StringLen(v[i:])]
		i = ijson.SkipSpace(v, i+len(name)) + 1 // the colon
		i = ijson.SkipSpace(v, i)
		value := v[i : i+ijson.ValueLen(v[i:])]
		switch string(name) {
		case `"input"`:
			w.input = value
		case `"context"`:
			w.context = value
		}
		i += len(value) - 1
	}
}
