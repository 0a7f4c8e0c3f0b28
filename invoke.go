package toolbus

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/caller"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/client"
)

// Types of package caller, which links a client alone.
type (
	// Client calls tools. Make one with [Conn.Client].
	Client = caller.Client
	// ClientOptions identifies the caller of a Client. The zero value suits a development client.
	ClientOptions = caller.ClientOptions
	// Call describes one call of a function of a tool. Tool is required; the other zero values are defaults.
	Call = caller.Call
	// StreamItem is one item of Client.Stream: a chunk, or the response of the success as the last item.
	StreamItem = caller.StreamItem
	// Error is the error of a call that did not succeed: an outcome other than success, a refusal of the bus, or an error
	// of the client itself.
	Error = caller.Error
	// ToolError is a failure that a tool declares.
	ToolError = caller.ToolError
)

// DefaultTenant and DefaultActor apply if ClientOptions leaves the field empty and the connection has no caller:
// neither [Options] nor the credentials name one.
const (
	DefaultTenant = caller.DefaultTenant
	DefaultActor  = caller.DefaultActor
)

// NewError returns an Error with that reason. response is the response of the call, or nil if the bus refused a request
// other than a call.
func NewError(reason *envelope.Error, response *Response) *Error {
	return caller.NewError(reason, response)
}

// CodeOf returns the code of the [Error] that err is or wraps, and "" for any other err.
func CodeOf(err error) envelope.Code { return caller.CodeOf(err) }

// EffectOf returns the effect of the call that returned err: [EffectApplied] if err is nil, the effect of the [Error]
// that err is or wraps, and [EffectUnknown] for any other err.
func EffectOf(err error) Effect { return caller.EffectOf(err) }

// KeyOf returns the idempotency key of the call that returned err, as caller.KeyOf does; it also knows the errors of
// [Invoke].
func KeyOf(err error) string { return caller.KeyOf(err) }

// Outcome converts the results of Client.Call: if err is an [Error] with a response, it returns that response and a nil
// error. It is for programs that handle all four outcomes alike.
func Outcome(r *Response, err error) (*Response, error) { return caller.Outcome(r, err) }

// StableKey returns the idempotency key that a client with StableKeys in its [ClientOptions] gives to a call, as
// caller.StableKey does.
func StableKey(call Call) (string, error) { return caller.StableKey(call) }

// Types of package envelope in the requests and responses of a [Client].
type (
	// Accepted is the message of a dispatcher that a call is durable. It holds the reference of the call.
	Accepted = envelope.Accepted
	// CallRef holds the reference of a call, as Accepted or a response reports it.
	CallRef = envelope.CallRef
	// CancelResponse is the result of [Client.Cancel].
	CancelResponse = envelope.CancelResponse
	// Chunk is one piece of a streamed result.
	Chunk = envelope.Chunk
	// NarrowRequest lists the rights of a narrowed token; see [Client.NarrowToken].
	NarrowRequest = envelope.NarrowRequest
	// RequestContext holds the caller, trace, session, run and lane of a call.
	RequestContext = envelope.RequestContext
	// Response is the answer to a call: its status, and the output or the error.
	Response = envelope.Response
	// RetryPolicy sets the number of attempts of a call and the pauses between them.
	RetryPolicy = envelope.RetryPolicy
	// Status is the kind of a response, one of four.
	Status = envelope.Status
	// TokenResponse holds a token, its family and its expiry.
	TokenResponse = envelope.TokenResponse
	// ToolInfo describes a tool to callers.
	ToolInfo = envelope.ToolInfo
)

// Values of [Status], the four outcomes of a call.
const (
	Success        = envelope.Success
	RetryableError = envelope.RetryableError // the call failed; the same call with the same key runs the next attempt
	TerminalError  = envelope.TerminalError  // the call failed; the same call with the same key gets this outcome again
	InvalidRequest = envelope.InvalidRequest // the request is invalid, and no executor ran it
)

// Invoke is [Client.Call] with Go values: it encodes in as the input and decodes the output, with the JSON that [Add]
// describes. It ignores unknown members of the output. Besides the errors of Call, it returns an error if the input
// cannot be encoded or the output cannot be decoded.
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
