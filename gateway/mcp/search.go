package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// A model cannot use a very long list of tools. For that case the gateway has a tool of its own, which searches for
// tools by words. The client calls the tools that it finds like any other.

// SearchTool is the name of the tool with which clients search for tools; see [Options.SearchAbove].
const SearchTool = envelope.MCPSearchTool

// Default and largest number of tools in a search result.
const (
	defaultFound = 10
	maxFound     = 50
)

// searchTool returns the entry of SearchTool in tools/list.
func searchTool() *sdk.Tool {
	return &sdk.Tool{
		Name:  SearchTool,
		Title: "Search tools",
		Description: "Finds tools by words of their names and descriptions, and says how to call each. What it finds is " +
			"called by its name.",
		InputSchema: json.RawMessage(
			`{"type":"object","required":["words"],"additionalProperties":false,"properties":{` +
				`"words":{"type":"string","minLength":1,"maxLength":400,"description":"What the tool is to do, in a few words."},` +
				`"limit":{"type":"integer","minimum":1,"maximum":50,"default":10}}}`,
		),
		OutputSchema: json.RawMessage(
			`{"type":"object","required":["tools","found"],"properties":{"tools":{"type":"array",` +
				`"items":{"type":"object"}},"found":{"type":"integer"}}}`,
		),
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true},
	}
}

// searchArguments returns the schema of the arguments of SearchTool.
func searchArguments() *jsonschema.Schema {
	s, err := jsonschema.Compile(SearchTool, searchTool().InputSchema.(json.RawMessage), nil)
	if err != nil {
		panic("unreachable: " + err.Error()) // it is a constant
	}
	return s
}

// wanted are the arguments of SearchTool.
type wanted struct {
	Words string `json:"words"`
	Limit int    `json:"limit"`
}

// found is the result of SearchTool.
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

// search answers a call of SearchTool.
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
	text, err := json.Marshal(answer)
	if err != nil {
		return nil, internal("%v", err)
	}
	return shown(&sdk.CallToolResult{
		StructuredContent: json.RawMessage(text), Content: []sdk.Content{&sdk.TextContent{Text: string(text)}},
	}, peer.protocol), nil
}

// search returns the tools with the highest scores, and by name among equal scores.
func (v *view) search(want wanted) found {
	type hit struct {
		*Definition
		score int
	}
	var hits []hit
	words := wordsOf(want.Words)
	for _, d := range v.sorted {
		if n := score(d, words); n > 0 {
			hits = append(hits, hit{d, n})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.score, a.score) })
	answer := found{Tools: []foundTool{}, Found: len(hits)}
	for _, h := range hits[:min(len(hits), cmp.Or(want.Limit, defaultFound))] {
		answer.Tools = append(
			answer.Tools,
			foundTool{h.Name, h.title, h.description, h.arguments},
		)
	}
	return answer
}

// score returns how well a tool fits the words. Words of its name count most.
func score(d *Definition, words []string) (n int) {
	name, title, description := wordsOf(d.Name), wordsOf(d.title), wordsOf(d.description)
	for _, w := range words {
		n += 8*among(w, name) + 4*among(w, title) + 2*among(w, description)
	}
	return n
}

// among returns 2 if word is one of words, and 1 if one of them is a prefix of the other, as with plurals.
func among(word string, words []string) (best int) {
	for _, w := range words {
		switch {
		case w == word:
			return 2
		case len(w) > 2 && len(word) > 2 && (strings.HasPrefix(w, word) || strings.HasPrefix(word, w)):
			best = 1
		}
	}
	return best
}

// wordsOf returns the words of a text in lower case.
func wordsOf(text string) []string {
	return strings.FieldsFunc(
		strings.ToLower(text),
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) },
	)
}
