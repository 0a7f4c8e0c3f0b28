package mcp_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
)

// A misspelt option is refused before the call has an effect, over lines and over HTTP. Members with other prefixes,
// those of an executor of another bus, and those of definitions and answers are accepted: some frameworks send the
// _meta of a definition with each call of the tool.
func TestMisspeltMeta(t *testing.T) {
	f := start(t)
	door := mcp.New(t.Context(), f.Client, mcp.Options{})
	server := open(t, door)
	check := func(t *testing.T, s *sdk.ClientSession) {
		for name, says := range map[string]string{
			"idempotency-key": "did you mean io.toolbus/idempotency_key?", "deadline": "did you mean io.toolbus/deadline_ms?",
			"reprot": "did you mean io.toolbus/report?", "nonsense": "it has io.toolbus/deadline_ms, ",
		} {
			name = envelope.MetaPrefix + name
			_, err := s.CallTool(t.Context(), &sdk.CallToolParams{
				Name: "send", Arguments: text{"x"}, Meta: sdk.Meta{name: "misspelt-key-0000001", "vendor/x": 1},
			})
			wantCode(t, err, jsonrpc.CodeInvalidParams)
			if !strings.Contains(fmt.Sprint(err), `"`+name+`"; `+says) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := f.ran.Load(); n != 0 {
			t.Errorf("send ran %d times", n)
		}
		callNamed(t, s, "echo", `{"text":"x"}`, sdk.Meta{
			"vendor/x": 1, "io.toolbusiness/ref": 1, envelope.MetaAttempt: 1, envelope.MetaCallID: "c",
			envelope.MetaDigest: "d", envelope.MetaInvocation: map[string]any{}, envelope.MetaTraceparent: "t",
		})
		tools, err := s.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		echo := tools.Tools[slices.IndexFunc(tools.Tools, func(tool *sdk.Tool) bool { return tool.Name == "echo" })]
		r := callNamed(t, s, "echo", `{"text":"x"}`, echo.Meta)
		if callNamed(t, s, "echo", `{"text":"x"}`, r.Meta); len(echo.Meta) == 0 || len(r.Meta) == 0 {
			t.Errorf("nothing to send back: %v, %v", echo.Meta, r.Meta)
		}
	}
	each(t, door, f, nil, check)
	for _, protocol := range protocols {
		t.Run("HTTP "+protocol, func(t *testing.T) { check(t, over(t, server, protocol, nil)) })
	}
}

// The error of a call without a name, or with misnamed arguments, says what is missing. It names the search only in a
// session that lists it.
func TestMissingParams(t *testing.T) {
	f := start(t)
	for above, lists := range map[int]string{
		mcp.DefaultSearchAbove: "tools/list has", 4: "tools/list or toolbus_search_tools has",
	} {
		s := open(t, mcp.New(t.Context(), f.Client, mcp.Options{Search: mcp.Search{Above: above}}))
		for params, says := range map[string]string{
			`"arguments":{"text":"a"}`:            "params.name is missing, the name of the tool; " + lists,
			`"name":"qqqqqqqqqqqqqqqq"`:           "; " + lists,
			`"name":"send","args":{"text":"a"}`:   `- /params/arguments: is missing\n- arguments/text: is missing`,
			`"name":"send","arguments":{"txt":1}`: `fit the tool.\n- arguments/t`,
		} {
			body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + params + `}}`
			if _, answer := post(t, s.URL, body, session("s")); !strings.Contains(answer, says) {
				t.Errorf("%s: %s", params, answer)
			}
		}
	}
	if n := f.ran.Load(); n != 0 {
		t.Errorf("send ran %d times", n)
	}
}

// A session that its client has ended gets 404, and one of another gateway is served.
func TestEndedSession(t *testing.T) {
	f := start(t)
	s := open(t, mcp.New(t.Context(), f.Client, mcp.Options{}))
	c := over(t, s, "2025-11-25", nil)
	ended := session(c.ID())
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	if status, answer := post(t, s.URL, list, ended); status != http.StatusNotFound {
		t.Errorf("ended: %d %s", status, answer)
	}
	if status, answer := post(t, s.URL, list, session("s")); status != http.StatusOK {
		t.Errorf("another's: %d %s", status, answer)
	}
}
