package importer

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/Masterminds/semver/v3"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// Files in the folder of a tool.
const (
	manifestFile = "tool.yaml"
	requestFile  = "schema/request.json"
	responseFile = "schema/response.json"
	outputFile   = "schema/output.json" // the server's schema of structuredContent
	listedFile   = "listed.json"        // an envelope.Listed
)

// fn is the name of the only function of a tool.
const fn = "run"

// maxTimeout is the timeout of calls without Options.Timeout, and the largest one. Progress does not extend it.
const maxTimeout = 10 * time.Minute

// maxID is the largest length of a tool id, in bytes.
const maxID = 128

// idOf returns the id of a new tool of a server: mcp::<server>::<tool> in lower case (002 §Canonical fields), with -
// for each character that an id cannot contain. If the id is too long or taken, it ends with a digest of the name.
func idOf(server, name string, taken func(id string) bool) string {
	valid := func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '-'
	}
	id := "mcp::" + server + "::" + strings.Map(valid, strings.ToLower(name))
	if len(id) > maxID || taken(id) {
		id = envelope.ShortenName(id, maxID, "-", server, name)
	}
	return id
}

// mcpNameOf returns the MCP name of a new tool of a server. It keeps upper and lower case.
func mcpNameOf(server, name string, taken map[string]bool) string {
	short := envelope.PlainFunctionName(server + "_" + name)
	if len(short) > envelope.MaxFunctionName || taken[short] {
		short = envelope.ShortenName(short, envelope.MaxFunctionName, "_", server, name)
	}
	return short
}

// annotations are the hints of a server. The zero value means the same as missing hints.
type annotations struct {
	Title       string `json:"title"`
	ReadOnly    bool   `json:"readOnlyHint"`
	Idempotent  bool   `json:"idempotentHint"`
	Destructive *bool  `json:"destructiveHint"`
}

func hints(t client.Tool) (a annotations) {
	if json.Unmarshal(t.Annotations, &a) != nil {
		return annotations{}
	}
	return a
}

// proposed returns the effect class that a server proposes for its tool, and the reason.
func proposed(t client.Tool) (class call.EffectClass, why string) {
	switch a := hints(t); {
	case a.ReadOnly && a.Destructive != nil && *a.Destructive:
		return call.SideEffectful,
			"the server contradicts itself: the tool changes nothing (readOnlyHint) and destroys (destructiveHint)"
	case a.ReadOnly:
		return call.Idempotent, "the server says that it changes nothing (readOnlyHint)"
	case a.Idempotent:
		return call.Idempotent, "the server says that repeating it changes nothing more (idempotentHint)"
	}
	return call.SideEffectful, "the server says nothing that would make a repetition safe"
}

// reads reports whether the server says of its tool that it changes nothing, and does not contradict itself.
func reads(t client.Tool) bool {
	class, _ := proposed(t)
	return hints(t).ReadOnly && class == call.Idempotent
}

// version returns the version of a tool, given the version of its server.
func version(of string) string {
	if v, err := semver.StrictNewVersion(of); err == nil && len(of) <= 64 {
		return v.String()
	}
	return "0.1.0"
}

// source holds everything from which the files of a tool are made.
type source struct {
	id      string
	name    string // MCP name
	server  envelope.ServerInfo
	about   string // name and version that the server reports
	release string // version that the server reports, as of call.PlainVersion
	version string // of the tool
	owner   string
	pool    string
	class   call.EffectClass
	tool    client.Tool
	timeout time.Duration // see Options.Timeout
	folders []string      // that the tool may open
}

