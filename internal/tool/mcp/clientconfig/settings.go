package clientconfig

import (
	"regexp"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// settings reads the settings about servers that some clients keep outside of the servers' entries.
func (r *reader) settings(plain []byte) {
	r.off = func(string) string { return "" }
	switch r.client.Name {
	case "gemini-cli":
		r.allowed(plain)
	case "opencode":
		r.shown(plain)
	}
}

// allowed reads the lists mcp.allowed and mcp.excluded of Gemini CLI.
func (r *reader) allowed(plain []byte) {
	var top struct {
		MCP struct {
			Allowed  []string `json:"allowed"`
			Excluded []string `json:"excluded"`
		} `json:"mcp"`
	}
	if json.Unmarshal(plain, &top) != nil {
		return // a member of another type: the client ignores it, too
	}
	r.off = func(called string) string {
		switch {
		case slices.Contains(top.MCP.Excluded, called):
			return "mcp.excluded names it"
		case top.MCP.Allowed != nil && !slices.Contains(top.MCP.Allowed, called):
			return "mcp.allowed does not name it"
		}
		return ""
	}
}

// notWord matches the characters that opencode replaces in names of servers and tools.
var notWord = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// shown reads the objects tools and permission of opencode. They switch tools off by patterns for <server>_<tool>.
func (r *reader) shown(plain []byte) {
	var top struct {
		Tools      map[string]jsontext.Value `json:"tools"`
		Permission jsontext.Value            `json:"permission"` // may be a string that applies to all tools
	}
	if json.Unmarshal(plain, &top) != nil {
		return
	}
	var denied map[string]jsontext.Value
	if top.Permission.Kind() == '{' && json.Unmarshal(top.Permission, &denied) != nil {
		return
	}
	for pattern, on := range top.Tools {
		if on.Kind() == 'f' {
			r.hidden = append(r.hidden, pattern)
		}
	}
	for pattern, what := range denied {
		if string(what) == `"deny"` {
			r.hidden = append(r.hidden, pattern)
		}
	}
}
