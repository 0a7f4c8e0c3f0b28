package client

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// Answer is the result of a call as the server sent it.
type Answer struct {
	// Result is the whole result, a JSON object. It is I-JSON, and its nesting leaves room for an envelope's error around
	// it.
	Result  jsontext.Value
	Repairs ijson.Repairs // what was replaced in Result because I-JSON cannot represent it

	// Members of Result. A member that is missing, or of another type than MCP defines, is zero.
	Content    jsontext.Value
	Structured jsontext.Value
	IsError    bool
	Meta       map[string]jsontext.Value
	Type       string // "" means complete
	// Requests and State are inputRequests and requestState of a result that asks for input.
	Requests jsontext.Value
	State    string
}

// maxDepth is the deepest nesting of a result. Around it are the details of an error, the error, and the response.
const maxDepth = ijson.MaxDepth - 3

// answerOf decodes a result. before are the repairs of the message that contained it.
func answerOf(raw jsontext.Value, before ijson.Repairs) (a Answer, err error) {
	var ok bool
	a.Result, a.Repairs, ok = ijson.Mend(raw, maxDepth)
	if !ok || a.Result.Kind() != '{' {
		return a, &MalformedError{Reason: fmt.Sprintf("the result %.80q is no object", raw)}
	}
	a.Repairs.List = append(before.List, a.Repairs.List...)
	a.Repairs.More += before.More
	for _, m := range ijson.Members(a.Result) {
		switch {
		case m.Is("content"):
			a.Content = m.Value
		case m.Is("structuredContent"):
			a.Structured = m.Value
		case m.Is("isError"):
			a.IsError = string(m.Value) == "true"
		case m.Is("_meta"):
			a.Meta = metaOf(m.Value)
		case m.Is("resultType"):
			_ = json.Unmarshal(m.Value, &a.Type) // ignore a type that is not a string
		case m.Is("inputRequests"):
			a.Requests = m.Value
		case m.Is("requestState"):
			_ = json.Unmarshal(m.Value, &a.State) // ignore a state that is not a string
		}
	}
	return a, nil
}

// metaOf returns the members of an object by name, or nil for any other value.
func metaOf(object jsontext.Value) map[string]jsontext.Value {
	var meta map[string]jsontext.Value
	if object.Kind() != '{' || json.Unmarshal(object, &meta) != nil {
		return nil
	}
	return meta
}
