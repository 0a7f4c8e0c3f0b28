package mcp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// TestUnencodable: if an answer cannot be encoded, the client gets an error with the id of its request.
func TestUnencodable(t *testing.T) {
	for name, raw := range map[string]any{`"a"`: "a", "7": float64(7)} {
		id, err := jsonrpc.MakeID(raw)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		c := newConn(strings.NewReader(""), &out, DefaultBody)
		defer c.close()
		if err := c.Write(t.Context(), &jsonrpc.Response{ID: id, Result: json.RawMessage(`{"cut":`)}); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":`+name+`,"error":{"code":-32603,`) {
			t.Errorf("of %s: %s", name, got)
		}
	}
}
