package process

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
)

// What every tool gets unless its manifest says otherwise.
const (
	defaultPath = "/usr/local/bin:/usr/bin:/bin"
	defaultLang = "C.UTF-8"
)

// config turns a manifest into what its supervisor needs, or says why it cannot be run here.
func (a *Adapter) config(m *tool.Manifest) (supervisor.Config, error) {
	endpoint, ours := m.Endpoint.(Endpoint)
	switch {
	case !ours || m.Transport != Transport:
		return supervisor.Config{}, fmt.Errorf("%s is no process tool but %q", m.ToolID, m.Transport)
	case len(endpoint.Command) == 0:
		return supervisor.Config{}, fmt.Errorf("%s has no command", m.ToolID)
	case !filepath.IsAbs(m.Dir):
		return supervisor.Config{}, fmt.Errorf("%s has no folder to run in", m.ToolID)
	}
	env := a.environment(m, endpoint)
	program, err := supervisor.Locate(endpoint.Command[0], m.Dir, env["PATH"])
	if err != nil {
		return supervisor.Config{}, err
	}
	return supervisor.Config{
		Path: program, Args: endpoint.Command, Env: formatEnviron(env), Dir: m.Dir, GraceMS: a.grace.Milliseconds(),
	}, nil
}

// environment returns the variables of the tool: few defaults, what the manifest may pass
// through, and its literals.
func (a *Adapter) environment(m *tool.Manifest, endpoint Endpoint) map[string]string {
	env := map[string]string{"PATH": defaultPath, "LANG": defaultLang}
	for _, name := range m.Capability.Env {
		if value, ok := a.environ[name]; ok && !tool.OwnVariable(name) {
			env[name] = value
		}
	}
	maps.Copy(env, endpoint.Env)
	maps.DeleteFunc(env, func(name, _ string) bool { return tool.LoaderVariable(name) })
	return env
}

func parseEnviron(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, entry := range environ {
		if name, value, ok := strings.Cut(entry, "="); ok {
			env[name] = value
		}
	}
	return env
}

func formatEnviron(env map[string]string) (entries []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		entries = append(entries, name+"="+env[name])
	}
	return entries
}
