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
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
)

// DefaultGrace is how long a server has after SIGTERM unless Options say otherwise.
const DefaultGrace = 2 * time.Second

// Options configure an Adapter. The zero value is usable.
type Options struct {
	// Environ holds variables as NAME=value, which [ServersFile] may refer to.
	Environ []string
	// Client is the version of this build, as servers are told it.
	Client string
	// Grace is the time between SIGTERM and SIGKILL when a server is ended; DefaultGrace if 0.
	Grace time.Duration
	// Supervisor is the supervisor's program. If empty, supervisor.Find finds one.
	Supervisor string
	// Logger is told of servers that start, end and fail; nil is nobody.
	Logger *slog.Logger
}

// Adapter runs tools of MCP servers. It is safe for concurrent use.
type Adapter struct {
	environ map[string]string
	dial    client.Options
	alone   error // why no process can be started here, if none can
	log     *slog.Logger

	mu      sync.Mutex
	folders map[string]Servers // by folder of tools
	pools   map[string]*pool   // by folder and name
}

var _ tool.Adapter = (*Adapter)(nil)

// stderrBytes is how much is kept of what a server writes to its standard error: calls that it takes along are told it.
const stderrBytes = 16 << 10

// New returns an adapter, after it has tried a supervisor on this host: without one it runs the tools of servers behind
// URLs, and no others. It starts no server.
func New(opts Options) *Adapter {
	program, err := supervisor.Find(opts.Supervisor)
	a := &Adapter{
		environ: map[string]string{}, alone: err, log: cmp.Or(opts.Logger, slog.New(slog.DiscardHandler)),
		dial: client.Options{
			Client: cmp.Or(opts.Client, "dev"), Supervisor: program, Grace: cmp.Or(opts.Grace, DefaultGrace),
			StderrBytes: stderrBytes,
		},
		folders: map[string]Servers{}, pools: map[string]*pool{},
	}
	for _, entry := range opts.Environ {
		if name, value, ok := strings.Cut(entry, "="); ok && !tool.OwnVariable(name) {
			a.environ[name] = value
		}
	}
	return a
}

// Validate says whether the manifest's server is known here, and all there is that it refers to.
func (a *Adapter) Validate(m *tool.Manifest) error {
	_, _, err := a.pool(m)
	return err
}

// pool returns the server of a manifest.
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
		name: e.Server, server: known, dial: a.dial, log: a.log.With("server", e.Server),
		resolve: func() (client.Server, error) { return a.resolved(known, dir) },
	}
	if _, err := p.resolve(); err != nil {
		return nil, e, fmt.Errorf("server %s: %w", e.Server, err)
	}
	a.pools[key] = p
	return p, e, nil
}

// resolved returns a server with all that it refers to.
func (a *Adapter) resolved(s client.Server, dir string) (client.Server, error) {
	out, err := s.Resolve(dir, a.getenv)
	if err == nil {
		err = out.Check()
	}
	if err == nil && out.Command != "" {
		err = cmp.Or(a.alone, runs(out))
	}
	return out, err
}

// runs says why the folder that a server is to run in is none.
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

// Execute calls the tool. See tool.Adapter, but that the server may go on for as long as it likes after ctx has ended,
// which it is told.
func (a *Adapter) Execute(
	ctx context.Context, m *tool.Manifest, inv tool.Invocation, sink tool.Sink,
) (tool.Result, error) {
	s, err := a.run(ctx, m, opExecute, inv, sink)
	return s.result, err
}

// Lookup asks the tool of the server that is named for it. See tool.Adapter.
func (a *Adapter) Lookup(ctx context.Context, m *tool.Manifest, inv tool.Invocation) (tool.Result, bool, error) {
	e, _ := m.Endpoint.(Endpoint)
	if !m.Capability.Lookup || e.Lookup == nil {
		return tool.Result{}, false, tool.ErrNoLookup
	}
	s, err := a.run(ctx, m, opLookup, inv, nil)
	return s.result, err == nil && !s.absent, err
}

// Rest ends all servers and returns when nothing is left of them. The next call starts its server again.
func (a *Adapter) Rest() {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all sync.WaitGroup
	for _, p := range a.pools {
		all.Go(p.rest)
	}
	all.Wait()
}

// ClassifyError maps an error of Execute to the taxonomy.
func (a *Adapter) ClassifyError(m *tool.Manifest, err error) *envelope.Error { return classify(m, err) }
