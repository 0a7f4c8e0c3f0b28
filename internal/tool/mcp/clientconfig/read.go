package clientconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// maxConfig is the largest configuration, in bytes.
const maxConfig = 16 << 20

// Server is one server in a configuration.
type Server struct {
	Called  string        // name in the configuration
	Name    string        // name among the servers of executors
	Server  client.Server // server in the form of executors
	Tools   Filter        // selects the tools that the client shows
	Timeout time.Duration // timeout of a call; 0 if the configuration has none
	Unknown []string      // sorted members that this package does not know
	Off     string        // why the client does not use the server; "" if it does
	Self    bool          // the server is this program
	Err     error         // why executors cannot use the server; contains no value
}

// Config holds the servers of a configuration.
type Config struct {
	Member  []string // path of the object that holds them
	Servers []Server // in the order of the file
	Notes   []string // about settings and servers elsewhere in the file
}

// reader translates the servers of one configuration.
type reader struct {
	client  Client
	home    string
	project string // "" if the configuration is for any project
	working string // folder in which servers without cwd run
	file    string
	off     func(called string) string
	hidden  []string // opencode's patterns for <server>_<tool> of hidden tools
}

// Read reads the servers at a location. If the file does not exist, the result has no servers.
func Read(l Location, p Places) (Config, error) {
	text, err := content(l.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Config{}, err
	}
	path, err := l.member(text)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", l.File, err)
	}
	plain := blanked(orEmpty(text))
	o, _, found, err := walk(plain, path)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", l.File, err)
	}
	c := Config{Member: path, Notes: l.others(plain)}
	r := reader{client: l.Client, home: p.Home, project: l.Project, working: p.Project, file: l.File}
	if l.Project != "" {
		r.working = l.Project
	}
	r.settings(plain)
	if why := r.off(Toolbus); why != "" {
		c.Notes = append(c.Notes, fmt.Sprintf("in %s, %s: the client does not start %s", l.File, why, Toolbus))
	}
	if !found {
		return c, nil
	}
	taken := map[string]string{} // names in the configuration, by the name among executors
	for _, m := range o.members {
		s := r.server(m.name, jsontext.Value(plain[m.value:m.end]))
		if other, double := taken[s.Name]; double && s.Err == nil && s.Off == "" {
			s.Err = fmt.Errorf("%q has that name, too: give one of them another in the configuration", other)
		}
		if s.Err == nil && s.Off == "" {
			taken[s.Name] = m.name
		}
		c.Servers = append(c.Servers, s)
	}
	return c, nil
}

// content returns the text of a configuration.
func content(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxConfig {
		return nil, fmt.Errorf("%s is no file of at most %d bytes", file, maxConfig)
	}
	return os.ReadFile(file)
}

// others returns notes about servers that a file of Claude Code defines for single projects.
func (l Location) others(plain []byte) []string {
	if l.Client.Name != "claude-code" || l.Scope != User {
		return nil
	}
	projects, _, found, err := walk(plain, []string{"projects"})
	if err != nil || !found {
		return nil
	}
	var notes []string
	for _, p := range projects.members {
		o, _, found, err := walk(plain, []string{"projects", p.name, "mcpServers"})
		if err == nil && found && len(o.members) > 0 {
			notes = append(notes, fmt.Sprintf("%s has %d servers for %s alone: --client claude-code --scope local, run there",
				l.File, len(o.members), p.name))
		}
	}
	return notes
}

// ServerName returns the name of a server among executors. called is its name in a configuration, or the name that the
// server reports.
func ServerName(called string) (string, error) {
	name := strings.ToLower(called[strings.LastIndexByte(called, '/')+1:])
	name = regexp.MustCompile(`[^a-z0-9_-]+`).ReplaceAllString(name, "-")
	name = strings.TrimSuffix(strings.TrimSuffix(name, "-server"), "-mcp")
	name = strings.TrimPrefix(strings.TrimPrefix(name, "mcp-"), "server-")
	name = strings.Trim(name, "-_")
	if name == "" || len(name) > 64 {
		return "", fmt.Errorf("%.80q makes no name of a server: give one with --name", called)
	}
	return name, nil
}

// absolute returns a path of the configuration as an absolute path. A relative path is relative to the folder in which
// servers run.
func (r reader) absolute(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(r.home, rest)
	}
	if filepath.IsAbs(path) || strings.HasPrefix(path, "${") {
		return path
	}
	return filepath.Join(r.working, path)
}
