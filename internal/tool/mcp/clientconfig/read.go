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

// Server is one server of a configuration.
type Server struct {
	Called  string        // its name in the configuration
	Name    string        // its name among the servers of executors
	Server  client.Server // as executors have it
	Tools   Filter        // tools that the client does not show
	Timeout time.Duration // of a call; 0 if the configuration has none
	Unknown []string      // members that are not understood, sorted
	Off     string        // why the client does not use the server; "" if it does
	Self    bool          // the server is this program
	Err     error         // why executors cannot have the server; it contains no value
}

// Config is the part of a configuration that has servers.
type Config struct {
	Member  []string // path of the object that holds them
	Servers []Server // in the order of the file
	Notes   []string // about servers that are elsewhere in the file
}

// reader translates the servers of one configuration.
type reader struct {
	client  Client
	home    string
	project string // "" if the configuration is for any project
	working string // where servers without a folder of their own run
	file    string
	off     func(called string) string
	hidden  []string // patterns of <server>_<tool>, of opencode
}

// Read reads the servers at a location. A file that does not exist has none.
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
	taken := map[string]string{} // names in the configuration, by name among executors
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

// others returns a note about servers of Claude Code that a file has for single projects.
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

// ServerName returns the name that a server has among executors. It is made of the name in a configuration, or of the
// one that the server gives itself.
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

// absolute returns a path of the configuration; one that is relative is below the folder that servers run in.
func (r reader) absolute(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(r.home, rest)
	}
	if filepath.IsAbs(path) || strings.HasPrefix(path, "${") {
		return path
	}
	return filepath.Join(r.working, path)
}
