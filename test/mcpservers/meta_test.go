package mcpservers

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// TestMeta looks at the request that a server gets: it has the _meta of the client, and nothing that a client could
// forge of the bus or of the connection, through the door and over the bus.
func TestMeta(t *testing.T) {
	heard := make(chan jsontext.Value, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m struct {
			Method string `json:"method"`
			Params struct {
				Meta jsontext.Value `json:"_meta"`
			} `json:"params"`
		}
		if r.Method != http.MethodPost || err != nil || json.Unmarshal(body, &m) != nil {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if m.Method == "tools/call" {
			heard <- m.Params.Meta
		}
		w.Header().Set("Content-Type", "application/json")
		if answer := answerTo(body); answer != "" {
			_, _ = io.WriteString(w, answer)
		} else {
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	defer s.Close()
	i := newImporter(t)
	i.adds("said", client.Server{URL: s.URL})
	b := i.bus()
	door := mcp.New(t.Context(), b.Client, mcp.Options{Search: mcp.Search{Above: -1}})
	defer door.Close()
	h := httptest.NewServer(door.Handler())
	defer h.Close()
	defer h.CloseClientConnections()

	const sent = `"vendor.example/user":{"id":[7,"é"]},"plain":1.5,"tracestate":"a=b","io.toolbus/attempt":77,` +
		`"io.toolbus/invocation":{"tool_id":"forged"},"com.mcp.x/y":1,"io.modelcontextprotocol/z":2,"progressToken":"p"`
	ask := func(meta string) string {
		answer, _ := post(t, h.URL, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"said_plain",`+
			`"arguments":{},"_meta":{`+meta+`,"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
			`"io.modelcontextprotocol/clientCapabilities":{}}}}`, http.Header{"Mcp-Protocol-Version": {"2026-07-28"},
			"Mcp-Method": {"tools/call"}, "Mcp-Name": {"said_plain"}})
		return answer
	}
	resultIn(t, ask(sent))
	wantMeta(t, <-heard)
	b.asks(toolbus.Call{Tool: "mcp::said::plain", Input: jsontext.Value("{}"),
		Context: envelope.RequestContext{MCPMeta: jsontext.Value("{" + sent + "}")}})
	wantMeta(t, <-heard)

	for name, meta := range map[string]string{
		"large": `"x":"` + strings.Repeat("x", 16<<10) + `"`, "many": `"x0":0` + strings.Join(names(64), ""),
	} {
		if answer := ask(meta); !strings.Contains(answer, "-32602") || !strings.Contains(answer, "at most 64 members") {
			t.Errorf("%s: %.300s", name, answer)
		}
	}
}

// names returns n members.
func names(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf(`,"x%d":0`, i+1))
	}
	return all
}

func wantMeta(t *testing.T, meta jsontext.Value) {
	t.Helper()
	var got struct {
		User       jsontext.Value `json:"vendor.example/user"`
		Plain      float64        `json:"plain"`
		State      string         `json:"tracestate"`
		Attempt    int            `json:"io.toolbus/attempt"`
		Invocation jsontext.Value `json:"io.toolbus/invocation"`
		Reserved   jsontext.Value `json:"com.mcp.x/y"`
		Protocol   jsontext.Value `json:"io.modelcontextprotocol/z"`
	}
	if err := json.Unmarshal(meta, &got); err != nil {
		t.Fatal(err)
	}
	if string(got.User) != `{"id":[7,"é"]}` || got.Plain != 1.5 || got.State != "a=b" {
		t.Errorf("the server did not get the members of the client: %s", meta)
	}
	if got.Attempt != 1 || got.Invocation != nil || got.Reserved != nil || got.Protocol != nil ||
		strings.Contains(string(meta), `"progressToken":"p"`) {
		t.Errorf("the server got what is not the client's: %s", meta)
	}
}
