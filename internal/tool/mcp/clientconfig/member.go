package clientconfig

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// unknown returns the paths of members that may hold the servers of an unknown client.
func unknown() [][]string {
	return [][]string{
		{"mcpServers"}, {"servers"}, {"context_servers"}, {"amp.mcpServers"},
		{"mcp", "servers"}, {"mcp", "mcpServers"}, {"mcp", "context_servers"}, {"mcp"},
	}
}

// member returns the path of the object that holds the servers in a text. If there is none, it returns the path where
// the client would look for it.
func (l Location) member(text []byte) (path []string, err error) {
	if l.Client.Form == TOML {
		return nil, fmt.Errorf("%s is TOML, which is neither read nor changed here", l.File)
	}
	plain := blanked(orEmpty(text))
	candidates := l.in
	if candidates == nil {
		candidates = unknown()
	}
	var all [][]string
	for _, path := range candidates {
		o, _, there, err := walk(plain, path)
		if err != nil {
			return nil, err
		}
		if there && holds(plain, o, path, l.in != nil) && !(len(all) > 0 && len(path) < len(all[0])) {
			all = append(all, path)
		}
	}
	switch {
	case len(all) == 1, len(all) > 0 && l.in != nil:
		return all[0], nil
	case len(all) > 1:
		return nil, fmt.Errorf("it has both %s and %s: leave one of them", dotted(all[0]), dotted(all[1]))
	case l.in != nil:
		return l.in[len(l.in)-1], nil
	}
	if o, err := top(plain); err != nil || len(o.members) == 0 {
		return []string{"mcpServers"}, err
	}
	return nil, errors.New("no member that holds servers is in it, such as mcpServers: add an empty one where its " +
		"client looks for it, or name the client with --client")
}

// holds reports whether an object can hold servers. A member mcp may have another purpose, and a server of opencode may
// have the name servers.
func holds(plain []byte, o object, path []string, known bool) bool {
	isServer := func(o object) bool {
		return slices.ContainsFunc(o.members, func(m span) bool {
			return slices.Contains([]string{"type", "command", "url"}, m.name) && plain[m.value] != '{'
		})
	}
	switch {
	case len(path) == 2 && path[0] == "mcp":
		return !isServer(o)
	case known || path[0] != "mcp":
		return true
	}
	return len(o.members) > 0 && !slices.ContainsFunc(o.members, func(m span) bool {
		if plain[m.value] != '{' {
			return true
		}
		one, _, err := objectAt(plain, m.value)
		return err != nil || !isServer(one)
	})
}

// dotted returns a path of members for messages.
func dotted(path []string) string { return strings.Join(path, ".") }

// version2 reports whether path is that of the servers of opencode 2, whose entries differ from those of opencode 1.
func (l Location) version2(path []string) bool { return l.Client.Form == OpenCode && len(path) == 2 }

// isToolbus reports whether a server's command is toolbus.
func isToolbus(raw jsontext.Value) bool { return filepath.Base(commandOf(raw)) == Toolbus }

// commandOf returns the command of a server, or "" if it has none.
func commandOf(raw jsontext.Value) string {
	var e struct {
		Command jsontext.Value `json:"command"`
	}
	if json.Unmarshal(raw, &e) != nil || e.Command == nil {
		return ""
	}
	var all []string
	if e.Command.Kind() != '[' {
		e.Command = slices.Concat(jsontext.Value("["), e.Command, jsontext.Value("]"))
	}
	if json.Unmarshal(e.Command, &all) != nil || len(all) == 0 {
		return ""
	}
	return all[0]
}
