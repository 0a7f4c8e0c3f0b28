package mcp

import (
	"errors"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// The first of two tools with one name counts, as in the import.
func TestListedTwice(t *testing.T) {
	a, b := client.Tool{Name: "a"}, client.Tool{Name: "b"}
	digests := digestsOf([]client.Tool{a, b, a, {Name: "b", Description: "other"}, b})
	if digests["a"] != digestOf(a) || digests["b"] != digestOf(b) || digestOf(b) == "" {
		t.Error(digests)
	}
}

// A model reads an error of JSON-RPC as the server wrote it, line breaks and data included.
func TestRefusal(t *testing.T) {
	for _, c := range []struct {
		said jsonrpc.Error
		code string
		want string
	}{
		{
			jsonrpc.Error{Code: -32000, Message: "Too many requests:\n try later"}, errServer,
			`{"content":[{"type":"text","text":"Too many requests:\n try later"}],"isError":true}`,
		},
		{
			jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no", Data: []byte(`{"at":"/a"}`)}, errRefused,
			`{"content":[{"type":"text","text":"no"},{"type":"text","text":"{\"at\":\"/a\"}"}],"isError":true}`,
		},
	} {
		e, ok := errors.AsType[*tool.Error](refusal(&c.said))
		if !ok || e.Code != c.code || string(e.Result) != c.want {
			t.Errorf("%+v became %+v", c.said, e)
		}
	}
	large := refusal(&jsonrpc.Error{Code: -32000, Message: strings.Repeat("m", envelope.MaxToolResult)})
	e, ok := errors.AsType[*tool.Error](large)
	if !ok || len(e.Result) != envelope.MaxToolResult || len(about(large).result.Warnings) != 1 {
		t.Errorf("a large one became %d bytes, with %+v", len(e.Result), about(large))
	}
}
