package importer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// placed returns the entry of a server for the folder of tools. name is "" if it is not known yet. If the folder has
// the server already, its entry stays, with the variables, the headers and the start time of s.
func (o Options) placed(name string, s client.Server) (client.Server, error) {
	s = rooted(s)
	s.Env, s.Headers = joined(nil, s.Env), joined(nil, s.Headers)
	known, err := mcp.ReadServers(o.Dir)
	if err != nil {
		return s, err
	}
	if other, ok := known[name]; ok {
		if other.Command != s.Command || !slices.Equal(other.Args, s.Args) || other.URL != s.URL {
			return s, fmt.Errorf("%s has another server %s: give this one a name of its own, with --name",
				filepath.Join(o.Dir, mcp.ServersFile), name)
		}
		other.StartMS = cmp.Or(s.StartMS, other.StartMS)
		other.Env, other.Headers = joined(other.Env, s.Env), joined(other.Headers, s.Headers)
		s = other
	}
	if s.Command != "" {
		if err := found(&s, o.Environ); err != nil {
			return s, err
		}
	}
	return s, mcp.Servers{cmp.Or(name, "unnamed"): s}.Check()
}

// joined merges two maps. Values of b override those of a.
func joined(a, b map[string]string) map[string]string {
	if len(a)+len(b) == 0 {
		return nil
	}
	all := map[string]string{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

// addServer writes a server into the folder of tools. Only the owner of the file may read it.
func (o Options) addServer(name string, s client.Server) error {
	if o.Hide {
		if err := Hide(o.Dir, name, &s); err != nil {
			return err
		}
		if _, err := s.Resolve(o.Dir, o.getenv); err != nil {
			return err
		}
	}
	return locked(o.Dir, func() error {
		servers, err := mcp.ReadServers(o.Dir)
		if err != nil {
			return err
		}
		servers[name] = s
		raw, err := json.Marshal(map[string]any{"servers": servers}, json.Deterministic(true), jsontext.WithIndent("  "))
		if err != nil {
			return err
		}
		return replace(filepath.Join(o.Dir, mcp.ServersFile), append(raw, '\n'), 0o600)
	})
}

// getenv returns a variable as an executor with this environment resolves it.
func (o Options) getenv(name string) (value string, ok bool) {
	for _, entry := range o.Environ {
		if is, v, _ := strings.Cut(entry, "="); is == name && !tool.OwnVariable(name) {
			value, ok = v, true
		}
	}
	return value, ok
}

// replace writes a file atomically.
func replace(file string, data []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Chmod(mode), tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
	return err
}

// found looks the command up on the PATH in environ, as a shell would. Executors have another PATH, so found adds the
// folder of the command to the PATH of s if necessary. It also gives the server the HOME of the executor, because many
// servers keep data there.
func found(s *client.Server, environ []string) error {
	var path string
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			path = value
		}
	}
	if s.Env == nil {
		s.Env = map[string]string{}
	}
	if _, set := s.Env["HOME"]; !set {
		s.Env["HOME"] = "${env:HOME:-/}"
	}
	if strings.Contains(s.Command, "/") {
		return nil
	}
	for _, folder := range filepath.SplitList(path) {
		file := filepath.Join(folder, s.Command)
		info, err := os.Stat(file)
		if err != nil || !filepath.IsAbs(file) || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			continue
		}
		if _, set := s.Env["PATH"]; !set && !slices.Contains(filepath.SplitList(client.DefaultPath), folder) {
			s.Env["PATH"] = folder + string(filepath.ListSeparator) + client.DefaultPath
		}
		return nil
	}
	return fmt.Errorf("there is no program %s on the PATH", s.Command)
}
