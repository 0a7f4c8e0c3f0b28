package mcp

import (
	"errors"
	"math"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// methodResult returns the result of a method. It is not cut: the schemas of MCP do not allow that.
func methodResult(m *tool.Manifest, a client.Answer) (statement, error) {
	output, warnings := kept(a, math.MaxInt64)
	if int64(len(output)) > m.Limits.OutputBytes {
		return statement{}, &tool.LimitError{Limit: m.Limits.OutputBytes}
	}
	return statement{result: tool.Result{Output: output, Warnings: warnings}}, nil
}

// codeNotFound is the JSON-RPC code of a resource that does not exist, before protocol 2026-07-28.
const codeNotFound = -32002

// refusalError is the error of a request that a server answered with a JSON-RPC error.
type refusalError struct {
	error
	said *jsonrpc.Error
}

// Unwrap returns the error for package tool.
func (e *refusalError) Unwrap() error { return e.error }

// wireError is an error of JSON-RPC.
type wireError struct {
	Code    int64          `json:"code"`
	Message string         `json:"message"`
	Data    jsontext.Value `json:"data,omitzero"`
}

func wireErrorOf(said *jsonrpc.Error) wireError {
	data := jsontext.Value(said.Data)
	if !ijson.Valid(data) {
		data = nil
	}
	return wireError{said.Code, said.Message, data}
}

// asMethod returns the error of a method. Its result is the JSON-RPC error, which gateways give to their clients.
func asMethod(err error) error {
	refused, ok := errors.AsType[*refusalError](err)
	if !ok {
		return err
	}
	e, ok := errors.AsType[*tool.Error](refused.error)
	if !ok {
		return err
	}
	is := *e
	if refused.said.Code == codeNotFound {
		is.Code, is.Effect = errRefused, envelope.EffectNone
	}
	answer, bad := json.Marshal(map[string]any{envelope.MCPError: wireErrorOf(refused.said)}, json.Deterministic(true))
	if bad != nil || len(answer) > envelope.MaxToolResult {
		return err
	}
	is.Result = answer
	return &is
}
