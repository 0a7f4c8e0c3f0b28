package clientconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Scope is the set of projects to which a configuration applies.
type Scope string

// The scopes.
const (
	User    Scope = "user"    // all projects of the user
	Project Scope = "project" // one project, in a file that its members share
	Local   Scope = "local"   // one project of the user, in the user's own file; only Claude Code has it
)

// Form is the form of an entry that starts a server.
type Form int

// The forms.
const (
	Typed    Form = iota // command, args and type: stdio
	Plain                // command and args
	OpenCode             // type: local and command, a list with the arguments
	TOML                 // a table of config.toml, which this package neither reads nor edits
)

// Client is a known MCP client. The zero value stands for an unknown one.
type Client struct {
	Name string
	Docs string // address of the client's documentation of its configuration
	Form Form

	seconds bool // the member timeout is in seconds, otherwise in milliseconds
	dollars bool // $NAME is a reference to a variable, too
	braces  bool // {env:NAME} and {file:PATH} are references
	// timeout is the member timeout of Toolbus's entry, in the client's unit; 0 leaves it out. It is set for clients that
	// end calls earlier than Toolbus does.
	timeout int
	files   []file
}

// file is one file in which a client keeps servers.
type file struct {
	scope Scope
	at    place
	path  []string   // path below the place
	in    [][]string // paths of members that may hold servers; the first existing one is used, else the last
}

// place is a kind of folder in which clients keep files.
type place int

const (
	elsewhere place = iota // At recognizes the file; Locate does not return it
	home
	settings // settings of applications; the folder depends on the system
	xdg      // XDG_CONFIG_HOME
	folder   // folder of the project
)

// Paths of members that hold servers.
var (
	mcpServers  = [][]string{{"mcpServers"}}
	servers     = [][]string{{"servers"}}
	contextOnes = [][]string{{"context_servers"}}
	opencode    = [][]string{{"mcp", "servers"}, {"mcp"}} // version 2, then version 1
)

// Clients returns the known clients, sorted by name.
func Clients() []Client {
	return []Client{
		{Name: "claude-code", Docs: "https://code.claude.com/docs/en/mcp", files: []file{
			{User, home, []string{".claude.json"}, mcpServers}, {Local, home, []string{".claude.json"}, nil},
			{Project, folder, []string{".mcp.json"}, mcpServers},
		}},
		{Name: "claude-desktop", Docs: "https://modelcontextprotocol.io/docs/develop/connect-local-servers", Form: Plain,
			files: []file{{User, settings, []string{"Claude", "claude_desktop_config.json"}, mcpServers}}},
		{Name: "codex", Docs: "https://developers.openai.com/codex/mcp", Form: TOML, files: []file{
			{User, home, []string{".codex", "config.toml"}, nil}, {Project, folder, []string{".codex", "config.toml"}, nil},
		}},
		{Name: "cursor", Docs: "https://cursor.com/docs/mcp", files: []file{
			{User, home, []string{".cursor", "mcp.json"}, mcpServers},
			{Project, folder, []string{".cursor", "mcp.json"}, mcpServers},
		}},
		{Name: "gemini-cli", Docs: "https://geminicli.com/docs/tools/mcp-server", Form: Plain, dollars: true, files: []file{
			{User, home, []string{".gemini", "settings.json"}, mcpServers},
			{Project, folder, []string{".gemini", "settings.json"}, mcpServers},
		}},
		{Name: "opencode", Docs: "https://opencode.ai/docs/mcp-servers", Form: OpenCode, braces: true, timeout: 600_000,
			files: []file{
				{User, xdg, []string{"opencode", "opencode.jsonc"}, opencode},
				{User, xdg, []string{"opencode", "opencode.json"}, opencode},
				{Project, folder, []string{"opencode.jsonc"}, opencode}, {Project, folder, []string{"opencode.json"}, opencode},
			}},
		{Name: "vscode", Docs: "https://code.visualstudio.com/docs/copilot/reference/mcp-configuration", files: []file{
			{User, settings, []string{"Code", "User", "mcp.json"}, servers},
			{Project, folder, []string{".vscode", "mcp.json"}, servers},
			{Project, elsewhere, []string{".vscode", "settings.json"}, [][]string{{"mcp", "servers"}}},
			{User, elsewhere, []string{"Code", "User", "settings.json"}, [][]string{{"mcp", "servers"}}},
		}},
		{Name: "windsurf", Docs: "https://docs.windsurf.com/windsurf/cascade/mcp", Form: Plain, files: []file{
			{User, home, []string{".codeium", "windsurf", "mcp_config.json"}, mcpServers},
		}},
		{Name: "zed", Docs: "https://zed.dev/docs/ai/mcp", Form: Plain, seconds: true, timeout: 600, files: []file{
			{User, xdg, []string{"zed", "settings.json"}, contextOnes},
		}},
	}
}

