package mcpservers

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// booking is the schema of the arguments of a tool, in the forms that servers in Python and TypeScript have.
const booking = `{"type":"object","required":["seats"],"properties":{"seats":{"type":"integer"},
	"name":{"type":"string"},"price":{"anyOf":[{"type":"number"},{"type":"null"}],"default":null},
	"window":{"type":"boolean"},
	"rows":{"type":"array","items":{"type":"integer"}},"guest":{"$ref":"#/$defs/Guest"}},
	"$defs":{"Guest":{"type":"object","properties":{"age":{"type":"integer"},"code":{"type":"string"}}}}}`

// bookings is a server that answers with the arguments that it gets.
func bookings(t *testing.T) client.Server {
	t.Helper()
	s := sdk.NewServer(&sdk.Implementation{Name: "bookings", Version: "1.0.0"}, nil)
	s.AddTool(&sdk.Tool{Name: "book", InputSchema: json.RawMessage(booking)}, func(
		_ context.Context, req *sdk.CallToolRequest,
	) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(req.Params.Arguments)}}}, nil
	})
	h := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil))
	t.Cleanup(h.Close)
	return client.Server{URL: h.URL}
}

// TestCoerced calls a tool with strings for other values, as models send them: its server gets the values, from a
// client of MCP as from one of the bus. Strings where the schema allows strings, and those that spell nothing, stay.
func TestCoerced(t *testing.T) {
	i := newImporter(t)
	i.adds("bookings", bookings(t))
	b := i.bus()
	const (
		sent = `{"seats":"2","name":"7","price":"12.50","window":"True","rows":"[3, \"4\"]",` +
			`"guest":"{\"age\":\"41\",\"code\":\"007\"}"}`
		want = `{"seats":2,"name":"7","price":12.50,"window":true,"rows":[3,4],"guest":{"age":41,"code":"007"}}`
	)
	if got := b.gets("mcp::bookings::book", sent); got != want {
		t.Errorf("over the bus the server got %s", got)
	}
	call := clientOf(t, b)
	said := func(r *sdk.CallToolResult) string { return r.Content[0].(*sdk.TextContent).Text }
	if got := call(sent); got.IsError || said(got) != want {
		t.Errorf("from a client of MCP the server got %s", said(got))
	}
	for _, wrong := range []string{`{"seats":"two"}`, `{"seats":"9007199254740993"}`, `{"seats":2,"name":7}`} {
		b.fails("mcp::bookings::book", wrong, envelope.CodeSchema, envelope.EffectNone)
		if got := call(wrong); !got.IsError {
			t.Errorf("%s: the server got %s", wrong, said(got))
		}
	}
}

// clientOf returns what calls the tool through a door, with the client of the SDK.
func clientOf(t *testing.T, b *bus) func(arguments string) *sdk.CallToolResult {
	t.Helper()
	door := mcp.New(t.Context(), b.Client, mcp.Options{Search: mcp.Search{Above: -1}})
	t.Cleanup(door.Close)
	h := httptest.NewServer(door.Handler())
	t.Cleanup(func() { h.CloseClientConnections(); h.Close() })
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).
		Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: h.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() }) // the door may have gone
	return func(arguments string) *sdk.CallToolResult {
		t.Helper()
		res, err := session.CallTool(t.Context(),
			&sdk.CallToolParams{Name: "bookings_book", Arguments: json.RawMessage(arguments)})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
}

// TestCoercedKey asks again under a key: the same strings are the same call, and the values that they spell are not. A
// tool whose manifest says so gets only what its schema allows.
func TestCoercedKey(t *testing.T) {
	i := newImporter(t)
	i.adds("bookings", bookings(t))
	b := i.bus()
	book := func(seats string) *envelope.Response {
		return b.asks(toolbus.Call{
			Tool: "mcp::bookings::book", Key: "key-of-a-booking-1", Input: jsontext.Value(`{"seats":` + seats + `}`),
		})
	}
	first, again, other := book(`"2"`), book(`"2"`), book(`2`)
	if first.Status != envelope.Success || !again.Provenance.Replayed {
		t.Errorf("%v, and again %v", first.Error, again.Error)
	}
	if other.Error == nil || other.Error.Code != envelope.CodeKeyReused {
		t.Errorf("with another input: %v", other.Error)
	}

	i.edit("mcp_3a_3abookings_3a_3abook", "output: whole", "output: whole\n  coerce: false")
	i.bus().fails("mcp::bookings::book", `{"seats":"2"}`, envelope.CodeSchema, envelope.EffectNone)
}
