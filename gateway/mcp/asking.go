package mcp

import (
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// If the server of a tool asks for input, the call ends with envelope.CodeInputRequired. A client that can answer all
// of its requests gets a result with resultType input_required. Its requestState is the reference of that call. The
// client sends the request again with its answers, which makes a new call. The executor takes the state of the server
// from the outcome of the call that asked, so the gateway holds nothing.

// resultInput is the resultType of a result that asks for input.
const resultInput = "input_required"

// answering adds to a call what its request brings for the server of the tool: the capabilities of the client, and its
// answer.
func (a *asked) answering(meta map[string]any, state string, answer sdk.InputResponseMap) error {
	a.able = ableTo(a.peer.protocol, meta)
	in := &envelope.MCPInput{State: state}
	if len(a.able) > 0 && (a.tool.results || a.tool.server != nil) {
		in.Capabilities = jsontext.Value(encoded(a.able))
	}
	if answer != nil {
		responses, err := json.Marshal(answer)
		if err != nil {
			return invalid("inputResponses: %v", err)
		}
		in.Responses = jsontext.Value(responses)
	}
	if in.Answers() || in.Capabilities != nil {
		a.call.Context.MCPInput = in
	}
	return nil
}

// answerKey returns the key of a call that answers a question, for a request with the key given, or "". It is derived
// from that key, the state and the answer. Libraries send an answer with the key of the call that asked, because they
// repeat the request, but an answer is a new call. An answer that is sent again is the same call.
func (a *asked) answerKey(given string) string {
	in := a.call.Context.MCPInput
	if given == "" && a.tool.keyRequired { // dispatchers refuse the call
		return ""
	}
	canonical := func(v jsontext.Value) string {
		if c, err := ijson.Canonical(v); err == nil {
			return string(c)
		}
		return string(v) // dispatchers refuse it
	}
	return keyOf("answer", given, in.State, canonical(in.Responses), a.tool.Tool, a.tool.Fn, canonical(a.call.Input))
}

// askable has the method of the requests that belong to a capability of clients.
var askable = map[string]string{
	"elicitation": "elicitation/create", "sampling": "sampling/createMessage", "roots": "roots/list",
}

// ableTo returns the capabilities of a client to which servers may direct requests, by the _meta of its request.
// Clients of earlier protocols have none, because they are not asked by results.
func ableTo(protocol string, meta map[string]any) map[string]any {
	if protocol < modern {
		return nil
	}
	declared, _ := meta[sdk.MetaKeyClientCapabilities].(map[string]any)
	able := map[string]any{}
	for name := range askable {
		if is, ok := declared[name].(map[string]any); ok {
			able[name] = is
		}
	}
	return able
}

// canAnswer reports whether a client with these capabilities can answer all requests of a question.
func canAnswer(able map[string]any, requests jsontext.Value) bool {
	known := map[string]bool{}
	for name := range able {
		known[askable[name]] = true
	}
	for _, m := range ijson.Members(requests) {
		var request struct {
			Method string `json:"method"`
		}
		_ = json.Unmarshal(m.Value, &request) // a request of another form has no known method
		if !known[request.Method] {
			return false
		}
	}
	return true
}

// question returns the result that asks the client, or nil if the response asks for nothing or the client cannot
// answer it.
func (a *asked) question(r *envelope.Response) *reply {
	q, ok := r.Error.Question()
	if !ok || a.peer.protocol < modern || !canAnswer(a.able, q.Requests) {
		return nil
	}
	res := &reply{question: &q, modern: true}
	res.Meta = metaOf(r, a.names())
	return res
}

// asks returns the members of a result that asks the client.
func asks(q *envelope.InputQuestion) []ijson.Member {
	return []ijson.Member{
		member("resultType", ijson.Quote(resultInput)), member("inputRequests", q.Requests),
		member("requestState", ijson.Quote(q.State)),
	}
}
