package mcp

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/oauth"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
)

// DefaultGrace is the default of Options.Grace.
const DefaultGrace = 2 * time.Second

// Options configure an Adapter. The zero value is usable.
type Options struct {
	// Environ holds variables as NAME=value, to which [ServersFile] may refer.
	Environ []string
	// Client is the version of this build that the adapter sends to servers; default "dev".
	Client string
	// Grace is the time between SIGTERM and SIGKILL when a server is ended; default 2 s.
	Grace time.Duration
	// Supervisor is the path of the supervisor program. If it is "", supervisor.Find finds one.
	Supervisor string
	// Logger logs servers that start or fail, and tools that need approval; nil discards these logs.
	Logger *slog.Logger
}

// Adapter runs tools of MCP servers. It is safe for concurrent use.
type Adapter struct {
	environ map[string]string
	dial    client.Options
	alone   error // why supervisors do not work on this host; nil if they do
	log     *slog.Logger
	listens *listeners

	mu      sync.Mutex
	folders map[string]Servers // by absolute folder of tools
	pools   map[string]*pool   // by keyOf

	logins logins
}

var _ tool.Adapter = (*Adapter)(nil)

// stderrBytes is the size of the part of a server's standard error that is kept, for the errors of calls that fail when
// the server dies.
const stderrBytes = 16 << 10

// New returns an adapter. It starts no server. It first runs a supervisor: if supervisors do not work on this host, the
// adapter can use only servers with a URL.
func New(opts Options) *Adapter {
	program, err := supervisor.Find(opts.Supervisor)
	a := &Adapter{
		environ: map[string]string{}, alone: err, log: cmp.Or(opts.Logger, slog.New(slog.DiscardHandler)),
		dial: client.Options{
			Client: cmp.Or(opts.Client, "dev"), Supervisor: program, Grace: cmp.Or(opts.Grace, DefaultGrace),
			StderrBytes: stderrBytes,
		},
		folders: map[string]Servers{}, pools: map[string]*pool{}, listens: &listeners{slots: make(chan struct{}, maxListens)},
		logins: logins{keepers: map[string]*oauth.Keeper{}},
	}
	for _, entry := range opts.Environ {
		if name, value, ok := strings.Cut(entry, "="); ok && !tool.OwnVariable(name) {
			a.environ[name] = value
		}
	}
	return a
}

// Reread lets the adapter read [ServersFile] again for servers that it does not know yet. A call of a tool whose
// definition was approved since its server was started starts the server again.
func (a *Adapter) Reread() {
	a.mu.Lock()
	defer a.mu.Unlock()
	clear(a.folders)
	for _, p := range a.pools {
		for _, l := range p.usable() {
			l.older.Store(true)
		}
	}
}

// Validate returns an error if the manifest's server is not in [ServersFile], or if a variable, file or folder to which
// its entry there refers does not exist.
func (a *Adapter) Validate(m *tool.Manifest) error {
	_, _, err := a.pool(m)
	return err
}

// Startable returns an error if the program of the manifest's server could not be started now.
func (a *Adapter) Startable(m *tool.Manifest) error {
	p, _, err := a.pool(m)
	if err != nil {
		return err
	}
	s, err := p.resolve()
	if err != nil || s.Command == "" {
		return err
	}
	return client.Startable(s, a.dial)
}

// pool returns the pool of a manifest's server, and opens it at the first use.
func (a *Adapter) pool(m *tool.Manifest) (*pool, Endpoint, error) {
	e, ours := m.Endpoint.(Endpoint)
	switch {
	case !ours || m.Transport != Transport:
		return nil, e, fmt.Errorf("%s is no tool of an MCP server but %q", m.ToolID, m.Transport)
	case !filepath.IsAbs(m.Dir):
		return nil, e, fmt.Errorf("%s has no folder of tools, in which %s would be", m.ToolID, ServersFile)
	}
	dir, key := filepath.Dir(m.Dir), keyOf(m, e)
	a.mu.Lock()
	defer a.mu.Unlock()
	if p := a.pools[key]; p != nil {
		return p, e, nil
	}
	servers, read := a.folders[dir]
	if !read {
		var err error
		if servers, err = ReadServers(dir); err != nil {
			return nil, e, err
		}
		a.folders[dir] = servers
	}
	known, ok := servers[e.Server]
	if !ok {
		return nil, e, fmt.Errorf("no server %q is in %s", e.Server, filepath.Join(dir, ServersFile))
	}
	p := &pool{
		name: e.Server, server: known, dial: a.dial, log: a.log.With("server", e.Server), listens: a.listens,
		resolve: func() (client.Server, error) { return a.resolved(known, dir) },
		tokens:  func(s client.Server) (client.Tokens, error) { return a.logins.tokens(e.Server, s) },
	}
	p.dial.ListsChanged = func() { p.announced.Add(1) }
	if _, err := p.resolve(); err != nil {
		return nil, e, fmt.Errorf("server %s: %w", e.Server, err)
	}
	a.pools[key] = p
	return p, e, nil
}

// resolved returns a server with its references replaced by their values, after checks.
func (a *Adapter) resolved(s client.Server, dir string) (client.Server, error) {
	out, err := s.Resolve(dir, a.getenv)
	if err == nil {
		err = out.Check()
	}
	if err == nil && out.Command != "" {
		err = cmp.Or(a.alone, runs(out))
	}
	if err == nil && out.OAuth != "" {
		_, err = oauth.ReadGrant(out.OAuth)
	}
	return out, err
}

// runs returns an error if the working folder of a server does not exist.
func runs(s client.Server) error {
	info, err := os.Stat(s.CWD)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no folder", s.CWD)
	}
	return err
}

func (a *Adapter) getenv(name string) (string, bool) {
	value, ok := a.environ[name]
	return value, ok
}

// Execute calls the tool. See tool.Adapter. When ctx ends, the adapter sends a cancellation to the server, which may
// continue all the same.
func (a *Adapter) Execute(
	ctx context.Context, m *tool.Manifest, inv tool.Invocation, sink tool.Sink,
) (tool.Result, error) {
	s, err := a.run(ctx, m, opExecute, inv, sink)
	return s.result, err
}

// Lookup calls the tool that the manifest names for lookups. See tool.Adapter.
func (a *Adapter) Lookup(ctx context.Context, m *tool.Manifest, inv tool.Invocation) (tool.Result, bool, error) {
	e, _ := m.Endpoint.(Endpoint)
	if !m.Capability.Lookup || e.Lookup == nil {
		return tool.Result{}, false, tool.ErrNoLookup
	}
	s, err := a.run(ctx, m, opLookup, inv, nil)
	return s.result, err == nil && !s.absent, err
}

// Rest ends all servers and returns when no process of them is left. The next call starts its server again.
func (a *Adapter) Rest() {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all sync.WaitGroup
	for _, p := range a.pools {
		all.Go(p.rest)
	}
	all.Wait()
	a.logins.wait()
}

// ClassifyError maps an error of Execute to the taxonomy.
func (a *Adapter) ClassifyError(m *tool.Manifest, err error) *envelope.Error { return classify(m, err) }
