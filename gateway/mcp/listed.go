package mcp

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// likeListed makes the entry from that of the tool's MCP server, with all its members. If an operator has changed the
// title or description in the manifest, the manifest wins. Annotations stay as the server sent them; the effect that
// the manifest declares is in _meta.
func (d *Definition) likeListed(t envelope.ToolInfo) {
	fn, _ := t.Function(d.Fn)
	d.server, d.results = &t.Listed.Server, topOf(fn.Response).Comment == envelope.MCPResult
	d.members = entry{}
	var listed map[string]jsontext.Value
	if json.Unmarshal(t.Listed.Tool, &listed) == nil {
		for name, value := range listed {
			d.members[name] = value
		}
	}
	var server struct {
		Name, Title, Description string
		Annotations              struct{ Title string }
	}
	_ = json.Unmarshal(t.Listed.Tool, &server) // a member with another type stays as the server wrote it
	delete(d.members, memberName)
	if title := cmp.Or(server.Title, server.Annotations.Title, server.Name); t.Title != title {
		d.members[memberTitle] = t.Title
	}
	description := cmp.Or(strings.TrimSpace(server.Description),
		envelope.MCPUndescribed(t.Listed.Server.Name, server.Name))
	if edited := strings.TrimSpace(t.Description); edited != description {
		d.members[memberDescription] = edited
	}
	d.title, d.description = t.Title, strings.TrimSpace(t.Description)
	d.arguments, _ = arguments(jsontext.Value(cmp.Or(string(listed[memberInput]), `{"type":"object"}`)))
	d.members[memberInput] = d.arguments
	d.unfit = listed[memberOutput] != nil && !topOf(listed[memberOutput]).is("object")
}

// instructions returns the instructions of all MCP servers of the view, each below the name of its server.
func (v *view) instructions() string {
	servers := map[string]string{}
	add := func(all []*Definition) {
		for _, d := range all {
			if s := d.server; s != nil && s.Instructions != "" {
				servers[s.Name] = s.Instructions
			}
		}
	}
	for _, all := range v.methods {
		add(all)
	}
	add(v.sorted)
	var all []string
	for name, text := range servers {
		all = append(all, "# "+name+"\n\n"+text)
	}
	slices.Sort(all)
	return strings.Join(all, "\n\n")
}
