package toolbus

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/client"
)

// The types of package envelope that calls are made of and end in.
type (
	// Accepted says that a call has become durable, and has the reference to ask about it.
	Accepted = envelope.Accepted
	// CallRef names a call by the reference that its acceptance gave.
	CallRef = envelope.CallRef
	// CancelResponse says what a cancel did.
	CancelResponse = envelope.CancelResponse
	// Chunk is a part of a streamed result.
	Chunk = envelope.Chunk
	// NarrowRequest asks for a token with less rights.
	NarrowRequest = envelope.NarrowRequest
	// RequestContext says in which trace, session, run and lane a call is made.
	RequestContext = envelope.RequestContext
	// Response is the outcome of a call.
	Response = envelope.Response
	// RetryPolicy says how often, and when, a call is made again.
	RetryPolicy = envelope.RetryPolicy
	// Status is one of the four outcomes.
	Status = envelope.Status
	// TokenResponse has a token.
	TokenResponse = envelope.TokenResponse
	// ToolInfo describes a tool to callers.
	ToolInfo = envelope.ToolInfo
)

// The four outcomes of a call.
const (
	Success        = envelope.Success
	RetryableError = envelope.RetryableError // the same call may be made again, with the same key
	TerminalError  = envelope.TerminalError  // the same call would end the same way
	InvalidRequest = envelope.InvalidRequest // so would this one: it was never run
)

// Invoke is [Client.Call] with values of Go: it encodes in as the input, as [Add] says, and decodes the output. Its
// errors are those of Call, and one for an input or an output that cannot be encoded or decoded.
//
//	text, err := toolbus.Invoke[string](ctx, client, toolbus.Call{Tool: "greet"}, Person{Name: "Ada"})
func Invoke[Out any](ctx context.Context, c *Client, call Call, in any) (out Out, err error) {
	if call.Input, err = json.Marshal(in, asJSON); err != nil {
		return out, fmt.Errorf("encode the input: %w", err)
	}
	resp, err := c.Call(ctx, call)
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(resp.Output, &out, asJSON, json.RejectUnknownMembers(false)); err != nil {
		return out, client.WithKey(fmt.Errorf("decode the output: %w", err), resp.Key)
	}
	return out, nil
}
