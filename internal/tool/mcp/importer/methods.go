package importer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// methodsName is the last part of the id of the tool that has the methods of a server.
const methodsName = "protocol"

// methodsWhy is the reason for the class of that tool.
const methodsWhy = "resources, prompts and completions of the server are read only"

// methods writes the tool whose functions are the methods of the server for resources, prompts and completions.
func (w *writer) methods(all []client.Method) Tool {
	out := Tool{Name: methodsName, State: Same, Class: call.Idempotent}
	if m := w.known[""]; m != nil {
		out.ID, out.Class = m.ToolID, m.Class
		for _, method := range all {
			if m.Functions[method.Function()] == nil {
				out.Notes = append(out.Notes, fmt.Sprintf("the server has %s by now: remove the folder of the tool, and "+
					"import the server again", method))
			}
		}
		return out
	}
	id := idOf(w.server.Name, methodsName, w.taken)
	files, notes, err := w.methodFiles(id, all)
	if err == nil {
		err = install(w.o.Dir, id, files)
	}
	if err != nil {
		return Tool{Name: methodsName, State: LeftOut, Why: oneLine(err.Error())}
	}
	w.ids[id] = true
	out.ID, out.State, out.Why, out.Notes = id, Added, methodsWhy, notes
	return out
}

// methodFiles returns the files of that tool by name.
func (w *writer) methodFiles(id string, all []client.Method) (map[string][]byte, []string, error) {
	s := source{
		id: id, server: w.server, about: w.about, version: w.version, owner: w.o.Owner, pool: w.o.Pool,
		timeout: w.o.Timeout,
	}
	listed := envelope.Listed{Server: s.server, Methods: true}
	var notes []string
	if cut := ijson.Clip(listed.Server.Instructions, maxInstructions); cut != listed.Server.Instructions {
		listed.Server.Instructions = cut
		notes = []string{fmt.Sprintf("the server's instructions are cut at %d bytes", maxInstructions)}
	}
	raw, err := json.Marshal(listed)
	if err != nil {
		return nil, nil, err
	}
	text, err := tool.MarshalYAML(s.methodManifest(all), yaml.IndentSequence(false))
	if err != nil {
		return nil, nil, err
	}
	files := map[string][]byte{
		manifestFile: append([]byte(s.methodHead()), text...), responseFile: pretty(jsontext.Value(`{"type":"object"}`)),
		listedFile: []byte(visible(string(pretty(raw)))),
	}
	for _, m := range all {
		files[methodFile(m)] = pretty(jsontext.Value(parameters(m)))
	}
	return files, notes, nil
}

// methodFile returns the name of the file with the schema of the parameters of a method.
func methodFile(m client.Method) string { return "schema/" + m.Function() + ".json" }

// methodHead returns the comment at the beginning of the manifest.
func (s source) methodHead() string {
	return fmt.Sprintf("# Written by `toolbus tools import-mcp` from %s.\n"+
		"# Each function is the MCP method with its name, with _ for /. The gateway serves resources, prompts and\n"+
		"# completions with calls of them, and does not list them as tools.\n", visible(oneLine(s.about)))
}

func (s source) methodManifest(all []client.Method) yaml.MapSlice {
	functions := make(yaml.MapSlice, len(all))
	for i, m := range all {
		functions[i] = yaml.MapItem{Key: m.Function(), Value: yaml.MapSlice{
			{Key: "description", Value: fmt.Sprintf("%s of the MCP server.", m)},
			{Key: "request", Value: methodFile(m)}, {Key: "response", Value: responseFile},
		}}
	}
	of := yaml.MapSlice{
		{Key: "tool_id", Value: s.id},
		{Key: "semver", Value: s.version},
		{Key: "owner", Value: s.owner},
		{Key: "title", Value: "Resources and prompts of " + s.server.Name},
		{Key: "description", Value: fmt.Sprintf("The MCP server %s itself: its resources, prompts and completions.",
			s.server.Name)},
		{Key: "tags", Value: []string{"mcp", s.server.Name}},
		{Key: "determinism", Value: string(call.Idempotent)},
		{Key: "read_only", Value: true},
		{Key: "listed", Value: listedFile},
	}
	if slices.Contains(all, client.ResourcesSubscribe) { // it tells of updates while it runs
		of = append(of, yaml.MapItem{Key: "capabilities", Value: s.capabilities()})
	}
	if s.pool != "" {
		of = append(of, yaml.MapItem{Key: "pool", Value: s.pool})
	}
	return append(of,
		yaml.MapItem{Key: "transport", Value: mcp.Transport},
		yaml.MapItem{Key: "endpoint", Value: yaml.MapSlice{
			{Key: "server", Value: s.server.Name}, {Key: "methods", Value: true},
		}},
		yaml.MapItem{Key: "functions", Value: functions},
		yaml.MapItem{Key: "limits", Value: s.limits()},
		yaml.MapItem{Key: "retention_s", Value: methodRetention},
	)
}

// methodRetention is the time in seconds for which outcomes of methods are kept. Clients do not ask for them again.
const methodRetention = 3600

// parameters returns the schema of the parameters of a method, without _meta. It has no formats: servers have
// addresses of their own.
func parameters(m client.Method) string {
	object := func(required string, properties ...string) string {
		return `{"type":"object","required":[` + required + `],"additionalProperties":false,"properties":{` +
			strings.Join(properties, ",") + `}}`
	}
	const text, texts = `{"type":"string"}`, `{"type":"object","additionalProperties":{"type":"string"}}`
	switch m {
	case client.ResourcesRead:
		return object(`"uri"`, `"uri":`+text)
	case client.ResourcesSubscribe:
		return object(`"uris"`, fmt.Sprintf(`"uris":{"type":"array","minItems":1,"maxItems":%d,"items":%s}`,
			client.MaxSubscriptions, text))
	case client.PromptsGet:
		return object(`"name"`, `"name":`+text, `"arguments":`+texts)
	case client.Complete:
		return object(`"ref","argument"`,
			`"ref":`+object(`"type"`, `"type":{"enum":["ref/prompt","ref/resource"]}`, `"name":`+text, `"uri":`+text),
			`"argument":`+object(`"name","value"`, `"name":`+text, `"value":`+text),
			`"context":`+object(``, `"arguments":`+texts))
	}
	return object(``, `"cursor":`+text)
}
