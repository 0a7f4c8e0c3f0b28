package mcp

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// asked returns the error for a result that asks for input. It believes the effect that the server states, as for a
// result with isError.
func asked(a client.Answer) *tool.InputError {
	e := &tool.InputError{Message: questionOf(a.Requests)}
	told(a.Meta[envelope.MetaEffect], &e.Effect)
	if e.Effect != envelope.EffectNone && e.Effect != envelope.EffectApplied {
		e.Effect = ""
	}
	q := envelope.InputQuestion{Requests: a.Requests, ServerState: a.State}
	if q.Requests == nil {
		q.Requests = jsontext.Value("{}") // the server is busy, and wants its state back later
	}
	changed := slices.ContainsFunc(a.Repairs.List, func(r ijson.Repair) bool { return r.Pointer == "/requestState" })
	switch text, err := json.Marshal(q); {
	case q.Requests.Kind() != '{' || changed || err != nil:
		e.Message = "the tool asks for further input, but not in the form of MCP"
	case len(text) > envelope.MaxInputQuestion:
		e.Message = "the tool asks for further input, but its question is too large to be passed on"
	default:
		e.Question = q
	}
	return e
}

// questionOf returns the messages of the requests for a person, or "".
func questionOf(requests jsontext.Value) string {
	var texts []string
	for _, m := range ijson.Members(requests) {
		var request struct {
			Params struct {
				Message string `json:"message"`
			} `json:"params"`
		}
		if json.Unmarshal(m.Value, &request) == nil && request.Params.Message != "" {
			texts = append(texts, request.Params.Message)
		}
	}
	if texts == nil {
		return ""
	}
	return ijson.Clip("the tool asks: "+strings.Join(texts, "; "), envelope.MaxMessage)
}

// askedBy adds the reference of the call to its question, unless that was too large. With it a new call answers.
func askedBy(inv tool.Invocation, e *tool.InputError) {
	if e.Question.Requests != nil {
		e.Question.State = inv.Ref()
	}
}

// inputOf returns what a call brings for the server. The error is that of a request which was not sent.
func inputOf(in tool.MCPInput) (client.Input, error) {
	input, err := client.NewInput(in.ServerState, in.Responses, in.Capabilities)
	if err != nil {
		return input, &tool.Error{Code: errRefused, Message: err.Error(), Effect: envelope.EffectNone}
	}
	return input, nil
}
