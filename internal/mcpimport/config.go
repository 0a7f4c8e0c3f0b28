package mcpimport

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/tool/mcp/upstream"
)

// maxConfig is the largest configuration of an agent, in bytes.
const maxConfig = 16 << 20

// Configured is one server of the configuration of an agent.
type Configured struct {
	Name   string
	Server upstream.Server
	Err    error // why it cannot be imported
}

// entry is a server as agents write it.
type entry struct {
	Command   jsontext.Value    `json:"command"` // a text, a list with the arguments, or an object with path, args and env
	Args      []string          `json:"args"`
	Env       map[string]string `json:"env"`
	CWD       string            `json:"cwd"`
	URL       string            `json:"url"`
	ServerURL string            `json:"serverUrl"`
	HTTPURL   string            `json:"httpUrl"`
	Headers   map[string]string `json:"headers"`
	Type      string            `json:"type"`
}

// disabled reports whether the agent does not use a server, whatever else is written there.
func disabled(raw jsontext.Value) bool {
	var e struct {
		Disabled jsontext.Value `json:"disabled"`
		Enabled  jsontext.Value `json:"enabled"`
	}
	return json.Unmarshal(raw, &e) == nil && (e.Disabled.Kind() == 't' || e.Enabled.Kind() == 'f')
}

