//go:build linux

package mcp_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/tooltest"
)

// heard holds what a call brings to a server that asks for input.
type heard struct {
	state     string
	responses sdk.InputResponseMap
	able      any // clientCapabilities in its _meta
}

// asker runs a server whose tool always asks, and returns its peer and what it has heard.
func asker(t *testing.T, message string) (*peer, *[]heard) {
	t.Helper()
	var all []heard
	server := newServer()
	server.AddTool(&sdk.Tool{Name: "ask", InputSchema: anything}, func(
		_ context.Context, req *sdk.CallToolRequest,
	) (*sdk.CallToolResult, error) {
		able := req.Params.Meta[sdk.MetaKeyClientCapabilities]
		all = append(all, heard{req.Params.RequestState, req.Params.InputResponses, able})
		return &sdk.CallToolResult{RequestState: "secret", InputRequests: sdk.InputRequestMap{
			"q": &sdk.ElicitParams{Message: message},
		}}, nil
	})
	h := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(h.Close)
	t.Cleanup(h.CloseClientConnections)
	a := newAdapter(t, mcp.Options{})
	return &peer{t, a, manifest(t, client.Server{URL: h.URL}, mcp.Endpoint{}), call.SideEffectful}, &all
}

// asks calls the tool, and returns its error as callers get it.
func (p *peer) asks(edit func(m *tool.Manifest, inv *tool.Invocation)) *envelope.Error {
	p.Helper()
	m, inv := p.of("ask"), invocationOf("{}")
	inv.ToolID, inv.IdempotencyKey = "test.ask", "0123456789abcdefghijklmnopqrstuv"
	edit(m, &inv)
	_, err := p.adapter.Execute(p.Context(), m, inv, &tooltest.Recorder{})
	if err == nil {
		p.Fatal("the call succeeded")
	}
	return p.adapter.ClassifyError(m, err)
}

// TestAsks checks the error of a server that asks, by the class of its tool.
func TestAsks(t *testing.T) {
	p, _ := asker(t, "Which one?")
	for name, c := range map[string]struct {
		edit   func(m *tool.Manifest)
		effect envelope.Effect
	}{
		"side-effectful": {func(*tool.Manifest) {}, envelope.EffectUnknown},
		"idempotent":     {func(m *tool.Manifest) { m.Class = call.Idempotent }, envelope.EffectUnknown},
		"read-only":      {func(m *tool.Manifest) { m.Class, m.ReadOnly = call.Idempotent, true }, envelope.EffectNone},
		"pure":           {func(m *tool.Manifest) { m.Class = call.Pure }, envelope.EffectNone},
		"declared": {func(m *tool.Manifest) {
			m.Errors = map[string]tool.ErrorSpec{"input_required": {Name: "input_required", Class: envelope.ClassTool}}
		}, envelope.EffectUnknown},
	} {
		got := p.asks(func(m *tool.Manifest, _ *tool.Invocation) { c.edit(m) })
		p.wants(got, envelope.CodeInputRequired, c.effect)
		q, ok := got.Question()
		if !ok || q.State != "test_2eask.0123456789abcdefghijklmnopqrstuv" || q.ServerState != "secret" ||
			!strings.Contains(string(q.Requests), `"elicitation/create"`) || got.Message != "the tool asks: Which one?" {
			t.Errorf("%s: %v, %+v", name, got, q)
		}
	}
}

// TestLargeQuestion gets a question that is too large to be passed on.
func TestLargeQuestion(t *testing.T) {
	p, _ := asker(t, strings.Repeat("x", envelope.MaxInputQuestion))
	got := p.asks(func(*tool.Manifest, *tool.Invocation) {})
	p.wants(got, envelope.CodeInputRequired, envelope.EffectUnknown)
	if _, ok := got.Question(); ok || !strings.Contains(got.Message, "too large") || len(got.Details.Extra) != 0 {
		t.Errorf("%v, details %v", got, got.Details.Extra)
	}
}

// TestOddQuestions gets questions that cannot be answered: their state is no text, or they are not in the form of MCP.
func TestOddQuestions(t *testing.T) {
	p := newPeer(t)
	for _, name := range []string{"torn", "mistyped"} {
		got := p.fails(name, "{}")
		p.wants(got, envelope.CodeInputRequired, envelope.EffectUnknown)
		if _, ok := got.Question(); ok || !strings.Contains(got.Message, "not in the form of MCP") {
			t.Errorf("%s: %v", name, got)
		}
	}
	if q, ok := p.fails("input", "{}").Question(); !ok || string(q.Requests) != "{}" || q.ServerState != "" {
		t.Errorf("a server that asks for nothing yet: %+v", q)
	}
}

// TestAnswersReach checks what a server gets with an answer, and that it gets no answer that MCP does not have.
func TestAnswersReach(t *testing.T) {
	p, all := asker(t, "Which one?")
	p.asks(func(*tool.Manifest, *tool.Invocation) {})
	p.asks(func(_ *tool.Manifest, inv *tool.Invocation) {
		inv.MCPInput = tool.MCPInput{
			ServerState: "secret", Responses: jsontext.Value(`{"q":{"action":"accept","content":{"n":7}}}`),
			Capabilities: jsontext.Value(`{"elicitation":{"form":{}},"extensions":{"x/y":{}},"roots":7}`),
		}
	})
	first, second := (*all)[0], (*all)[1]
	if first.state != "" || first.responses != nil || fmt.Sprint(first.able) != "map[]" {
		t.Errorf("without an answer the server got %+v", first)
	}
	answer, _ := second.responses["q"].(*sdk.ElicitResult)
	if second.state != "secret" || answer == nil || answer.Content["n"] != 7.0 ||
		fmt.Sprint(second.able) != "map[elicitation:map[form:map[]]]" {
		t.Errorf("with an answer the server got %+v", second)
	}
	got := p.asks(func(_ *tool.Manifest, inv *tool.Invocation) {
		inv.MCPInput = tool.MCPInput{ServerState: "secret", Responses: jsontext.Value(`{"q":{"unknown":1}}`)}
	})
	p.wants(got, "I-REQ-REQUEST_REFUSED", envelope.EffectNone)
	if len(*all) != 2 {
		t.Errorf("the server was called %d times", len(*all))
	}
}
