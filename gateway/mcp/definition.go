package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// Definition is one function of a tool in the form that MCP clients see. It is immutable.
type Definition struct {
	Tool, Fn string
	Name     string         // name in MCP, see [envelope.FunctionNames]
	Shown    jsontext.Value // entry in the result of tools/list, in protocol 2026-07-28

	older       jsontext.Value // entry for earlier protocols
	title       string
	description string
	arguments   json.RawMessage // their schema
	server      *envelope.ServerInfo
	streaming   bool
	retention   time.Duration // of outcomes
	class       toolbus.EffectClass
	loose       bool // the input is not an object; arguments have it as their only member
	results     bool // outputs are whole results of MCP
	wrapped     bool // outputs may be no objects: older protocols have them as the member output of one
	unfit       bool // the server's output schema is not of an object at its top
	members     entry
}

// entry is an entry of a list of tools, by member.
type entry map[string]any

// Define returns the functions of tools, sorted by name. Each of tools must come from [toolbus.Client.Tool]: the
// entries of a list have no schemas.
func Define(tools []envelope.ToolInfo) (all []*Definition) {
	names := envelope.FunctionNames(tools, SearchTool)
	for _, t := range tools {
		for _, d := range define(t) {
			all = append(all, d.named(names[d.id()]))
		}
	}
	slices.SortFunc(all, func(a, b *Definition) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (d *Definition) id() envelope.FunctionID { return envelope.FunctionID{Tool: d.Tool, Fn: d.Fn} }

// define returns the functions of a tool, which have no names yet.
func define(t envelope.ToolInfo) []*Definition {
	all := make([]*Definition, 0, len(t.Functions))
	for _, fn := range slices.Sorted(maps.Keys(t.Functions)) {
		d := &Definition{
			Tool: t.ToolID, Fn: fn, streaming: t.Streaming, retention: time.Duration(t.RetentionS) * time.Second,
			class: toolbus.EffectClass(t.Determinism),
		}
		if t.Listed != nil {
			d.likeListed(t)
		} else {
			d.likeManifest(t)
		}
		d.members[memberMeta] = withVersion(d.members[memberMeta], t.Version)
		all = append(all, d)
	}
	return all
}

// Members of the entry of a list of tools.
const (
	memberName        = "name"
	memberTitle       = "title"
	memberDescription = "description"
	memberInput       = "inputSchema"
	memberOutput      = "outputSchema"
	memberAnnotations = "annotations"
	memberMeta        = "_meta"
)

// likeManifest makes an entry of what the manifest says.
func (d *Definition) likeManifest(t envelope.ToolInfo) {
	of := t.Functions[d.Fn]
	d.description, d.title = cmp.Or(t.Description, of.Description), t.Title
	if len(t.Functions) > 1 {
		d.description, d.title = cmp.Or(of.Description, t.Description), strings.TrimSpace(t.Title+" "+d.Fn)
	}
	d.description = strings.TrimSpace(d.description)
	d.arguments, d.loose = arguments(alone(of.Request))
	d.members = entry{memberInput: d.arguments, memberAnnotations: annotations(t)}
	for name, text := range map[string]string{memberTitle: d.title, memberDescription: d.description} {
		if text != "" {
			d.members[name] = text
		}
	}
	if output := d.output(alone(of.Response)); output != nil {
		d.members[memberOutput] = output
	}
}

// output returns the schema of structured content for outputs with that schema.
func (d *Definition) output(response jsontext.Value) json.RawMessage {
	if len(response) == 0 {
		return nil
	}
	if topOf(response).Comment != envelope.MCPResult {
		d.wrapped = !topOf(response).is("object")
		return json.RawMessage(response)
	}
	d.results = true
	structured, err := jsonschema.Sub(response, "/properties/structuredContent")
	if err != nil { // the server has no output schema
		return nil
	}
	return structured
}

// annotations say of a tool what its class does. They are hints: nothing here goes by them.
func annotations(t envelope.ToolInfo) *sdk.ToolAnnotations {
	yes, no := true, false
	switch toolbus.EffectClass(t.Determinism) {
	case toolbus.Pure:
		return &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no}
	case toolbus.Idempotent:
		return &sdk.ToolAnnotations{IdempotentHint: true}
	}
	return &sdk.ToolAnnotations{DestructiveHint: &yes}
}

// withVersion returns the _meta of an entry with the version of the tool.
func withVersion(meta any, version string) entry {
	of, _ := meta.(jsontext.Value)
	return withMember(of, envelope.MetaToolVersion, version)
}

// withMember returns an object with another value of one member. What is not an object is an empty one.
func withMember(object jsontext.Value, name string, value any) entry {
	var members map[string]jsontext.Value
	all := entry{name: value}
	if len(object) == 0 || json.Unmarshal(object, &members) != nil {
		return all
	}
	for other, of := range members {
		if other != name {
			all[other] = of
		}
	}
	return all
}

// named returns the definition under a name.
func (d *Definition) named(name string) *Definition {
	if d.Name == name {
		return d
	}
	is := *d
	is.Name = name
	is.Shown = is.members.shown(name)
	is.older = is.Shown
	older := maps.Clone(is.members)
	switch {
	case is.wrapped:
		older[memberOutput] = wrappedOutput(is.members[memberOutput])
		is.older = older.shown(name)
	case is.unfit:
		if older[memberOutput] = resolved(is.members[memberOutput]); older[memberOutput] == nil {
			delete(older, memberOutput)
		}
		is.older = older.shown(name)
	}
	return &is
}

// resolved returns an output schema that refers to one of an object as that; nil for any other one, for which clients
// of protocols before 2026-07-28 refuse the whole list.
func resolved(of any) any {
	text, _ := of.(jsontext.Value)
	if sub, err := jsonschema.Sub(text, ""); err == nil && topOf(sub).is("object") {
		return jsontext.Value(sub)
	}
	return nil
}

// shown returns the JSON of an entry, its name first.
func (e entry) shown(name string) jsontext.Value {
	text := encoded(map[string]any{memberName: name})
	if len(e) == 0 {
		return jsontext.Value(text)
	}
	return slices.Concat(jsontext.Value(text[:len(text)-1]), jsontext.Value(","), jsontext.Value(encoded(e)[1:]))
}

// shownTo is the entry for clients of a protocol.
func (d *Definition) shownTo(protocol string) jsontext.Value {
	if protocol >= modern {
		return d.Shown
	}
	return d.older
}

// top is what stands at the top of a schema.
type top struct {
	Type    any    `json:"type"`
	Comment string `json:"$comment"`
}

func topOf(schema []byte) (t top) {
	_ = json.Unmarshal(schema, &t) // one that is true or false has nothing
	return t
}

func (t top) is(name string) bool { return t.Type == name }

// Members that hold a value that is not an object, where MCP demands an object.
const (
	input         = "input"  // of arguments
	memberWrapped = "output" // of structured content, before 2026-07-28
)

// alone returns a schema without references to addresses. One that refers to another document, as no dispatcher of
// this build has it, is the schema of everything.
func alone(of jsontext.Value) jsontext.Value {
	if !bytes.Contains(of, []byte(`ef"`)) { // $ref and $dynamicRef
		return of
	}
	text, err := jsonschema.Alone(of)
	if err == nil {
		text, err = jsonschema.Sub(text, "") // so that its type is at its top
	}
	if err != nil {
		return jsontext.Value("{}")
	}
	return text
}

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
	return within(input, json.RawMessage(request)), true
}

// wrappedOutput is an output schema as protocols before 2026-07-28 have it: of an object.
func wrappedOutput(of any) any {
	if text, ok := of.(json.RawMessage); ok {
		return within(memberWrapped, text)
	}
	return of
}

// within returns the schema of an object whose only member has the schema of.
func within(member string, of json.RawMessage) json.RawMessage {
	placed, err := jsonschema.Placed(of, "/properties/"+member)
	if err != nil { // it was read before
		placed = []byte("true")
	}
	return encoded(map[string]any{
		"type": "object", "properties": map[string]any{member: json.RawMessage(placed)}, "required": []string{member},
		"additionalProperties": false,
	})
}

// encoded is what can be encoded as JSON.
func encoded(v any) json.RawMessage {
	text, _ := json.Marshal(v) // of what was JSON before
	return text
}

// modern is the first protocol without sessions.
const modern = "2026-07-28"