// files returns the files of the tool's folder by name, and notes about parts of the definition that are not checked or
// not shown.
func (s source) files() (map[string][]byte, []string, error) {
	definition, err := mcp.Definition(s.tool)
	if err != nil {
		return nil, nil, err
	}
	input, err := share(inputSchema, requestSchema(s.tool))
	if err != nil {
		return nil, nil, err
	}
	if input.shown, err = object(input.shown); err != nil {
		return nil, nil, err
	}
	if err := input.sanitize(inputSchema); err != nil {
		return nil, nil, err
	}
	shown := map[string]jsontext.Value{"inputSchema": input.shown}
	text, err := tool.MarshalYAML(s.manifest(mcp.Digest(definition)), yaml.IndentSequence(false))
	if err != nil {
		return nil, nil, err
	}
	files := map[string][]byte{
		manifestFile: append([]byte(s.head()), text...), requestFile: pretty(input.checked),
		mcp.DefinitionFile: []byte(visible(string(pretty(definition)))),
	}
	notes := input.notes
	if s.tool.OutputSchema != nil {
		output, checked, err := outputOf(s.tool)
		if err != nil { // results need no schema
			s.tool.OutputSchema = nil
			notes = append(notes, oneLine(err.Error())+": the tool has no output schema")
		} else {
			files[outputFile], shown["outputSchema"], notes = checked, output.shown, append(notes, output.notes...)
		}
	}
	if files[responseFile], err = responseSchema(s.tool); err != nil {
		return nil, nil, err
	}
	listed, more, err := s.listed(shown)
	files[listedFile] = listed
	return files, append(notes, more...), err
}

// outputOf returns the output schema of a tool, and the file with the form that results are checked with.
func outputOf(t client.Tool) (output shared, file []byte, err error) {
	if output, err = share(outputSchema, t.OutputSchema); err == nil {
		file, err = bare(output.checked)
	}
	return output, file, err
}

// head returns the comment at the beginning of the manifest.
func (s source) head() string {
	return fmt.Sprintf("# Written by `toolbus tools import-mcp` from %s.\n"+
		"# The class, limits and errors are yours to correct; endpoint.definition is the digest of\n"+
		"# definition.json, which `toolbus tools approve` keeps. Clients are shown listed.json.\n", visible(oneLine(s.about)))
}

// Limits of the file listed.json, in bytes.
const (
	maxListed       = 256 << 10
	maxInstructions = 32 << 10
)

// listed returns the file listed.json: the tool as its server lists it, with the schemas that clients get.
func (s source) listed(schemas map[string]jsontext.Value) (text []byte, notes []string, err error) {
	members := map[string]jsontext.Value{}
	if err := json.Unmarshal(s.tool.Raw, &members); err != nil {
		return nil, nil, err
	}
	maps.Copy(members, schemas)
	if s.tool.OutputSchema == nil {
		delete(members, "outputSchema") // the server may have written null, which clients refuse
	}
	server := s.server
	if cut := ijson.Clip(server.Instructions, maxInstructions); cut != server.Instructions {
		server.Instructions = cut
		notes = append(notes, fmt.Sprintf("the server's instructions are cut at %d bytes", maxInstructions))
	}
	for _, large := range []string{"icons", "_meta"} {
		if len(s.tool.Raw) > maxListed && members[large] != nil {
			delete(members, large)
			notes = append(notes, fmt.Sprintf("its %s are not shown: the definition is over %d bytes", large, maxListed))
		}
	}
	tool, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return nil, nil, err
	}
	tool = ijson.WithoutHuge(tool, func(at jsontext.Pointer) {
		notes = append(notes, fmt.Sprintf("%s is not shown: no double holds its number", at))
	})
	raw, err := json.Marshal(envelope.Listed{Server: server, Tool: tool})
	return []byte(visible(string(pretty(raw)))), notes, err
}

// told returns a text from a server as a YAML value. It quotes a text that YAML would change or that contains invisible
// characters.
func told(text string) any {
	if !strings.HasPrefix(text, "?") && strings.IndexFunc(text, hidden) < 0 {
		return text
	}
	return quoted(text)
}

type quoted string

// MarshalYAML implements [yaml.BytesMarshaler].
func (q quoted) MarshalYAML() ([]byte, error) { return []byte(strconv.Quote(string(q))), nil }

// hidden reports whether a character controls a terminal or is invisible there.
func hidden(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }

// visible escapes all invisible characters in a JSON text, so that an operator overlooks no part of a definition.
func visible(text string) string {
	var out strings.Builder
	for _, r := range text {
		switch high, low := utf16.EncodeRune(r); {
		case !hidden(r):
			out.WriteRune(r)
		case high == unicode.ReplacementChar:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		}
	}
	return out.String()
}

// described returns the description of a server's tool, or a default.
func described(server string, t client.Tool) string {
	return cmp.Or(strings.TrimSpace(t.Description), envelope.MCPUndescribed(server, t.Name))
}

