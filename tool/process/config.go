package process

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-018f16cc/toolbus/supervisor"
	"github.com/seed-018f16cc/toolbus/tool"
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
	program, err := locate(endpoint.Command[0], m.Dir, env["PATH"])
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

// locate finds the program: as it is, in the tool's folder, or on the tool's PATH.
func locate(program, dir, path string) (string, error) {
	if filepath.IsAbs(program) {
		return program, executable(program)
	}
	if strings.Contains(program, "/") {
		program = filepath.Join(dir, program)
		return program, executable(program)
	}
	for _, folder := range filepath.SplitList(path) {
		candidate := filepath.Join(folder, program)
		if filepath.IsAbs(candidate) && executable(candidate) == nil {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("%s is not in %s", program, path)
}

func executable(program string) error {
	info, err := os.Stat(program)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return &fs.PathError{Op: "execute", Path: program, Err: errors.New("not an executable file")}
	}
	return nil
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
