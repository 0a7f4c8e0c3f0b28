package mcp

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// The result of a method is as its server sent it, without members of the connection. One over the limit is an error,
// not a part of it.
func TestMethodResult(t *testing.T) {
	m := &tool.Manifest{Limits: envelope.ToolLimits{OutputBytes: 100}}
	for result, want := range map[string]string{
		`{"contents":[{"uri":"a:b","text":"c"}],"resultType":"complete","isError":true,"x":1}`: `{"contents":[` +
			`{"uri":"a:b","text":"c"}],"isError":true,"x":1}`,
		`{"contents":"` + strings.Repeat("x", 100) + `"}`: "",
	} {
		e := Endpoint{Server: "a", Methods: true}
		said, err := judge(m, e, opExecute, client.Answer{Result: jsontext.Value(result), IsError: true}, 0)
		_, limit := errors.AsType[*tool.LimitError](err)
		if string(said.result.Output) != want || limit != (want == "") {
			t.Errorf("%s became %s, %v", result, said.result.Output, err)
		}
	}
}

// An error of a method has the error of the server for clients, and the class of the bus. A further call would not find
// a resource that does not exist.
func TestMethodError(t *testing.T) {
	for _, c := range []struct {
		said jsonrpc.Error
		code string
		want string
	}{
		{
			jsonrpc.Error{Code: -32002, Message: "Resource not found", Data: []byte(`{"uri":"a:b"}`)}, errRefused,
			`{"io.toolbus/error":{"code":-32002,"message":"Resource not found","data":{"uri":"a:b"}}}`,
		},
		{
			jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "no", Data: []byte(`{"n":1e400}`)}, errServer,
			`{"io.toolbus/error":{"code":-32603,"message":"no"}}`,
		},
	} {
		e, ok := errors.AsType[*tool.Error](asMethod(translate(&c.said)))
		if !ok || e.Code != c.code || string(e.Result) != c.want ||
			(e.Effect == envelope.EffectNone) != (c.code == errRefused) {
			t.Errorf("%+v became %+v, %s", c.said, e, e.Result)
		}
	}
	other := &tool.CrashError{}
	if asMethod(other) != error(other) {
		t.Error("another error has changed")
	}
}
