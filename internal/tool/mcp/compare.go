package mcp

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/tool"
)

var _ tool.Comparer = (*Adapter)(nil)

// recheckTime limits one comparison outside of calls.
const recheckTime = 10 * time.Second

// keyOf returns the key of a tool's server in Adapter.pools.
func keyOf(m *tool.Manifest, e Endpoint) string { return filepath.Join(filepath.Dir(m.Dir), e.Server) }

// known returns the pool of a tool's server. It is nil if the tool has no approved definition, or if the adapter has
// not used the server.
func (a *Adapter) known(m *tool.Manifest) (*pool, Endpoint) {
	e, ours := m.Endpoint.(Endpoint)
	if !ours || e.Definition == "" {
		return nil, e
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pools[keyOf(m, e)], e
}

// Compared implements [tool.Comparer].
func (a *Adapter) Compared(m *tool.Manifest) tool.Verdict {
	p, e := a.known(m)
	if p == nil {
		return tool.NotCompared
	}
	verdict, _ := p.compared(e)
	return verdict
}

// compared returns the verdict of the open connections. It is AsApproved if at least one of them has the approved
// definition.
func (p *pool) compared(e Endpoint) (verdict tool.Verdict, how *changedError) {
	for _, l := range p.usable() {
		if l.digests.Load() == nil {
			continue
		}
		switch changed := l.change(e); {
		case changed == nil:
			return tool.AsApproved, nil
		case !l.older.Load(): // the next call of an older server's tool restarts it
			verdict, how = tool.Changed, changed
		}
	}
	return verdict, how
}

// outdated reports whether a server that has changed a tool may be older than the approval of the change. Then it ends
// the server, unless another call is with it.
func (p *pool) outdated(l *serverConn) bool {
	if !l.older.Load() || p.others(l) > 1 {
		return false
	}
	l.conn.End("its tools were approved after its start")
	return true
}

// usable returns the connections that accept calls.
func (p *pool) usable() (links []*serverConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.conns {
		if l.conn.Usable() {
			links = append(links, l)
		}
	}
	return links
}

// Recheck implements [tool.Comparer].
func (a *Adapter) Recheck(ctx context.Context, tools []*tool.Manifest) {
	byServer := map[*pool][]*tool.Manifest{}
	for _, m := range tools {
		if p, _ := a.known(m); p != nil {
			byServer[p] = append(byServer[p], m)
		}
	}
	for p, of := range byServer {
		p.recheck(ctx, of)
	}
}

// recheck is Recheck for the tools of one server. It logs which tools start or stop waiting for approval.
func (p *pool) recheck(ctx context.Context, tools []*tool.Manifest) {
	for _, l := range p.usable() {
		if err := l.refresh(ctx, tools); err != nil && ctx.Err() == nil && l.conn.Usable() {
			p.log.Warn("definitions of the MCP server not compared", "err", err)
		}
	}
	for _, m := range tools {
		e := m.Endpoint.(Endpoint)
		switch verdict, how := p.compared(e); verdict {
		case tool.Changed:
			p.withhold(m.ToolID, how)
		case tool.AsApproved:
			p.release(m.ToolID)
		}
	}
}

// refresh lists the tools of the server again if it announced a change, or if it has changed one of the tools and was
// not asked for a minute. It does nothing while a call lists them, and before the first call has listed them.
func (l *serverConn) refresh(ctx context.Context, tools []*tool.Manifest) error {
	select {
	case l.checking <- struct{}{}:
	default:
		return nil
	}
	defer func() { <-l.checking }()
	if l.digests.Load() == nil {
		return nil
	}
	again := time.Since(l.tried) > recheck && l.withholds(tools)
	if !again && !l.conn.Changed() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, recheckTime)
	defer cancel()
	return l.list(ctx)
}

// Offered implements [tool.Comparer].
func (a *Adapter) Offered(tools []*tool.Manifest) map[string][]string {
	had := map[*pool][]Endpoint{}
	a.mu.Lock()
	for _, m := range tools {
		if e, ours := m.Endpoint.(Endpoint); ours && a.pools[keyOf(m, e)] != nil {
			p := a.pools[keyOf(m, e)]
			had[p] = append(had[p], e)
		}
	}
	a.mu.Unlock()
	all := map[string][]string{}
	for p, of := range had {
		if names := p.offered(of); len(names) > 0 {
			server := of[0].Server
			all[server] = slices.Compact(slices.Sorted(slices.Values(append(all[server], names...))))
		}
	}
	return all
}

// Announced implements [tool.Comparer].
func (a *Adapter) Announced(tools []*tool.Manifest) map[string]int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := map[string]int64{}
	for _, m := range tools {
		e, ours := m.Endpoint.(Endpoint)
		if !ours || !e.Methods {
			continue
		}
		if p := a.pools[keyOf(m, e)]; p != nil && p.announced.Load() > 0 {
			all[e.Server] = p.announced.Load()
		}
	}
	return all
}

// offered returns the tools of the last list of the server that are not among those given.
func (p *pool) offered(had []Endpoint) (names []string) {
	for _, l := range p.usable() {
		listed := l.digests.Load()
		if listed == nil {
			continue
		}
		for name := range *listed {
			if !slices.ContainsFunc(had, func(e Endpoint) bool { return e.Tool == name }) {
				names = append(names, name)
			}
		}
		break
	}
	return names
}

// withholds reports whether the server has changed one of the tools.
func (l *serverConn) withholds(tools []*tool.Manifest) bool {
	return slices.ContainsFunc(tools, func(m *tool.Manifest) bool { return l.change(m.Endpoint.(Endpoint)) != nil })
}

// withhold logs that a tool waits for approval, with the command that approves it. It logs this once until release.
func (p *pool) withhold(id string, how *changedError) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.withheld[id] {
		return
	}
	if p.withheld == nil {
		p.withheld = map[string]bool{}
	}
	p.withheld[id] = true
	p.log.Warn("tool changed at its MCP server: it is not called until it is approved", "tool", id, "err", how,
		"approve", "toolbus tools approve "+id)
}

// release logs that a tool does not wait for approval any more. It does nothing if the tool did not wait.
func (p *pool) release(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.withheld[id] {
		delete(p.withheld, id)
		p.log.Info("tool is again as it was approved", "tool", id)
	}
}
