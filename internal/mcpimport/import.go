package mcpimport

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/subjects"
	"github.com/seed-018f16cc/toolbus/supervisor"
	"github.com/seed-018f16cc/toolbus/tool"
	"github.com/seed-018f16cc/toolbus/tool/mcp"
	"github.com/seed-018f16cc/toolbus/tool/mcp/upstream"
)

// Options say what an import makes.
type Options struct {
	Dir        string // the folder of tools
	Owner      string // of the tools
	Pool       string // of the tools; "" is the default one
	Hide       bool   // what stands in variables and headers goes to files, see [Hide]
	Environ    []string
	Version    string           // of this build, as servers are told it
	Transports []tool.Transport // all those of tools in the folder, for [Compare]
	// Timeout is the default and the longest time of a call in the manifests that are written, at most ten minutes.
	// 0 leaves the times of an import without one.
	Timeout time.Duration
	// Skip reports whether a tool is switched off, by its server's name of it. Such a tool is not written. Nil means
	// that none is.
	Skip func(tool string) bool
}

// Tool is what became of one tool of a server.
type Tool struct {
	ID    string     `json:"tool_id,omitzero"`
	Name  string     `json:"name"` // as its server calls it
	State State      `json:"state"`
	Class call.Class `json:"determinism,omitzero"`
	Why   string     `json:"why,omitzero"` // of the class, or why it was left out
}

// State says what became of a tool.
type State string

// The states.
const (
	Added   State = "added"
	Same    State = "unchanged"
	Changed State = "changed" // it waits for an approval
	LeftOut State = "left out"
	Off     State = "switched off" // by [Options.Skip]
)

// Report is what became of the tools of one server.
type Report struct {
	Server   string `json:"server"`
	About    string `json:"about"` // what it calls itself, with its version
	Protocol string `json:"protocol"`
	Tools    []Tool `json:"tools"`
}

// Import connects to a server, and writes where it is into the folder, for executors, and its tools. Without a name it
// has the one that the server gives itself. What is there already is left as it is, but for variables and headers that
// s names. A server that executors would refuse is not even started.
func Import(ctx context.Context, name string, s upstream.Server, o Options) (r Report, err error) {
	given := s
	if s, err = o.placed(name, given); err != nil {
		return r, err
	}
	conn, err := o.dial(ctx, s)
	if err != nil {
		return r, err
	}
	defer conn.Close()
	listed, err := list(ctx, conn)
	if err != nil {
		return r, fmt.Errorf("list its tools: %w", err)
	}
	called, release, protocol := conn.About()
	r = Report{Server: name, About: oneLine(called + " " + release), Protocol: protocol}
	if r.Server == "" {
		if r.Server, err = nameOf(called); err != nil {
			return r, err
		}
		if s, err = o.placed(r.Server, given); err != nil {
			return r, err
		}
	}
	if err := o.addServer(r.Server, s); err != nil {
		return r, err
	}
	w := writer{o: o, server: r.Server, about: r.About, version: version(release), taken: map[string]string{}}
	for _, t := range listed {
		r.Tools = append(r.Tools, w.write(t))
	}
	return r, nil
}

// dial reaches a server as an executor would that has this environment.
func (o Options) dial(ctx context.Context, s upstream.Server) (*upstream.Conn, error) {
	resolved, err := s.Resolve(o.Dir, o.getenv)
	if err == nil {
		err = resolved.Check()
	}
	if err != nil {
		return nil, err
	}
	options := upstream.Options{Client: o.Version, Grace: mcp.DefaultGrace, StderrBytes: 4 << 10}
	if resolved.Command != "" {
		if options.Supervisor, err = supervisor.Find(""); err != nil {
			return nil, err
		}
	}
	return upstream.Dial(ctx, resolved, options)
}

// list returns the tools of a server, if it says them in time.
func list(ctx context.Context, conn *upstream.Conn) ([]upstream.Tool, error) {
	ctx, cancel := context.WithTimeout(ctx, upstream.DefaultStart)
	defer cancel()
	return conn.List(ctx)
}

// writer writes the tools of one server.
type writer struct {
	o                      Options
	server, about, version string
	taken                  map[string]string // names of tools, by id
}

func (w *writer) write(t upstream.Tool) Tool {
	if w.o.Skip != nil && w.o.Skip(t.Name) {
		return Tool{Name: t.Name, State: Off}
	}
	out := Tool{Name: t.Name, ID: idOf(w.server, t.Name), State: LeftOut}
	if other, double := w.taken[out.ID]; double {
		out.Why = fmt.Sprintf("its id %s is that of the tool %q already", out.ID, other)
		return out
	}
	w.taken[out.ID] = t.Name
	out.Class, out.Why = proposed(t)
	s := source{
		id: out.ID, server: w.server, about: w.about, version: w.version, owner: w.o.Owner, pool: w.o.Pool,
		class: out.Class, tool: t, timeout: w.o.Timeout,
	}
	state, err := w.place(s)
	if err != nil {
		out.State, out.Class, out.Why = LeftOut, "", oneLine(err.Error())
		return out
	}
	out.State = state
	return out
}

// place writes the folder of a tool, unless there is one.
func (w *writer) place(s source) (State, error) {
	files, err := s.files()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(w.o.Dir, subjects.Token(s.id))
	if _, err := os.Lstat(folder); err == nil {
		return w.compare(folder, s)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return Added, install(w.o.Dir, s.id, files)
}

// compare says what has become of a tool since it was imported.
func (w *writer) compare(folder string, s source) (State, error) {
	m, err := loadOne(folder)
	if err != nil {
		return "", fmt.Errorf("there is a folder %s, which is no tool: %w", folder, err)
	}
	e, ours := m.Endpoint.(mcp.Endpoint)
	if !ours || e.Server != s.server || e.Tool != s.tool.Name {
		return "", fmt.Errorf("there is another tool %s", s.id)
	}
	definition, err := mcp.Definition(s.tool)
	if err != nil {
		return "", err
	}
	if e.Definition != mcp.Digest(definition) {
		return Changed, nil
	}
	return Same, nil
}

// install writes the folder of a tool all at once, after it has been read as executors read it.
func install(dir, id string, files map[string][]byte) error {
	tmp, err := os.MkdirTemp(dir, ".import-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	token := subjects.Token(id)
	for name, data := range files {
		if err := replace(filepath.Join(tmp, token, name), data, 0o644); err != nil {
			return err
		}
	}
	if _, err := tool.Load(tmp, mcp.Describe()); err != nil {
		return err
	}
	return os.Rename(filepath.Join(tmp, token), filepath.Join(dir, token))
}

// loadOne reads the tool of one folder.
func loadOne(folder string) (*tool.Manifest, error) {
	r, err := tool.LoadFS(only{os.DirFS(filepath.Dir(folder)), filepath.Base(folder)}, mcp.Describe())
	if err != nil {
		return nil, err
	}
	if r.Len() == 0 {
		return nil, fs.ErrNotExist
	}
	return r.List()[0], nil
}

// only is a file system in which there is one folder.
type only struct {
	fs.FS
	name string
}

// ReadDir implements [fs.ReadDirFS].
func (o only) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(o.FS, name)
	if name == "." {
		entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() != o.name })
	}
	return entries, err
}
