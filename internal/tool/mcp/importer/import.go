package importer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/clientconfig"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/oauth"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Options configure an import or comparison.
type Options struct {
	Dir        string // folder of tools
	Owner      string // owner of the tools
	Pool       string // pool of the tools; "" is the default pool
	Hide       bool   // move values of variables and headers to files, see [Hide]
	Environ    []string
	Version    string           // version of this build that servers get
	Transports []tool.Transport // transports of all tools in the folder; default: only mcp
	// Timeout is the default and the longest timeout of calls in the written manifests, at most and by default ten
	// minutes.
	Timeout time.Duration
	// Skip reports whether the tool with this name at its server is switched off. Import does not write such a tool. Skip
	// may be nil.
	Skip func(tool string) bool
	// Login logs in at a server that wants a token of OAuth. It is nil if nobody is there to log in.
	Login func(ctx context.Context, server string) (oauth.Grant, error)
}

// Tool is the result of the import of one tool.
type Tool struct {
	ID    string           `json:"tool_id,omitzero"`
	Name  string           `json:"name"` // name at the server
	State State            `json:"state"`
	Class call.EffectClass `json:"determinism,omitzero"`
	Why   string           `json:"why,omitzero"` // reason for the class, or why the tool was left out
	// Shown is the MCP name of an added tool.
	Shown string `json:"name_in_mcp,omitzero"`
	// Notes list the parts of an added tool's definition that Toolbus does not check or does not show to clients.
	Notes []string `json:"notes,omitzero"`
}

// State is the result of the import or comparison of a tool.
type State string

// The states.
const (
	Added   State = "added"
	Same    State = "unchanged"
	Moved   State = "of a server with another version" // otherwise unchanged; see [Change.ServerVersion]
	Changed State = "changed"                          // the tool needs an approval
	LeftOut State = "left out"
	Off     State = "switched off" // by [Options.Skip]
	Offered State = "not imported" // the server has the tool, the folder does not
)

// Report is the result of the import of one server.
type Report struct {
	Server   string `json:"server"`
	About    string `json:"about"` // name and version that the server reports
	Protocol string `json:"protocol"`
	Tools    []Tool `json:"tools"`
}

// LeftOut returns the number of tools that were left out.
func (r Report) LeftOut() (n int) {
	for _, t := range r.Tools {
		if t.State == LeftOut {
			n++
		}
	}
	return n
}

// Import connects to a server, and writes its configuration and its tools into the folder. If name is "", it derives
// the name from the one that the server reports. Existing tools and servers stay as they are, except that the server
// gets the variables and headers of s. Import does not start a server that executors would refuse.
func Import(ctx context.Context, name string, s client.Server, o Options) (r Report, err error) {
	given := s
	if s, err = o.placed(name, given); err != nil {
		return r, err
	}
	conn, grant, err := o.dial(ctx, s)
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
		if r.Server, err = clientconfig.ServerName(called); err != nil {
			return r, err
		}
		if s, err = o.placed(r.Server, given); err != nil {
			return r, err
		}
	}
	if grant != nil {
		if s.OAuth, err = HideGrant(o.Dir, r.Server, *grant); err != nil {
			return r, err
		}
	}
	if err := o.addServer(r.Server, s); err != nil {
		return r, err
	}
	w := writer{
		o: o, server: envelope.ServerInfo{Name: r.Server, Instructions: conn.Instructions()}, about: r.About,
		release: call.PlainVersion(release), version: version(release), folders: o.folders(s),
	}
	methods := conn.Methods(ctx)
	return r, locked(o.Dir, func() error {
		if err := w.look(); err != nil {
			return err
		}
		r.Tools = w.all(listed)
		if len(methods) > 0 {
			r.Tools = append(r.Tools, w.methods(methods))
		}
		return nil
	})
}

// dial connects to a server as an executor with this environment would. If it has to log in, it also returns the grant.
func (o Options) dial(ctx context.Context, s client.Server) (*client.Conn, *oauth.Grant, error) {
	resolved, err := s.Resolve(o.Dir, o.getenv)
	if err == nil {
		err = resolved.Check()
	}
	if err != nil {
		return nil, nil, err
	}
	options := client.Options{Client: o.Version, Grace: mcp.DefaultGrace, StderrBytes: 4 << 10}
	if resolved.Command != "" {
		if options.Supervisor, err = supervisor.Find(""); err != nil {
			return nil, nil, err
		}
	}
	grant, err := o.login(ctx, resolved)
	if err != nil {
		return nil, nil, err
	}
	if grant != nil {
		options.Tokens = grant.First
	}
	conn, err := client.Dial(ctx, resolved, options)
	return conn, grant, err
}

// login logs in at a server with a URL, if there is a Login. Only executors have the tokens of a login of before.
func (o Options) login(ctx context.Context, s client.Server) (*oauth.Grant, error) {
	switch {
	case s.URL == "", s.OAuth == "" && o.Login == nil:
		return nil, nil
	case o.Login == nil:
		return nil, errors.New("the server wants a token of OAuth: log in with --login")
	}
	s.OAuth = grantFile
	if err := s.Check(); err != nil {
		return nil, err
	}
	g, err := o.Login(ctx, s.URL)
	if err != nil {
		return nil, fmt.Errorf("log in: %w", err)
	}
	return &g, nil
}

