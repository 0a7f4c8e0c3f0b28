package mcp

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/mcpmeta"
	"github.com/seed-018f16cc/toolbus/question"
)

// maxName is the longest name of a tool in MCP, in characters.
const maxName = 128

// Definition is a function of a tool as MCP clients see it.
type Definition struct {
	Tool, Fn string
	Shown    *sdk.Tool

	arguments json.RawMessage // their schema
	streaming bool
	retention time.Duration // of outcomes
	loose     bool          // the input is no object; arguments have it as their only member
	results   bool          // outputs are whole results of MCP
	object    bool          // outputs are objects, which is all that protocols before 2026-07-28 know as structured
}

// Define returns the functions of a tool, by name. The tool is one that was asked for by itself, so that it has its
// schemas.
func Define(t question.Tool) []*Definition {
	all := make([]*Definition, 0, len(t.Functions))
	for _, fn := range slices.Sorted(maps.Keys(t.Functions)) {
		all = append(all, define(t, fn))
	}
	return all
}

func define(t question.Tool, fn string) *Definition {
	of, name := t.Functions[fn], t.ToolID
	description, title := cmp.Or(t.Description, of.Description), t.Title
	if len(t.Functions) > 1 {
		name += "." + fn
		description, title = cmp.Or(of.Description, t.Description), strings.TrimSpace(t.Title+" "+fn)
	}
	d := &Definition{
		Tool: t.ToolID, Fn: fn, streaming: t.Streaming, retention: time.Duration(t.RetentionS) * time.Second,
	}
	d.Shown = &sdk.Tool{
		Name: nameOf(name), Title: title, Description: strings.TrimSpace(description), Annotations: annotations(t),
		Meta: sdk.Meta{mcpmeta.ToolVersion: t.Version},
	}
	d.arguments, d.loose = arguments(of.Request)
	d.Shown.InputSchema = d.arguments
	switch top := topOf(of.Response); {
	case top.Comment == mcpmeta.Result:
		d.results = true
		if structured := top.Properties["structuredContent"]; structured != nil {
			d.Shown.OutputSchema, d.object = structured, topOf(jsontext.Value(structured)).is("object")
		}
	case len(of.Response) > 0:
		d.Shown.OutputSchema, d.object = json.RawMessage(of.Response), top.is("object")
	}
	return d
}

// annotations say of a tool what its class does. They are hints: nothing here goes by them.
func annotations(t question.Tool) *sdk.ToolAnnotations {
	yes, no := true, false
	switch toolbus.Class(t.Determinism) {
	case toolbus.Pure:
		return &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no}
	case toolbus.Idempotent:
		return &sdk.ToolAnnotations{IdempotentHint: true}
	}
	return &sdk.ToolAnnotations{DestructiveHint: &yes}
}

// nameOf makes a name for MCP of one that has other characters, or too many: with a digest behind it, so that no two
// become one.
func nameOf(name string) string {
	plain := strings.Map(func(r rune) rune {
		if r < 0x80 && (r == '.' || r == '-' || r == '_' || r >= '0' && r <= '9' || r|0x20 >= 'a' && r|0x20 <= 'z') {
			return r
		}
		return '_'
	}, name)
	if plain == name && len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	tail := "_" + hex.EncodeToString(sum[:4])
	return plain[:min(len(plain), maxName-len(tail))] + tail
}

// top is what stands at the top of a schema.
type top struct {
	Type       any                        `json:"type"`
	Comment    string                     `json:"$comment"`
	Properties map[string]json.RawMessage `json:"properties"`
}

func topOf(schema jsontext.Value) (t top) {
	_ = json.Unmarshal(schema, &t) // one that is true or false has nothing
	return t
}

func (t top) is(name string) bool { return t.Type == name }

// input is the member of arguments that holds an input that is no object.
const input = "input"

// arguments returns the schema of the arguments for inputs with that schema, which in MCP are objects.
func arguments(request jsontext.Value) (schema json.RawMessage, loose bool) {
	t := topOf(request)
	if t.is("object") {
		return json.RawMessage(request), false
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(request, &members) != nil || members == nil {
		return json.RawMessage(`{"type":"object"}`), false
	}
	if t.Type == nil {
		members["type"] = json.RawMessage(`"object"`)
		return encoded(members), false
	}
	if members["$id"] == nil { // so that what it refers to within itself is found where it is now
		members["$id"] = json.RawMessage(`"urn:toolbus:input"`)
	}
	return encoded(map[string]any{
		"type": "object", "properties": map[string]any{input: members}, "required": []string{input},
		"additionalProperties": false,
	}), true
}

// encoded is what can be encoded as JSON.
func encoded(v any) json.RawMessage {
	text, _ := json.Marshal(v) // of what was JSON before
	return text
}

// shownTo is the tool for clients of a protocol.
func (d *Definition) shownTo(protocol string) *sdk.Tool {
	if protocol >= modern || d.object || d.Shown.OutputSchema == nil {
		return d.Shown
	}
	older := *d.Shown
	older.OutputSchema = nil
	return &older
}

// modern is the first protocol without sessions.
const modern = "2026-07-28"
