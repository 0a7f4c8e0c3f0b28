package importer

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// Imported holds the servers of a folder of tools, and the manifests of their tools.
type Imported struct {
	dir     string
	servers mcp.Servers
	tools   map[string][]*tool.Manifest
}

// ReadImported reads the servers and tools of a folder. A folder that does not exist has none.
func ReadImported(dir string, transports []tool.Transport) (*Imported, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	i := &Imported{dir: dir, tools: map[string][]*tool.Manifest{}}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return i, nil
	}
	if i.servers, err = mcp.ReadServers(dir); err != nil {
		return nil, err
	}
	all, err := tool.Load(dir, transports...)
	if err != nil {
		return nil, err
	}
	for _, m := range all.List() {
		if e, ok := m.Endpoint.(mcp.Endpoint); ok {
			i.tools[e.Server] = append(i.tools[e.Server], m)
		}
	}
	return i, nil
}

// Tools returns the manifests of a server's tools.
func (i *Imported) Tools(server string) []*tool.Manifest { return i.tools[server] }

// Reasons why Find does not find a server.
var (
	ErrNotImported = errors.New("it was not imported")
	ErrNoTools     = errors.New("none of its tools was imported")
)

// Find returns the name of a server in the folder that is the same as s and has imported tools. It tries name first. A
// server is the same if it has the same command, arguments and URL, and all variables and headers of s.
func (i *Imported) Find(name string, s client.Server) (found string, err error) {
	s = rooted(s)
	names := slices.Sorted(maps.Keys(i.servers))
	if _, there := i.servers[name]; there {
		names = slices.Insert(names, 0, name)
	}
	err = ErrNotImported
	for _, one := range names {
		has := i.servers[one]
		if has.Command != s.Command || !slices.Equal(has.Args, s.Args) || has.URL != s.URL {
			continue
		}
		other, bad := i.differs(has, s)
		switch {
		case bad != nil:
			err = fmt.Errorf("%w as it is now: %w", ErrNotImported, bad)
		case len(other) > 0:
			err = fmt.Errorf("%w as it is now: %s differ from server %s of the folder of tools", ErrNotImported,
				strings.Join(other, ", "), one)
		case len(i.tools[one]) == 0:
			err = ErrNoTools
		default:
			return one, nil
		}
	}
	return "", err
}

// differs returns the names of the variables and headers of s that the imported server lacks, or has with another
// value. References to variables of the executor are compared by name, because executors have another environment than
// this process.
func (i *Imported) differs(has, s client.Server) (names []string, err error) {
	as := func(name string) (string, bool) { return "${env:" + name + "}", true }
	mine, err := s.Resolve(i.dir, as)
	if err != nil {
		return nil, err
	}
	theirs, err := has.Resolve(i.dir, as)
	if err != nil {
		return nil, err
	}
	for _, of := range [][2]map[string]string{{mine.Env, theirs.Env}, {mine.Headers, theirs.Headers}} {
		for _, name := range slices.Sorted(maps.Keys(of[0])) {
			if value, there := of[1][name]; !there || value != of[0][name] {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// rooted returns a server whose command, if it is a relative path, is joined to the server's working directory.
func rooted(s client.Server) client.Server {
	if strings.Contains(s.Command, "/") && !filepath.IsAbs(s.Command) {
		s.Command = filepath.Join(s.CWD, s.Command)
	}
	return s
}
