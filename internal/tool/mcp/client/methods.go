package client

import (
	"context"
	stdjson "encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Method is a method of MCP servers that [Conn.Call] calls besides tools/call. All of them only read.
type Method string

// The methods.
const (
	ResourcesList Method = "resources/list"
	TemplatesList Method = "resources/templates/list"
	ResourcesRead Method = "resources/read"
	PromptsList   Method = "prompts/list"
	PromptsGet    Method = "prompts/get"
	Complete      Method = "completion/complete"

	// ResourcesSubscribe is not a method of [Conn.Call]: see [Conn.Subscribe].
	ResourcesSubscribe Method = "resources/subscribe"
)

// empty returns an empty result, which the SDK gets in place of that of the server. It returns "" for an unknown
// method.
func (m Method) empty() jsontext.Value {
	switch m {
	case ResourcesList:
		return jsontext.Value(`{"resources":[]}`)
	case TemplatesList:
		return jsontext.Value(`{"resourceTemplates":[]}`)
	case ResourcesRead:
		return jsontext.Value(`{"contents":[]}`)
	case PromptsList:
		return jsontext.Value(`{"prompts":[]}`)
	case PromptsGet:
		return jsontext.Value(`{"messages":[]}`)
	case Complete:
		return jsontext.Value(`{"completion":{"values":[]}}`)
	case ResourcesSubscribe:
		return jsontext.Value(`{}`)
	}
	return nil
}

// Function returns the name of the function that stands for the method: its name with _ for /.
func (m Method) Function() string { return strings.ReplaceAll(string(m), "/", "_") }

// MethodOf returns the method with that [Method.Function], or "".
func MethodOf(fn string) Method {
	if m := Method(strings.ReplaceAll(fn, "_", "/")); m.empty() != nil {
		return m
	}
	return ""
}

// Methods returns the methods for which the server has declared a capability.
func (c *Conn) Methods(ctx context.Context) (all []Method) {
	has := c.session.InitializeResult().Capabilities
	if has == nil {
		return nil
	}
	if has.Resources != nil {
		all = append(all, ResourcesList, TemplatesList, ResourcesRead)
	}
	if c.subscribes(ctx) {
		all = append(all, ResourcesSubscribe)
	}
	if has.Prompts != nil {
		all = append(all, PromptsList, PromptsGet)
	}
	if has.Completions != nil {
		all = append(all, Complete)
	}
	return all
}

// ask calls a method.
func (c *Conn) ask(ctx context.Context, r Request) (Answer, error) {
	meta := map[string]any{}
	maps.Copy(meta, r.Meta) // the SDK adds members of this connection
	r.Meta = meta
	f := &flight{limit: r.Limit, shorten: func(jsontext.Value) jsontext.Value { return r.Method.empty() }}
	raw, err := c.fly(ctx, f, func(ctx context.Context) error {
		switch s := c.session; r.Method {
		case ResourcesList:
			return sent(ctx, r, &mcp.ListResourcesParams{}, s.ListResources)
		case TemplatesList:
			return sent(ctx, r, &mcp.ListResourceTemplatesParams{}, s.ListResourceTemplates)
		case ResourcesRead:
			params := &mcp.ReadResourceParams{}
			r.Input.addTo(&params.RequestState, &params.InputResponses, r.Meta, c.asksCallers())
			return sent(ctx, r, params, s.ReadResource)
		case PromptsList:
			return sent(ctx, r, &mcp.ListPromptsParams{}, s.ListPrompts)
		case PromptsGet:
			params := &mcp.GetPromptParams{}
			r.Input.addTo(&params.RequestState, &params.InputResponses, r.Meta, c.asksCallers())
			return sent(ctx, r, params, s.GetPrompt)
		case Complete:
			return sent(ctx, r, &mcp.CompleteParams{}, s.Complete)
		}
		return fmt.Errorf("%q is not a method that this client calls", r.Method)
	})
	if err != nil {
		return Answer{}, err
	}
	return answerOf(raw, f.mended)
}

// sent sends the request of a method with its parameters.
func sent[P mcp.Params, R any](
	ctx context.Context, r Request, params P, call func(context.Context, P) (R, error),
) error {
	if err := stdjson.Unmarshal(r.Arguments, params); err != nil {
		return err
	}
	params.SetMeta(r.Meta)
	_, err := call(ctx, params)
	return err
}
