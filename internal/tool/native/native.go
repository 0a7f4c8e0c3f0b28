package native

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// grace is how long a function has to return after its context ended.
const grace = 200 * time.Millisecond

// Func is a tool. It returns when ctx ends, and its own failures as *tool.Error; any other error
// and a panic are faults of the tool. It must not use sink after it returned.
type Func func(ctx context.Context, inv tool.Invocation, sink tool.Sink) (tool.Result, error)

// LookupFunc answers whether the effect of inv's idempotency key, which is that of one call among all there are, is
// committed, and with what.
type LookupFunc func(ctx context.Context, inv tool.Invocation) (res tool.Result, found bool, err error)

// Adapter runs native tools. It is safe for concurrent use.
type Adapter struct {
	funcs   map[string]Func
	lookups map[string]LookupFunc

	mu     sync.Mutex
	leaked map[string]int // by name: runs that did not return in time and still go on
}

var _ tool.Adapter = (*Adapter)(nil)

// Option changes what New makes.
type Option func(*Adapter)

// WithLookup gives the function registered under name a lookup.
func WithLookup(name string, f LookupFunc) Option {
	return func(a *Adapter) { a.lookups[name] = f }
}

// New returns an adapter for the functions, by the name that manifests give as endpoint.native.
func New(funcs map[string]Func, opts ...Option) *Adapter {
	a := &Adapter{funcs: make(map[string]Func, len(funcs)), lookups: map[string]LookupFunc{}, leaked: map[string]int{}}
	maps.Copy(a.funcs, funcs)
	for _, opt := range opts {
		opt(a)
	}
	return a
}

// Validate says whether the manifest's function is registered here.
func (a *Adapter) Validate(m *tool.Manifest) error {
	_, ours := m.Endpoint.(Endpoint)
	switch name := nameOf(m); {
	case !ours || m.Transport != Transport:
		return fmt.Errorf("%s is no native tool but %q", m.ToolID, m.Transport)
	case a.funcs[name] == nil:
		return fmt.Errorf("no native tool is registered as %q", name)
	case m.Capability.Lookup && a.lookups[name] == nil:
		return fmt.Errorf("no lookup is registered for %q", name)
	}
	return nil
}

// Execute runs one call of the tool. See tool.Adapter.
func (a *Adapter) Execute(
	ctx context.Context, m *tool.Manifest, inv tool.Invocation, sink tool.Sink,
) (tool.Result, error) {
	out, err := a.run(ctx, m, sink, func(ctx context.Context, sink tool.Sink) answer {
		res, err := a.funcs[nameOf(m)](ctx, inv, sink)
		return answer{result: res, found: true, err: err}
	})
	return out.result, err
}

// Lookup asks the tool whether the effect of the invocation's key is committed. See tool.Adapter.
func (a *Adapter) Lookup(ctx context.Context, m *tool.Manifest, inv tool.Invocation) (tool.Result, bool, error) {
	if !m.Capability.Lookup {
		return tool.Result{}, false, tool.ErrNoLookup
	}
	out, err := a.run(ctx, m, nil, func(ctx context.Context, _ tool.Sink) answer {
		res, found, err := a.lookups[nameOf(m)](ctx, inv)
		return answer{result: res, found: found, err: err}
	})
	return out.result, out.found, err
}

// answer is what a function returned.
type answer struct {
	result tool.Result
	found  bool
	err    error
}

// function is what a run calls: a tool or a lookup, with its invocation.
type function func(ctx context.Context, sink tool.Sink) answer

// run runs a function in this goroutine. The watchdog of the run that ctx belongs to ends it: at its deadline, when it
// is stopped, and when a chunk is refused. If the function does not return in its grace then, the owner of the run goes
// on without it.
func (a *Adapter) run(ctx context.Context, m *tool.Manifest, sink tool.Sink, f function) (answer, error) {
	if err := errors.Join(a.Validate(m), a.crowded(m)); err != nil {
		return answer{}, &tool.StartError{Err: err}
	}
	if ctx.Err() != nil {
		return answer{}, tool.Stopped(ctx, envelope.EffectNone, "")
	}
	of := timer.RunOf(ctx)
	if of == nil {
		return answer{}, &tool.StartError{Err: errNoRun}
	}
	if due, _ := ctx.Deadline(); time.Until(due) > m.Limits.Longest() { // admitted by a build with another limit
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, m.Limits.Longest())
		defer cancel()
	}
	g := &runLimits{running: ctx, run: of, sink: sink, limit: m.Limits.OutputBytes, of: a, m: m}
	of.Guard(grace, g)
	out := g.call(f)
	if !of.Release() {
		a.stray(m, -1)
		return answer{}, tool.ErrAbandoned
	}
	defer g.shut()
	return g.judge(out)
}

// Abandon implements watchdog.Guest.
func (g *runLimits) Abandon() error {
	g.of.stray(g.m, +1)
	defer g.shut()
	_, err := g.judge(answer{err: errLeaked})
	return err
}

// call calls f. A function that ends its goroutine ends this one: the owner of the run goes on in another.
func (g *runLimits) call(f function) (out answer) {
	out.err = errUnfinished
	defer func() {
		if !errors.Is(out.err, errUnfinished) {
			return
		}
		panicked := recover()
		if out.err = crashed(panicked); panicked == nil && !g.run.Lose(out.err) {
			g.of.stray(g.m, -1)
		}
	}()
	ended := f(g.running, g)
	ended.err = plain(ended.err) // may panic as well
	return ended
}

// nameOf is the name that a native tool was registered under.
func nameOf(m *tool.Manifest) string {
	e, _ := m.Endpoint.(Endpoint)
	return e.Native
}

// stray counts the runs of a tool that go on although nobody waits for them.
func (a *Adapter) stray(m *tool.Manifest, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leaked[nameOf(m)] += n
}

// crowded says whether strays occupy all runs that the tool may have.
func (a *Adapter) crowded(m *tool.Manifest) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := a.leaked[nameOf(m)]; n >= max(1, m.Limits.Concurrency) {
		return fmt.Errorf("%d runs of %s ignored the end of their context and still go on", n, m.ToolID)
	}
	return nil
}
