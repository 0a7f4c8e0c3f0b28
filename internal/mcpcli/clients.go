package mcpcli

import (
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/seed-018f16cc/toolbus/internal/cli"
)

// client is an agent on a desktop or in an editor, and where it keeps which MCP servers it has.
type client struct {
	name, key string
	file      []string // below a place, and that
	at        place
}

// place is where files of agents are.
type place int

const (
	home     place = iota + 1
	settings       // of applications, which each system keeps elsewhere
	config         // of the user
)

// clients are those that are known by name.
func clients() []client {
	return []client{
		{"claude-code", "mcpServers", []string{".claude.json"}, home},
		{"claude-desktop", "mcpServers", []string{"Claude", "claude_desktop_config.json"}, settings},
		{"cursor", "mcpServers", []string{".cursor", "mcp.json"}, home},
		{"gemini-cli", "mcpServers", []string{".gemini", "settings.json"}, home},
		{"vscode", "servers", []string{"Code", "User", "mcp.json"}, settings},
		{"windsurf", "mcpServers", []string{".codeium", "windsurf", "mcp_config.json"}, home},
		{"zed", "context_servers", []string{"zed", "settings.json"}, config},
	}
}

// names are those of all clients.
func names() string {
	var all []string
	for _, c := range clients() {
		all = append(all, c.name)
	}
	return strings.Join(all, ", ")
}

// clientOf returns the client of a name.
func clientOf(name string) (client, error) {
	all := clients()
	i := slices.IndexFunc(all, func(c client) bool { return c.name == name })
	if i < 0 {
		return client{}, cli.Usagef(
			"there is no client %q; those that are known: %s. Name the file of any other with --config",
			name,
			names(),
		)
	}
	return all[i], nil
}

// path is where the client keeps it.
func (c client) path(env cli.Env) string {
	at := env.Config
	own := variable(env, "HOME")
	switch {
	case c.at == home:
		at = own
	case c.at == settings && runtime.GOOS == "darwin":
		at = filepath.Join(own, "Library", "Application Support")
	}
	return filepath.Join(append([]string{at}, c.file...)...)
}

// variable is one of the environment.
func variable(env cli.Env, name string) (value string) {
	for _, v := range env.Environ {
		if text, ok := strings.CutPrefix(v, name+"="); ok {
			value = text
		}
	}
	return value
}
