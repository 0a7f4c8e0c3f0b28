package mcp

import (
	"errors"
	"fmt"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// A client gets the code for a missing resource that its protocol has, whatever protocol the server speaks. Other
// errors keep their codes.
func TestMethodErrorCode(t *testing.T) {
	const old, uri = "2025-11-25", `{"uri":"a:b"}`
	for _, c := range []struct {
		method, protocol string
		code             int64
		data             string
		want             int64
	}{
		{methodRead, old, jsonrpc.CodeInvalidParams, uri, codeNoResource},
		{methodRead, "2024-11-05", jsonrpc.CodeInvalidParams, uri, codeNoResource},
		{methodRead, modern, jsonrpc.CodeInvalidParams, uri, jsonrpc.CodeInvalidParams},
		{methodRead, old, codeNoResource, uri, codeNoResource},
		{methodRead, modern, codeNoResource, uri, jsonrpc.CodeInvalidParams},
		{methodRead, old, jsonrpc.CodeInvalidParams, `{"uri":7}`, jsonrpc.CodeInvalidParams},
		{methodRead, old, jsonrpc.CodeInvalidParams, `{"name":"uri"}`, jsonrpc.CodeInvalidParams},
		{methodRead, old, jsonrpc.CodeInvalidParams, `"uri"`, jsonrpc.CodeInvalidParams},
		{methodRead, old, jsonrpc.CodeInvalidParams, "null", jsonrpc.CodeInvalidParams},
		{methodPrompt, old, jsonrpc.CodeInvalidParams, uri, jsonrpc.CodeInvalidParams},
		{methodComplete, old, jsonrpc.CodeInvalidParams, uri, jsonrpc.CodeInvalidParams},
		{methodRead, old, -32099, uri, -32099},
	} {
		answer := fmt.Sprintf(`{"io.toolbus/error":{"code":%d,"message":"Resource not found","data":%s}}`, c.code, c.data)
		e := envelope.NewError(envelope.CodeToolFault, "")
		e.Details.ToolResult = []byte(answer)
		refused, err := methodError(&envelope.Response{Error: e}, c.method, c.protocol)
		wire, ok := errors.AsType[*jsonrpc.Error](err)
		if !refused || !ok || wire.Code != c.want || wire.Message != "Resource not found" {
			t.Errorf("%s in %s of %d with %s: %+v, want %d", c.method, c.protocol, c.code, c.data, err, c.want)
		}
	}
}
