package process

import (
	_ "embed" // the schema of endpoints
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Transport is the name of this transport in manifests.
const Transport = "process"

//go:embed endpoint.json
var endpointSchema string

// Endpoint is the endpoint of a process tool.
type Endpoint struct {
	Command []string          `json:"command"` // program and arguments, never through a shell; default ./bin/TOOL_ID
	Env     map[string]string `json:"env"`     // variables with their values, in addition to capabilities.env

	Default bool `json:"-"` // the manifest names no command
}

// Describe returns what package tool needs in order to read manifests of this transport.
func Describe() tool.Transport {
	return tool.Transport{Name: Transport, Schema: endpointSchema, Text: commandLine, Endpoint: decode}
}

// commandLine returns the endpoint of a command line: a program and its arguments, without quotes.
func commandLine(_, text string) map[string]any {
	command := []any{}
	for word := range strings.FieldsSeq(text) {
		command = append(command, word)
	}
	return map[string]any{"command": command}
}

func decode(m *tool.Manifest, raw jsontext.Value, report func(at, message, hint string)) tool.Endpoint {
	var e Endpoint
	if raw != nil {
		if err := json.Unmarshal(raw, &e); err != nil {
			report("/endpoint", err.Error(), "command is a list, and env a mapping")
		}
	}
	switch {
	case len(e.Command) == 0 && (m.ToolID == "" || !m.Callable()):
	case len(e.Command) == 0:
		e.Command, e.Default = []string{"./bin/" + m.ToolID}, true
	case e.Command[0] == "":
		report("/endpoint/command/0", "the program has no name", "command: [./program]")
	}
	for name := range e.Env {
		if tool.LoaderVariable(name) {
			report("/endpoint/env/"+name+"#", fmt.Sprintf("%q makes programs run foreign code", name), "leave it out")
		}
	}
	for i, name := range m.Capability.Env {
		if _, both := e.Env[name]; both {
			report(fmt.Sprintf("/capabilities/env/%d", i), fmt.Sprintf("%q is also set in endpoint.env", name),
				"keep one of the two")
		}
	}
	return e
}

// Name returns the command line.
func (e Endpoint) Name() string { return strings.Join(e.Command, " ") }

// Files returns the files in the tool's folder that the command names: the program, if it contains a slash, and
// arguments such as ./main.py. It also returns each argument that may be the name of a file, such as main.py.
func (e Endpoint) Files() (files []tool.File) {
	for i, arg := range e.Command {
		named := strings.HasPrefix(arg, "./") || i == 0 && strings.Contains(arg, "/") && !path.IsAbs(arg)
		if named || i > 0 && filepath.IsLocal(arg) {
			files = append(files, tool.File{
				Name: path.Clean(arg), At: fmt.Sprintf("/endpoint/command/%d", i), Runs: i == 0, Default: e.Default,
				Argument: !named,
			})
		}
	}
	return files
}
