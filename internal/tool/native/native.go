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

// grace is the time in which a function must return after its context has ended.
const grace = 200 * time.Millisecond

// Func is a tool. It must return when ctx ends. It returns its own failures as *tool.Error. The adapter reports any
// other error, and a panic, as a crash of the tool. The function must not use sink after it has returned.
type Func func(ctx context.Context, inv tool.Invocation, sink tool.Sink) (tool.Result, error)

// LookupFunc reports whether the effect of inv.IdempotencyKey, which belongs to one call only, is committed, and
// returns the committed result.
type LookupFunc func(ctx context.Context, inv tool.Invocation) (res tool.Result, found bool, err error)

// ValidateFunc returns an error to refuse a call before its Func runs, a *tool.Error as a Func does. It must change
// nothing.
type ValidateFunc func(ctx context.Context, inv tool.Invocation) error

// Adapter runs native tools. It is safe for concurrent use.
type Adapter struct {
	funcs   map[string]Func
	lookups map[string]LookupFunc
	checks  map[string]ValidateFunc

	mu     sync.Mutex
	leaked map[string]int // abandoned runs that have not returned, by the name of the function
}

var (
	_ tool.Adapter       = (*Adapter)(nil)
	_ tool.CallValidator = (*Adapter)(nil)
)

// Option configures an Adapter.
type Option func(*Adapter)

// WithLookup registers f as the lookup of the function name.
func WithLookup(name string, f LookupFunc) Option {
	return func(a *Adapter) { a.lookups[name] = f }
}

// WithValidate registers f as the check of the calls of the function name.
func WithValidate(name string, f ValidateFunc) Option {
	return func(a *Adapter) { a.checks[name] = f }
}

// New returns an adapter. The keys of funcs are the names that manifests give in endpoint.native.
func New(funcs map[string]Func, opts ...Option) *Adapter {
	a := &Adapter{
		funcs: make(map[string]Func, len(funcs)), lookups: map[string]LookupFunc{}, checks: map[string]ValidateFunc{},
		leaked: map[string]int{},
	}
	maps.Copy(a.funcs, funcs)
	for _, opt := range opts {
		opt(a)
	}
	return a
}

// Validate returns an error if the tool's function, or its lookup, is not registered.
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

// ValidateCall asks the check of the tool, if it has one. See tool.CallValidator.
func (a *Adapter) ValidateCall(ctx context.Context, m *tool.Manifest, inv tool.Invocation) error {
	check := a.checks[nameOf(m)]
	if check == nil {
		return nil
	}
	_, err := a.run(ctx, m, nil, func(ctx context.Context, _ tool.Sink) answer {
		return answer{result: tool.Result{Output: []byte("null")}, err: check(ctx, inv)}
	})
	return err
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

// Lookup asks the tool whether the effect of inv.IdempotencyKey is committed. See tool.Adapter.
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

// answer holds the results of a function.
type answer struct {
	result tool.Result
	found  bool
	err    error
}

// function is a tool or a lookup with its invocation.
type function func(ctx context.Context, sink tool.Sink) answer

// run calls f in this goroutine. ctx must come from a timer.Run. Its watchdog ends the run at its deadline, when it is
// stopped, and after a refused chunk. If f then does not return within the grace, the watchdog abandons the run, and
// the owner of the run continues in another goroutine.
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
	if due, _ := ctx.Deadline(); time.Until(due) > m.Limits.Longest() { // admitted under a higher limit
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

// Abandon implements timer.Guest.
func (g *runLimits) Abandon() error {
	g.of.stray(g.m, +1)
	defer g.shut()
	_, err := g.judge(answer{err: errLeaked})
	return err
}

// call calls f. If f ends its goroutine with runtime.Goexit, run does not return; then call abandons the run, so that
// its owner continues in another goroutine.
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
	ended.err = plain(ended.err) // methods of the error may panic, too
	return ended
}

// nameOf returns the name under which the tool's function is registered.
func nameOf(m *tool.Manifest) string {
	e, _ := m.Endpoint.(Endpoint)
	return e.Native
}

// stray adds n to the number of abandoned runs of a tool that have not returned.
func (a *Adapter) stray(m *tool.Manifest, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leaked[nameOf(m)] += n
}

// crowded returns an error if abandoned runs use up the concurrency limit of the tool.
func (a *Adapter) crowded(m *tool.Manifest) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := a.leaked[nameOf(m)]; n >= max(1, m.Limits.Concurrency) {
		return fmt.Errorf("%d runs of %s ignored the end of their context and still go on", n, m.ToolID)
	}
	return nil
}