func (s source) manifest(digest string) yaml.MapSlice {
	description := described(s.server.Name, s.tool)
	of := yaml.MapSlice{
		{Key: "tool_id", Value: s.id},
		{Key: "mcp_name", Value: s.name},
		{Key: "semver", Value: s.version},
		{Key: "owner", Value: s.owner},
		{Key: "title", Value: told(cmp.Or(s.tool.Title, hints(s.tool).Title, s.tool.Name))},
		{Key: "description", Value: told(description)},
		{Key: "tags", Value: []string{"mcp", s.server.Name}},
		{Key: "determinism", Value: string(s.class)},
		{Key: "listed", Value: listedFile},
	}
	if s.release != "" {
		of = append(of, yaml.MapItem{Key: "server_version", Value: quoted(s.release)})
	}
	if reads(s.tool) {
		of = append(of, yaml.MapItem{Key: "read_only", Value: true})
	}
	if s.pool != "" {
		of = append(of, yaml.MapItem{Key: "pool", Value: s.pool})
	}
	return append(of,
		yaml.MapItem{Key: "transport", Value: mcp.Transport},
		yaml.MapItem{Key: "endpoint", Value: yaml.MapSlice{
			{Key: "server", Value: s.server.Name}, {Key: "tool", Value: told(s.tool.Name)},
			{Key: "output", Value: string(mcp.OutputWhole)}, {Key: "definition", Value: digest},
		}},
		yaml.MapItem{Key: "functions", Value: yaml.MapSlice{{Key: fn, Value: yaml.MapSlice{
			{Key: "description", Value: told(description)},
			{Key: "request", Value: requestFile}, {Key: "response", Value: responseFile},
		}}}},
		yaml.MapItem{Key: "capabilities", Value: s.capabilities()},
		yaml.MapItem{Key: "limits", Value: s.limits()},
	)
}

func (s source) capabilities() yaml.MapSlice {
	all := yaml.MapSlice{{Key: "streaming", Value: true}}
	if len(s.folders) > 0 {
		all = append(all, yaml.MapItem{Key: "fs", Value: s.folders})
	}
	return all
}

// Concurrency is the number of calls of an imported tool that an executor runs at once. Servers bound their work
// themselves, and agents call several tools at once.
const Concurrency = 64

// limits returns the limits of the manifest: the timeouts and the concurrency.
func (s source) limits() yaml.MapSlice {
	within := maxTimeout
	if s.timeout > 0 {
		within = min(maxTimeout, max(time.Millisecond, s.timeout))
	}
	ms := within.Milliseconds()
	return yaml.MapSlice{{Key: "timeout_ms_default", Value: ms}, {Key: "timeout_ms_max", Value: ms},
		{Key: "concurrency_max", Value: Concurrency}}
}

func requestSchema(t client.Tool) jsontext.Value {
	if t.InputSchema == nil {
		return jsontext.Value(`{"type":"object"}`)
	}
	return t.InputSchema
}

// responseSchema returns the schema of whole results. It refers to the server's own schema as a separate document, so
// that the references in that schema stay valid.
func responseSchema(t client.Tool) ([]byte, error) {
	properties := map[string]any{"content": map[string]any{"type": "array", "items": map[string]any{"type": "object"}}}
	required := []string{"content"}
	if t.OutputSchema != nil {
		properties["structuredContent"] = map[string]any{"$ref": "output.json"}
		required = append(required, "structuredContent")
	}
	raw, err := json.Marshal(map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "$comment": envelope.MCPResult, "type": "object",
		"required": required, "properties": properties,
	}, json.Deterministic(true))
	return pretty(raw), err
}

// bare returns a schema without its $id, so that it has the address of its file. It converts draft-04 to 2020-12,
// because draft-04 cannot be the target of a reference from another dialect.
func bare(of jsontext.Value) ([]byte, error) {
	v, err := jsonschema.Decode(of)
	if err != nil {
		return nil, err
	}
	if members, ok := v.(map[string]any); ok {
		delete(members, "$id")
		if dialect, _ := members["$schema"].(string); strings.Contains(dialect, "draft-04") {
			jsonschema.Modernize(v)
		}
	}
	return pretty(compact(v)), nil
}

// pretty returns v with indentation.
func pretty(v jsontext.Value) []byte {
	out := v.Clone()
	if out.Indent(jsontext.WithIndent("  ")) != nil {
		return v
	}
	return append(bytes.TrimSpace(out), '\n')
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
