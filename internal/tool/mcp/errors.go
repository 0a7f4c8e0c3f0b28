package mcp

import (
	"errors"
	"fmt"
	"maps"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/oauth"
)

// The errors that every tool of an MCP server may return. A manifest may declare them to change their meaning.
const (
	errTool      = "tool_error"
	errRefused   = "request_refused"
	errServer    = "server_error"
	errBusy      = "server_busy"
	errForbidden = "server_forbids"
	errGateway   = "server_unreachable"
	errLogin     = "server_login"
)

// generic returns the meaning of those errors for manifests that do not declare them.
func generic() map[string]tool.ErrorSpec {
	return map[string]tool.ErrorSpec{
		errTool: {
			Name: errTool, Class: envelope.ClassPrecondition, HTTPStatus: http.StatusUnprocessableEntity,
			Message: "the tool says that it failed", Fix: "correct what its message names, then call with a new key",
		},
		errRefused: {
			Name: errRefused, Class: envelope.ClassRequest, HTTPStatus: http.StatusBadRequest,
			Message: "the server refused the request", Fix: "correct the arguments as the message says",
		},
		errServer: {
			Name: errServer, Class: envelope.ClassTool, HTTPStatus: http.StatusInternalServerError,
			Message: "the server failed at the request",
			Fix:     "call again once with the same key; report it to the server's owner if it repeats",
		},
		errBusy: {
			Name: errBusy, Class: envelope.ClassCapacity, HTTPStatus: http.StatusTooManyRequests,
			Message: "the server takes no more requests now", Fix: "call again with the same key after details.retry_after_ms",
		},
		errForbidden: {
			Name: errForbidden, Class: envelope.ClassAuth, HTTPStatus: http.StatusForbidden,
			Message: "the server refused the executor's credentials",
			Fix:     "correct the headers in the executor's " + ServersFile,
		},
		errLogin: {
			Name: errLogin, Class: envelope.ClassAuth, HTTPStatus: http.StatusForbidden,
			Message: "the executors are logged in at the server no more",
			Fix:     "tell the operator of the bus to log in again, as the message says",
		},
		errGateway: {
			Name: errGateway, Class: envelope.ClassUpstream, HTTPStatus: http.StatusBadGateway,
			Message: "the way to the server failed", Fix: "call again with the same key after details.retry_after_ms",
		},
	}
}

// classify maps an error of a run to the taxonomy.
func classify(m *tool.Manifest, err error) *envelope.Error {
	if changed, ok := errors.AsType[*changedError](err); ok {
		return envelope.ToolChanged(m.ToolID).WithCause(changed.Error()).WithEffect(envelope.EffectNone)
	}
	if over, ok := errors.AsType[*oauth.LoginError](err); ok {
		err = &tool.Error{Code: errLogin, Message: over.Error(), Effect: envelope.EffectNone}
	}
	if said, ok := errors.AsType[*tool.Error](err); ok && m.Errors[said.Code].Name == "" {
		if spec, known := generic()[said.Code]; known {
			with := *m
			with.Errors = maps.Clone(m.Errors)
			if with.Errors == nil {
				with.Errors = map[string]tool.ErrorSpec{}
			}
			with.Errors[said.Code] = spec
			m = &with
		}
	}
	out := tool.Classify(m, err)
	if out.Details.ToolCode == errTool && out.Details.Effect == envelope.EffectUnknown &&
		out.Fix == generic()[errTool].Fix {
		out.WithFix("the tool may have done a part of it before it failed: check that before you call with a new key")
	}
	if down, ok := errors.AsType[*downError](err); ok && down.again > 0 {
		out.WithRetryAfter(down.again)
	}
	return out
}

// translate converts an error of package client, of a request that was sent, to an error of package tool.
func translate(err error) error {
	if lost, ok := errors.AsType[*client.BrokenError](err); ok {
		return &tool.CrashError{How: lost.How, Stderr: lost.Stderr}
	}
	if large, ok := errors.AsType[*client.TooLargeError](err); ok {
		return &tool.LimitError{Limit: large.Limit}
	}
	if said, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return refusal(said)
	}
	if status, ok := errors.AsType[*client.StatusError](err); ok {
		return refusedBy(status)
	}
	return &tool.ProtocolError{Reason: err.Error()}
}

// refusal converts a JSON-RPC error. With one of the codes below, the server has not begun the request, so the effect
// is none. The result contains message and data as the server wrote them, as the text blocks of a result with isError,
// for models.
func refusal(said *jsonrpc.Error) error {
	e := &tool.Error{Code: errServer, Message: fmt.Sprintf("%s (JSON-RPC error %d)", said.Message, said.Code)}
	blocks := []jsontext.Value{textBlock(said.Message)}
	if len(said.Data) > 0 && string(said.Data) != "null" {
		blocks = append(blocks, textBlock(string(said.Data)))
	}
	var warnings []string
	e.Result, warnings = failed(client.Answer{Result: ijson.Object(
		member("content", ijson.Array(blocks...)), member("isError", jsontext.Value("true")),
	)})
	switch said.Code {
	case jsonrpc.CodeInvalidParams, jsonrpc.CodeInvalidRequest, jsonrpc.CodeMethodNotFound, jsonrpc.CodeParseError:
		e.Code, e.Effect = errRefused, envelope.EffectNone
	}
	if len(warnings) > 0 {
		return &refusalError{&cutError{e, warnings}, said}
	}
	return &refusalError{e, said}
}

// cutError is an error that a server reported, with warnings about the parts of it that were cut.
type cutError struct {
	error
	warnings []string
}

// Unwrap returns the error without the warnings.
func (e *cutError) Unwrap() error { return e.error }

// about returns a statement with the warnings of err.
func about(err error) statement {
	cut, ok := errors.AsType[*cutError](err)
	if !ok {
		return statement{}
	}
	return statement{result: tool.Result{Warnings: cut.warnings}}
}

func textBlock(text string) jsontext.Value {
	return ijson.Object(member("type", ijson.Quote("text")), member("text", ijson.Quote(text)))
}

// refusedBy converts an HTTP status. With some statuses, the server has not begun the request, so the effect is none.
func refusedBy(s *client.StatusError) error {
	e := &tool.Error{
		Code: errGateway, Message: fmt.Sprintf("the server answered with HTTP status %d", s.Status), RetryAfter: s.RetryAfter,
	}
	switch s.Status {
	case http.StatusTooManyRequests:
		e.Code, e.Effect = errBusy, envelope.EffectNone
	case http.StatusUnauthorized, http.StatusForbidden:
		e.Code, e.Effect = errForbidden, envelope.EffectNone
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType:
		e.Code, e.Effect = errRefused, envelope.EffectNone
	}
	return e
}
