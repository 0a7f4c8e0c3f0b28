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
	arguments   json.RawMessage // schema of the arguments
	server      *envelope.ServerInfo
	streaming   bool
	retention   time.Duration // for which outcomes are kept
	keyRequired bool          // clients must choose the idempotency key
	class       toolbus.EffectClass
	method      string // MCP method of the server that the function is; "" for a tool
	loose       bool   // the input is not an object: it is the only member of the arguments
	results     bool   // outputs are whole results of MCP tools
	wrapped     bool   // outputs may not be objects: for older protocols they are the member output of an object
	unfit       bool   // the type of the server's output schema is not object
	members     entry
}

// entry holds the members of an entry in tools/list, without the name.
type entry map[string]any

// Define returns the functions of tools, sorted by name, without those that are methods of MCP servers. Each of tools
// must come from [toolbus.Client.Tool]: the entries of a list have no schemas.
func Define(tools []envelope.ToolInfo) (all []*Definition) {
	names := envelope.FunctionNames(tools, nameSearch, nameCall)
	for _, t := range tools {
		for _, d := range define(t) {
			if d.method == "" {
				all = append(all, d.named(names[d.id()]))
			}
		}
	}
	slices.SortFunc(all, func(a, b *Definition) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (d *Definition) id() envelope.FunctionID { return envelope.FunctionID{Tool: d.Tool, Fn: d.Fn} }

// define returns the functions of a tool, without names.
func define(t envelope.ToolInfo) []*Definition {
	all := make([]*Definition, 0, len(t.Functions))
	for _, fn := range slices.Sorted(maps.Keys(t.Functions)) {
		d := &Definition{
			Tool: t.ToolID, Fn: envelope.NameToCall(fn), streaming: t.Streaming, class: toolbus.EffectClass(t.Determinism),
			retention: time.Duration(t.RetentionS) * time.Second, keyRequired: t.KeyRequirement == envelope.KeyRequired,
		}
		switch {
		case t.Listed == nil:
			d.likeManifest(t)
		case t.Listed.Methods:
			d.method, d.server, d.members = strings.ReplaceAll(d.Fn, "_", "/"), &t.Listed.Server, entry{}
		default:
			d.likeListed(t)
		}
		d.members[memberMeta] = withFacts(d.members[memberMeta], t)
		all = append(all, d)
	}
	return all
}

// Members of an entry in tools/list.
const (
	memberName        = "name"
	memberTitle       = "title"
	memberDescription = "description"
	memberInput       = "inputSchema"
	memberOutput      = "outputSchema"
	memberAnnotations = "annotations"
	memberMeta        = "_meta"
)

// likeManifest makes the entry from the manifest.
func (d *Definition) likeManifest(t envelope.ToolInfo) {
	fn, _ := t.Function(d.Fn)
	d.description, d.title = cmp.Or(t.Description, fn.Description), t.Title
	if len(t.Functions) > 1 {
		d.description, d.title = cmp.Or(fn.Description, t.Description), strings.TrimSpace(t.Title+" "+d.Fn)
	}
	d.description = strings.TrimSpace(d.description)
	d.arguments, d.loose = arguments(alone(fn.Request))
	d.members = entry{memberInput: d.arguments, memberAnnotations: annotations(t)}
	for name, text := range map[string]string{memberTitle: d.title, memberDescription: d.description} {
		if text != "" {
			d.members[name] = text
		}
	}
	if output := d.output(alone(fn.Response)); output != nil {
		d.members[memberOutput] = output
	}
}

// output returns the schema of the structured content for outputs with the schema response, or nil.
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

// annotations returns the MCP annotations for the effect of a tool. They are hints for clients; the gateway does
// not use them.
func annotations(t envelope.ToolInfo) *sdk.ToolAnnotations {
	yes, no := true, false
	class := toolbus.EffectClass(t.Determinism)
	switch {
	case class == toolbus.Pure, t.ReadOnly:
		return &sdk.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no}
	case class == toolbus.Idempotent:
		return &sdk.ToolAnnotations{IdempotentHint: true}
	}
	return &sdk.ToolAnnotations{DestructiveHint: &yes}
}

// withFacts returns the _meta of an entry with the version and the effect of the tool. Dispatchers of older builds do
// not send the effect.
func withFacts(meta any, t envelope.ToolInfo) entry {
	of, _ := meta.(jsontext.Value)
	all := withMember(of, envelope.MetaToolVersion, t.Version)
	if t.Effect != "" {
		all[envelope.MetaEffectLevel] = t.Effect
	}
	return all
}

// withMember returns the members of object, with one member set. If object is not a JSON object, the result has only
// that member.
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

// named returns the definition with that name.
func (d *Definition) named(name string) *Definition {
	if d.Name == name {
		return d
	}
	renamed := *d
	renamed.Name = name
	renamed.Shown = renamed.members.shown(name)
	renamed.older = renamed.Shown
	older := maps.Clone(renamed.members)
	switch {
	case renamed.wrapped:
		older[memberOutput] = wrappedOutput(renamed.members[memberOutput])
		renamed.older = older.shown(name)
	case renamed.unfit:
		if older[memberOutput] = resolved(renamed.members[memberOutput]); older[memberOutput] == nil {
			delete(older, memberOutput)
		}
		renamed.older = older.shown(name)
	}
	return &renamed
}

// resolved returns the schema that an output schema refers to, if its type is object, and otherwise nil. Clients of
// protocols before 2026-07-28 refuse a whole list that contains any other output schema.
func resolved(schema any) any {
	text, _ := schema.(jsontext.Value)
	if sub, err := jsonschema.Sub(text, ""); err == nil && topOf(sub).is("object") {
		return jsontext.Value(sub)
	}
	return nil
}

// shown returns the JSON of an entry, with the name first.
func (e entry) shown(name string) jsontext.Value {
	text := encoded(map[string]any{memberName: name})
	if len(e) == 0 {
		return jsontext.Value(text)
	}
	return slices.Concat(jsontext.Value(text[:len(text)-1]), jsontext.Value(","), jsontext.Value(encoded(e)[1:]))
}

// shownTo returns the entry for clients of a protocol.
func (d *Definition) shownTo(protocol string) jsontext.Value {
	if protocol >= modern {
		return d.Shown
	}
	return d.older
}

// top holds members at the top of a schema.
type top struct {
	Type    any    `json:"type"`
	Comment string `json:"$comment"`
}

func topOf(schema []byte) (t top) {
	_ = json.Unmarshal(schema, &t) // the schemas true and false have no members
	return t
}

func (t top) is(name string) bool { return t.Type == name }

// Members that hold a value which is not an object, where MCP requires an object.
const (
	input         = "input"  // of arguments
	memberWrapped = "output" // of structured content, before 2026-07-28
)

// alone returns a schema without references to URLs. A schema that refers to another document, which no dispatcher of
// this build sends, becomes {}.
func alone(schema jsontext.Value) jsontext.Value {
	if !bytes.Contains(schema, []byte(`ef"`)) { // $ref and $dynamicRef
		return schema
	}
	text, err := jsonschema.Alone(schema)
	if err == nil {
		text, err = jsonschema.Sub(text, "") // resolve a $ref at the top, so that the type is there
	}
	if err != nil {
		return jsontext.Value("{}")
	}
	return text
}

// arguments returns the schema of the arguments, which must be an object in MCP, for inputs with the schema request.
// loose means that the input becomes the member input.
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

// wrappedOutput returns the output schema for protocols before 2026-07-28, which require an object.
func wrappedOutput(schema any) any {
	if text, ok := schema.(json.RawMessage); ok {
		return within(memberWrapped, text)
	}
	return schema
}

// within returns the schema of an object whose only member is member, with the schema of.
func within(member string, schema json.RawMessage) json.RawMessage {
	placed, err := jsonschema.Placed(schema, "/properties/"+member)
	if err != nil { // impossible: it was parsed before
		placed = []byte("true")
	}
	return encoded(map[string]any{
		"type": "object", "properties": map[string]any{member: json.RawMessage(placed)}, "required": []string{member},
		"additionalProperties": false,
	})
}

// encoded returns v as JSON. v must be encodable.
func encoded(v any) json.RawMessage {
	text, _ := json.Marshal(v) // never fails
	return text
}

// modern is the first protocol version without sessions.
const modern = "2026-07-28"