// kin returns clients without a name that matter only for the unit of their timeout.
func kin() []Client {
	return []Client{
		{Docs: "https://docs.cline.bot/mcp/configuring-mcp-servers", seconds: true, files: []file{
			{User, elsewhere, []string{"cline_mcp_settings.json"}, mcpServers},
		}},
		{Docs: "https://docs.roocode.com/features/mcp/using-mcp-in-roo", seconds: true, files: []file{
			{User, elsewhere, []string{"mcp_settings.json"}, mcpServers},
			{Project, elsewhere, []string{".roo", "mcp.json"}, mcpServers},
		}},
	}
}

// Names returns the names of all known clients.
func Names() string {
	var all []string
	for _, c := range Clients() {
		all = append(all, c.Name)
	}
	return strings.Join(all, ", ")
}

// Places are the folders in which clients keep their files.
type Places struct {
	Home    string
	Config  string // XDG_CONFIG_HOME, or .config in Home
	Project string // folder of the project: the working directory of the command
}

func (p Places) folder(at place) string {
	switch {
	case at == folder:
		return p.Project
	case at == xdg, at == settings && runtime.GOOS != "darwin":
		return p.Config
	case at == settings:
		return filepath.Join(p.Home, "Library", "Application Support")
	}
	return p.Home
}

// Location is an object in a file that holds the servers of a client.
type Location struct {
	Client  Client
	Scope   Scope
	File    string
	Project string // folder of the project, absolute; "" for [User]
	in      [][]string
}

// Locate returns the location of the servers of a client in a scope. It resolves symbolic links.
func Locate(name string, scope Scope, p Places) (Location, error) {
	all := Clients()
	i := slices.IndexFunc(all, func(c Client) bool { return c.Name == name })
	if i < 0 {
		return Location{}, fmt.Errorf("there is no client %q; known clients: %s. Name the file of any other with --config",
			name, Names())
	}
	var first *Location
	for _, f := range all[i].files {
		if f.scope != scope || f.at == elsewhere {
			continue
		}
		path := filepath.Join(append([]string{p.folder(f.at)}, f.path...)...)
		at := Location{Client: all[i], Scope: scope, File: followed(path), in: f.in}
		if scope != User {
			at.Project = p.Project
		}
		if scope == Local {
			at.in = [][]string{{"projects", p.Project, "mcpServers"}}
		}
		if _, err := os.Lstat(path); err == nil {
			return at, nil
		}
		first = &at // a new file gets the last of several names
	}
	if first == nil {
		return Location{}, fmt.Errorf("%s has no configuration of scope %q", name, scope)
	}
	return *first, nil
}

// At returns the location of the servers in a file. It recognizes a known client by the end of the path. It resolves
// symbolic links.
func At(path string, p Places) (Location, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return Location{}, err
	}
	for _, c := range append(Clients(), kin()...) {
		for _, f := range c.files {
			below := string(filepath.Separator) + filepath.Join(f.path...)
			if f.scope == Local || !strings.HasSuffix(abs, below) {
				continue
			}
			at := Location{Client: c, Scope: f.scope, File: followed(path), in: f.in}
			root := strings.TrimSuffix(abs, below)
			if f.scope == User && f.at == home && root != p.Home {
				continue // a file of a project, which may have the same name
			}
			if f.scope == Project {
				at.Project = root
			}
			return at, nil
		}
	}
	at := Location{File: followed(path), Scope: User}
	if strings.EqualFold(filepath.Ext(abs), ".toml") {
		at.Client = Client{Name: "TOML", Form: TOML}
	}
	return at, nil
}

// followed resolves symbolic links in a path. If the file does not exist, it returns the path unchanged.
func followed(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}
