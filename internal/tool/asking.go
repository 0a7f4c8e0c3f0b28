package tool

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// MCPInput holds what a request brings for the server of an MCP tool, besides its arguments and _meta. The zero value
// brings nothing.
type MCPInput struct {
	Responses    jsontext.Value // the object inputResponses, or nil
	ServerState  string         // the requestState that the server sent with its question
	Capabilities jsontext.Value // the object of the client's capabilities, or nil
	Caller       *Caller        `json:"-"` // nil if the caller cannot be asked while the call runs
}

// Caller is a caller that can be asked while its call runs.
type Caller struct {
	Name string // of tenant and actor
	// Ask opens a question. The adapter emits its id to the caller, see [envelope.OpenQuestion]. take gets the answer: the
	// result of elicitation/create, or nil if the caller does not answer. It must not block. close ends the question.
	Ask func(take func(result jsontext.Value)) (id string, close func())
}

// Ref returns the reference by which clients name the call.
func (inv Invocation) Ref() string {
	return call.State{Pinned: call.Pinned{Tool: inv.ToolID, ID: inv.IdempotencyKey}}.Ref()
}

// InputError means that a tool asks for further input. The call has ended, and a new call may answer the question.
// Question is the zero value if it is too large. Effect is the effect that the tool stated, or "".
type InputError struct {
	Message  string // what the tool asks for; "" for the message of the code
	Question envelope.InputQuestion
	Effect   envelope.Effect
}

func (e *InputError) Error() string { return "the tool asks for further input: " + e.Message }

// classify implements classified.
func (e *InputError) classify(m *Manifest) *envelope.Error {
	details, err := json.Marshal(e.Question)
	if err != nil {
		return m.failure(envelope.CodeToolProtocol, envelope.CodeToolProtocol, m.implied(e.Effect), err.Error(), "")
	}
	return envelope.NewError(envelope.CodeInputRequired, e.Message).WithEffect(m.effect(e.Effect)).WithDetails(details)
}