// list returns the tools of a server. It waits at most client.DefaultStart.
func list(ctx context.Context, conn *client.Conn) ([]client.Tool, error) {
	ctx, cancel := context.WithTimeout(ctx, client.DefaultStart)
	defer cancel()
	return conn.List(ctx)
}

// writer writes the manifests of one server's tools.
type writer struct {
	o              Options
	server         envelope.ServerInfo
	about, version string
	release        string   // version that the server reports, as of call.PlainVersion
	folders        []string // of source

	known map[string]*tool.Manifest // imported tools of the server, by their name at the server; methods have ""
	ids   map[string]bool           // used tool ids
	names map[string]bool           // used MCP names
}

// look reads the tools of the folder, so that each keeps its id and MCP name. For a folder that it cannot read, only
// the folder's name counts as used.
func (w *writer) look() error {
	w.known = map[string]*tool.Manifest{}
	w.ids, w.names = map[string]bool{}, map[string]bool{envelope.MCPSearchTool: true, envelope.MCPCallTool: true}
	entries, err := os.ReadDir(w.o.Dir)
	if err != nil {
		return err
	}
	var all []envelope.ToolInfo
	for _, entry := range entries {
		m, err := loadOne(filepath.Join(w.o.Dir, entry.Name()), w.o.Transports...)
		if err != nil {
			continue
		}
		w.ids[m.ToolID] = true
		e, ours := m.Endpoint.(mcp.Endpoint)
		if ours && e.Server == w.server.Name && w.known[e.Tool] == nil {
			w.known[e.Tool] = m
		}
		of := envelope.ToolInfo{ToolID: m.ToolID, Name: m.Name, Functions: map[string]envelope.FunctionInfo{}}
		for name := range m.Functions {
			of.Functions[name] = envelope.FunctionInfo{}
		}
		all = append(all, of)
	}
	for _, name := range envelope.FunctionNames(all, envelope.MCPSearchTool, envelope.MCPCallTool) {
		w.names[name] = true
	}
	return nil
}

// all writes the tools of a list. It takes the first of several tools with one name, as executors do.
func (w *writer) all(listed []client.Tool) (all []Tool) {
	at := map[string]int{} // indexes in all
	for _, t := range listed {
		i, again := at[t.Name]
		if !again {
			at[t.Name] = len(all)
			all = append(all, w.write(t))
			continue
		}
		first := slices.IndexFunc(listed, func(other client.Tool) bool { return other.Name == t.Name })
		if !mcp.SameDefinition(listed[first], t) {
			all[i].Notes = append(all[i].Notes, "the server lists it twice, differently: the first one is taken")
		}
	}
	return all
}

func (w *writer) write(t client.Tool) Tool {
	out := Tool{Name: t.Name, State: LeftOut}
	switch m := w.known[t.Name]; {
	case w.o.Skip != nil && w.o.Skip(t.Name):
		out.State = Off
		return out
	case m != nil:
		return w.compare(m, t)
	}
	out.Class, out.Why = proposed(t)
	s := source{
		id: idOf(w.server.Name, t.Name, w.taken), name: mcpNameOf(w.server.Name, t.Name, w.names), server: w.server,
		about: w.about, release: w.release, version: w.version, owner: w.o.Owner, pool: w.o.Pool, class: out.Class, tool: t,
		timeout: w.o.Timeout, folders: w.folders,
	}
	files, notes, err := s.files()
	if err == nil {
		err = install(w.o.Dir, s.id, files)
	}
	if err != nil {
		out.Class, out.Why = "", oneLine(err.Error())
		return out
	}
	w.ids[s.id], w.names[s.name] = true, true
	out.State, out.ID, out.Shown, out.Notes = Added, s.id, s.name, notes
	return out
}

// taken reports whether an id, or its folder, is in use.
func (w *writer) taken(id string) bool {
	_, err := os.Lstat(filepath.Join(w.o.Dir, subjects.Token(id)))
	return w.ids[id] || !errors.Is(err, fs.ErrNotExist)
}

// compare returns the state of a tool that was imported before.
func (w *writer) compare(m *tool.Manifest, t client.Tool) Tool {
	out := Tool{Name: t.Name, ID: m.ToolID, Class: m.Class, State: Same}
	e, _ := m.Endpoint.(mcp.Endpoint)
	definition, err := mcp.Definition(t)
	switch {
	case err != nil:
		out.State, out.Class, out.Why = LeftOut, "", oneLine(err.Error())
	case e.Definition != mcp.Digest(definition):
		out.State = Changed
	}
	return out
}

// install writes the folder of a tool atomically, after the folder has been loaded as executors load it.
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

// loadOne loads the tool in one folder. The default of transports is mcp.
func loadOne(folder string, transports ...tool.Transport) (*tool.Manifest, error) {
	if len(transports) == 0 {
		transports = []tool.Transport{mcp.Describe()}
	}
	r, err := tool.LoadFS(only{os.DirFS(filepath.Dir(folder)), filepath.Base(folder)}, transports...)
	if err != nil {
		return nil, err
	}
	if r.Len() == 0 {
		return nil, fs.ErrNotExist
	}
	return r.List()[0], nil
}

// only is a file system whose root lists a single folder.
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