// ReadConfig reads the servers of an agent's configuration: JSON, also with comments, in which they are the members of
// mcpServers, servers or context_servers, at the top or below mcp. Those that are disabled are left out.
func ReadConfig(file string) ([]Configured, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxConfig {
		return nil, fmt.Errorf("%s is no file of at most %d bytes", file, maxConfig)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	found, err := serversOf(plainJSON(raw))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var all []Configured
	taken := map[string]string{} // names in the configuration, by name of the server
	for _, called := range slices.Sorted(maps.Keys(found)) {
		if disabled(found[called]) {
			continue
		}
		c := Configured{Name: called}
		if c.Server, c.Err = serverOf(found[called]); c.Err == nil {
			c.Name, c.Err = nameOf(called)
		}
		if other, double := taken[c.Name]; double && c.Err == nil {
			c.Err = fmt.Errorf("%q has that name, too: give one of them another in the configuration", other)
		}
		if c.Err == nil {
			taken[c.Name] = called
		}
		all = append(all, c)
	}
	return all, nil
}

func serverOf(raw jsontext.Value) (upstream.Server, error) {
	var e entry
	if err := json.Unmarshal(raw, &e); err != nil {
		return upstream.Server{}, err
	}
	return e.server()
}

// serversOf finds the servers of a configuration, by name.
func serversOf(raw jsontext.Value) (map[string]jsontext.Value, error) {
	var top map[string]jsontext.Value
	if err := json.Unmarshal(raw, &top); err != nil {
		return nil, err
	}
	found := map[string]jsontext.Value{}
	known := false
	for _, key := range []string{"mcpServers", "servers", "context_servers", "mcp"} {
		under := top[key]
		if under.Kind() != '{' {
			continue
		}
		known = true
		servers, err := map[string]jsontext.Value(nil), error(nil)
		if key == "mcp" {
			servers, err = serversOf(under)
		} else {
			err = json.Unmarshal(under, &servers)
		}
		if err != nil {
			return nil, err
		}
		maps.Copy(found, servers)
	}
	if !known {
		return nil, errors.New("there is no mcpServers, servers or context_servers in it")
	}
	return found, nil
}

// server is the entry as executors have it.
func (e entry) server() (s upstream.Server, err error) {
	if e.Type == "sse" {
		return s, errors.New("it speaks the transport of 2024, sse: look whether it has streamable HTTP, too")
	}
	var command string
	if json.Unmarshal(e.Command, &command) == nil && filepath.Base(command) == "toolbus" {
		return s, errors.New("it is Toolbus itself, whose tools are on the bus already")
	}
	s = upstream.Server{Args: e.Args, Env: e.Env, CWD: e.CWD, Headers: e.Headers}
	for _, address := range []string{e.URL, e.ServerURL, e.HTTPURL} {
		if address != "" {
			s.URL = address
		}
	}
	if err := e.command(&s); err != nil {
		return s, err
	}
	var bad []error
	fill := func(text string) string {
		out, err := translated(text)
		bad = append(bad, err)
		return out
	}
	s.Command, s.CWD, s.URL = fill(s.Command), fill(s.CWD), fill(s.URL)
	s.Args = slices.Clone(s.Args)
	for i := range s.Args {
		s.Args[i] = fill(s.Args[i])
	}
	s.Env, s.Headers = maps.Clone(s.Env), maps.Clone(s.Headers)
	for _, of := range []map[string]string{s.Env, s.Headers} {
		for name := range of {
			of[name] = fill(of[name])
		}
	}
	if s.URL != "" {
		s.Env = nil
	}
	return s, errors.Join(append(bad, s.Check())...)
}

// command reads the three forms of a command.
func (e entry) command(s *upstream.Server) error {
	switch e.Command.Kind() {
	case 0, 'n':
		return nil
	case '"':
		return json.Unmarshal(e.Command, &s.Command)
	case '[':
		var all []string
		if err := json.Unmarshal(e.Command, &all); err != nil || len(all) == 0 {
			return errors.New("its command is an empty list, or none of texts")
		}
		s.Command, s.Args = all[0], append(all[1:], s.Args...)
		return nil
	}
	var in struct {
		Path string            `json:"path"`
		Args []string          `json:"args"`
		Env  map[string]string `json:"env"`
	}
	if err := json.Unmarshal(e.Command, &in); err != nil {
		return fmt.Errorf("its command cannot be read: %w", err)
	}
	s.Command, s.Args, s.Env = in.Path, append(in.Args, s.Args...), in.Env
	return nil
}

// variable is what agents replace in a text.
var variable = regexp.MustCompile(`\$\{([A-Za-z_]+:)?([^}]*)\}`)

// plainVariable is one of the environment, with what stands for it where it is missing.
var plainVariable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(:-.*)?$`)

// translated returns a text with references as executors know them.
func translated(text string) (string, error) {
	var bad []error
	out := variable.ReplaceAllStringFunc(text, func(found string) string {
		m := variable.FindStringSubmatch(found)
		switch kind, name := m[1], m[2]; {
		case kind == "env:":
			return found
		case kind == "" && name == "userHome":
			return "${env:HOME}"
		case kind == "" && name != "workspaceFolder" && plainVariable.MatchString(name):
			return "${env:" + name + "}"
		case kind != "" && strings.HasPrefix(name, "-") && plainVariable.MatchString(strings.TrimSuffix(kind, ":")):
			return "${env:" + kind + name + "}"
		}
		bad = append(bad, fmt.Errorf("only the agent knows %s: write in its place ${env:NAME}, of the executor", found))
		return found
	})
	return out, errors.Join(bad...)
}

// plainJSON returns JSON without the comments, and the commas behind the last of a list, that editors allow.
func plainJSON(raw []byte) jsontext.Value {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		switch {
		case raw[i] == '"':
			end := i + 1
			for end < len(raw) && raw[end] != '"' {
				if raw[end] == '\\' {
					end++
				}
				end++
			}
			out = append(out, raw[i:min(end+1, len(raw))]...)
			i = end
		case raw[i] == '/' && i+1 < len(raw) && raw[i+1] == '/':
			for i+1 < len(raw) && raw[i+1] != '\n' {
				i++
			}
		case raw[i] == '/' && i+1 < len(raw) && raw[i+1] == '*':
			end := strings.Index(string(raw[i+2:]), "*/")
			if end < 0 {
				return out
			}
			i += end + 3
		case raw[i] == '}' || raw[i] == ']':
			for n := len(out); n > 0 && strings.IndexByte(" \t\r\n,", out[n-1]) >= 0; n-- {
				if out[n-1] == ',' {
					out = append(out[:n-1], out[n:]...)
					break
				}
			}
			out = append(out, raw[i])
		default:
			out = append(out, raw[i])
		}
	}
	return out
}

// secrets is the folder in a folder of tools that holds what a configuration had in it of its own.
const secrets = ".secrets"

// Hide moves what stands in the variables and headers of a server into files that only their owner may read, and refers
// to them: any of it may be a credential.
func Hide(dir, name string, s *upstream.Server) error {
	taken := map[string]bool{}
	for _, of := range []map[string]string{s.Env, s.Headers} {
		for _, key := range slices.Sorted(maps.Keys(of)) {
			value := of[key]
			if value == "" || strings.Contains(value, "${") {
				continue
			}
			file := filepath.Join(secrets, name, regexp.MustCompile(`[^A-Za-z0-9_-]`).ReplaceAllString(key, "_"))
			for taken[file] {
				file += "_"
			}
			taken[file] = true
			if err := os.MkdirAll(filepath.Join(dir, secrets, name), 0o700); err != nil {
				return err
			}
			if err := replace(filepath.Join(dir, secrets, ".gitignore"), []byte("*\n"), 0o600); err != nil {
				return err
			}
			if err := replace(filepath.Join(dir, file), []byte(value+"\n"), 0o600); err != nil {
				return err
			}
			of[key] = "${file:" + file + "}"
		}
	}
	return nil
}
