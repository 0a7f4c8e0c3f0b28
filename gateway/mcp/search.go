package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// A model cannot use a very long list of tools. For that case the gateway has a tool of its own, which searches for
// tools by words. The client calls the tools that it finds like any other, or with nameCall if it calls only what it
// has listed; see shortlist.go.

// nameSearch is the name of the tool with which clients search for tools; see [Search.Above].
const nameSearch = envelope.MCPSearchTool

// Default and largest number of tools in a search result.
const (
	defaultFound = 5
	maxFound     = 50
)

// searchTool returns the entry of nameSearch in tools/list.
func searchTool() *sdk.Tool {
	return &sdk.Tool{
		Name:  nameSearch,
		Title: "Search tools",
		Description: "Finds tools by words of their names, descriptions and arguments, the best first, and says how to " +
			"call each. What it finds is called by its name, or with " + nameCall + " if it is not in the list of tools.",
		InputSchema: json.RawMessage(
			`{"type":"object","required":["words"],"additionalProperties":false,"properties":{` +
				`"words":{"type":"string","minLength":1,"maxLength":400,"description":"What the tool is to do, in a few words."},` +
				`"limit":{"type":"integer","minimum":1,"maximum":50,"default":5}}}`,
		),
		OutputSchema: json.RawMessage(
			`{"type":"object","required":["tools","found"],"properties":{"tools":{"type":"array",` +
				`"items":{"type":"object"}},"found":{"type":"integer"}}}`,
		),
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true},
	}
}

// argumentsOf returns the schema of the arguments of a tool of the gateway.
func argumentsOf(tool *sdk.Tool) *jsonschema.Schema {
	s, err := jsonschema.Compile(tool.Name, tool.InputSchema.(json.RawMessage), nil)
	if err != nil {
		panic("unreachable: " + err.Error()) // it is a constant
	}
	return s
}

// wanted are the arguments of nameSearch.
type wanted struct {
	Words string `json:"words"`
	Limit int    `json:"limit"`
}

// found is the result of nameSearch.
type found struct {
	Tools []foundTool `json:"tools"`
	Found int         `json:"found"` // number of matches, including those above the limit
}

// foundTool describes a tool to a model.
type foundTool struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	InputSchema any    `json:"inputSchema"`
}

// search answers a call of nameSearch.
func (s *Server) search(ctx context.Context, peer *sender, req *sdk.CallToolRequest) (sdk.Result, error) {
	given := jsontext.Value(cmp.Or(string(req.Params.Arguments), "{}"))
	if wrong := s.searching.Validate(given); len(wrong) > 0 {
		return refused(jsonschema.Below(asInput, wrong), peer.protocol), nil
	}
	var want wanted
	if err := json.Unmarshal(given, &want); err != nil {
		return nil, invalid("arguments: %v", err)
	}
	v, err := s.catalogue.refresh(ctx, peer.tools)
	if err != nil {
		return nil, unlisted(err)
	}
	answer := v.search(want)
	if only, err := s.short.searchOnly(v, peer, req.ClientInfo()); err == nil && only {
		s.short.keep(peer, req.Session, answer)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return nil, internal("%v", err)
	}
	return shown(&sdk.CallToolResult{
		StructuredContent: json.RawMessage(text), Content: []sdk.Content{&sdk.TextContent{Text: string(text)}},
	}, peer.protocol), nil
}

// foundBytes is the size of the tools in a search result at which it ends: models read all of it.
const foundBytes = 128 << 10

// search returns the tools that fit best, at most foundBytes of more than one. A tool whose name was asked for is the
// first one.
func (v *view) search(want wanted) found {
	hits := v.index.of(v).rank(want.Words)
	answer := found{Tools: []foundTool{}, Found: len(hits)}
	named := v.called(strings.TrimSpace(want.Words))
	slices.SortStableFunc(hits, func(a, b hit) int {
		return before(v.sorted[a.tool] == named) - before(v.sorted[b.tool] == named)
	})
	left := foundBytes
	for _, h := range hits[:min(len(hits), cmp.Or(want.Limit, defaultFound))] {
		d := v.sorted[h.tool]
		if left -= len(d.description) + len(d.arguments); left < 0 && len(answer.Tools) > 0 {
			break
		}
		answer.Tools = append(answer.Tools, foundTool{d.Name, d.title, d.description, d.arguments})
	}
	return answer
}

// before returns a number by which those that are first sort before others.
func before(first bool) int {
	if first {
		return -1
	}
	return 0
}
