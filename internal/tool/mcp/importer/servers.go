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

// placed returns a server as it is to be in the folder of tools under a name, "" where that is not known yet. One that
// is there already keeps what its operator has given it, and has the variables and headers of s besides.
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

// joined has what either has, and of both what the second has.
func joined(a, b map[string]string) map[string]string {
	if len(a)+len(b) == 0 {
		return nil
	}
	all := map[string]string{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

// addServer writes a server into the folder of tools, for executors alone to read.
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

// getenv finds a variable as executors do that have this environment.
func (o Options) getenv(name string) (value string, ok bool) {
	for _, entry := range o.Environ {
		if is, v, _ := strings.Cut(entry, "="); is == name && !tool.OwnVariable(name) {
			value, ok = v, true
		}
	}
	return value, ok
}

// replace writes a file all at once.
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

// found writes into s how an executor finds its command, which is looked for as a shell would that has this
// environment: executors have a PATH of their own. A server also gets the home of the executor, where many keep what
// they load.
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
