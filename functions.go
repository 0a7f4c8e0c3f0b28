package toolbus

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/native"
)

// EffectClass says what may be done with the calls of a tool after a crash.
type EffectClass string

// The classes.
const (
	Pure          = EffectClass(call.Pure)          // changes nothing: runs again
	Idempotent    = EffectClass(call.Idempotent)    // a second run under the same key changes nothing more: runs again
	SideEffectful = EffectClass(call.SideEffectful) // runs once; see [WithLookup] for one that is interrupted
)

// Effect says whether the effect of a call took place.
type Effect = envelope.Effect

// What a tool knows of its effect.
const (
	EffectNone    Effect = envelope.EffectNone
	EffectApplied Effect = envelope.EffectApplied
	EffectUnknown Effect = envelope.EffectUnknown
)

// Tool says what a tool is. ID and Class are required; the other zero values are defaults.
type Tool struct {
	ID      string // such as text.search or local::fs.write: lower-case letters, digits and . _ -, at most 128 bytes
	Version string // semantic, such as 1.2.3, of which callers ask for ranges; default 0.1.0
	Class   EffectClass

	// Name is the tool's name in MCP: letters, digits, _ and -, at most 48 characters. Default: ID with _ in the place of
	// all other characters. The name of each function of a tool that has several follows it.
	Name        string
	Title       string   // default ID
	Description string   // for people, and for models that choose a tool; default Title
	Owner       string   // who answers for it; default "@local"
	Tags        []string // to be found by
	Streaming   bool     // it uses [Run.Emit], [Run.Progress] or [Run.Log]: without it they go nowhere
	DryRun      bool     // its functions obey DryRun of the [Run]; dry runs of other tools are refused
	Errors      []*ToolError
	Pool        string        // of executors that run it: lower-case letters, digits and -; default "default"
	Retention   time.Duration // how long outcomes are kept; whole seconds, at most a year, default 24 h
	// AcceptRerun lets a SideEffectful tool be called on a bus that does not sync every write, where it may run again
	// after a power cut.
	AcceptRerun bool

	Timeout     time.Duration // of a call that names none, in whole ms; default 15 s, or MaxTimeout where that is less
	MaxTimeout  time.Duration // the longest that a call may ask for; default 60 s, at most 10 min
	Concurrency int           // runs at once in one executor; default 8, at most 10,000
	OutputBytes int64         // of output and chunks together; default 8 MiB, at most 1 GiB

	// Of one function. A tool of several is added once for each; all else must be the same then.
	Function            string // a lower-case letter, then letters, digits and _ . -, at most 64 bytes; default "run"
	FunctionDescription string // default Description
	// Request and Response are JSON Schemas (2020-12) of input and output; default those of In and Out, see [Add].
	Request, Response jsontext.Value
}

// Toolset are what an executor runs, or a program: functions that were added, and tools of folders. The zero value has
// none. Tools are not safe for concurrent use; what was made of them does not see what is added later.
type Toolset struct {
	typed   map[string]*typed
	folders []*tool.Manifest
	bad     error // what could not be added
}

// NewToolset returns no tools.
func NewToolset() *Toolset { return new(Toolset) }

// typed is a tool whose functions are Go functions.
type typed struct {
	about    Tool // of the first function
	parts    []part
	manifest *tool.Manifest // of all parts
}

// part is one function of a tool.
type part struct {
	Tool
	run, lookup handler
	looksUp     *[2]reflect.Type // what the lookup takes and returns; nil without one
}

// Add adds a function to the tool that about names, and makes the schemas of its input and output from In and Out.
//
// The JSON of a type is what package encoding/json makes of it: names by json tags, which are told apart by case, times
// as RFC 3339, durations in nanoseconds, []byte in base64. Members are required unless they are omitempty or omitzero,
// and members that a struct does not have are refused. A jsonschema tag describes a member. Pointers and slices may be
// null. What a Go type cannot say, such as an enumeration or a bound, Request and Response of about can.
//
// The function gets a context that ends at the deadline of the call, and when the call is cancelled; it must return
// then. A [ToolError] that it returns is an outcome that the tool declares; any other error, and a panic, is a fault of
// the tool, and callers are told of it. The function is called concurrently.
//
// The error lists all that is wrong. Whoever does not look at it gets it again from whatever is made of tools.
func Add[In, Out any](tools *Toolset, about Tool, f func(ctx context.Context, run *Run, in In) (Out, error),
	options ...AddOption) error {
	p := part{Tool: about, run: untyped(f)}
	for _, o := range options {
		o.apply(&p)
	}
	return tools.add(p, reflect.TypeFor[In](), reflect.TypeFor[Out]())
}

// AddOption is an option of [Add]; [WithLookup] makes one.
type AddOption struct{ apply func(*part) }

// WithLookup gives a function that is [SideEffectful] another one that says what became of a run that was interrupted:
// lookup returns the output of the run if the effect of the IdempotencyKey is committed, and [ErrAbsent]
// if it is not. It changes nothing. Without a lookup the outcome of such a run is that its effect is unknown.
func WithLookup[In, Out any](lookup func(ctx context.Context, run *Run, in In) (Out, error)) AddOption {
	return AddOption{func(p *part) {
		p.lookup, p.looksUp = untyped(lookup), &[2]reflect.Type{reflect.TypeFor[In](), reflect.TypeFor[Out]()}
	}}
}

// AddFolder adds the tools of a folder: programs with a manifest, each in a folder of its own, as `toolbus dev` has
// them. The error lists all that is wrong with any of them.
func (t *Toolset) AddFolder(dir string) error {
	r, err := tool.Load(dir, app.Transports()...)
	if err != nil {
		return t.refuse(err)
	}
	var all error
	for _, m := range r.List() {
		if t.has(m.ToolID) {
			all = errors.Join(all, fmt.Errorf("%s: there is a tool %s already", dir, m.ToolID))
		}
	}
	t.folders = append(t.folders, r.List()...)
	return t.refuse(all)
}

// Len counts the tools.
func (t *Toolset) Len() int { return len(t.typed) + len(t.folders) }

// has reports whether there is a tool with that id.
func (t *Toolset) has(id string) bool {
	return t.typed[id] != nil || slices.ContainsFunc(t.folders, func(m *tool.Manifest) bool { return m.ToolID == id })
}

// refuse remembers an error for whatever is made of the tools.
func (t *Toolset) refuse(err error) error {
	t.bad = errors.Join(t.bad, err)
	return err
}

func (t *Toolset) add(p part, in, out reflect.Type) error {
	next, err := t.with(p, in, out)
	if err != nil {
		return t.refuse(fmt.Errorf("tool %q, function %q:\n%w", p.ID, p.fn(), err))
	}
	if t.typed == nil {
		t.typed = map[string]*typed{}
	}
	t.typed[p.ID] = next
	return nil
}

// checkLookup reports what is wrong with the lookup of a function from in to out.
func (p part) checkLookup(in, out reflect.Type) error {
	switch {
	case p.looksUp == nil:
		return nil
	case p.lookup == nil:
		return errors.New("the lookup is nil: pass a function to WithLookup, or leave it out")
	case *p.looksUp != [2]reflect.Type{in, out}:
		return fmt.Errorf("the lookup takes %s and returns %s, the function takes %s and returns %s: they must be the same",
			p.looksUp[0], p.looksUp[1], in, out)
	}
	return nil
}

// with returns the tool of a part together with those that it has already.
func (t *Toolset) with(p part, in, out reflect.Type) (*typed, error) {
	var bad []error
	if p.run == nil {
		bad = append(bad, errors.New("there is no function"))
	}
	bad = append(bad, p.checkLookup(in, out))
	if !slices.Contains([]EffectClass{Pure, Idempotent, SideEffectful}, p.Class) {
		bad = append(bad, fmt.Errorf("the class is %q: it is Pure, Idempotent or SideEffectful, see toolbus.EffectClass",
			p.Class))
		p.Class = Pure // judge the rest
	}
	next := &typed{about: p.Tool, parts: []part{p}}
	if had := t.typed[p.ID]; had != nil {
		next = &typed{about: had.about, parts: append(slices.Clone(had.parts), p)}
		bad = append(bad, had.differs(p))
	} else if t.has(p.ID) {
		bad = append(bad, errors.New("there is a tool of a folder with that id already"))
	}
	last := &next.parts[len(next.parts)-1]
	bad = append(bad, describe(&last.Request, "input", in), describe(&last.Response, "output", out))
	var err error
	next.manifest, err = next.load()
	if err = errors.Join(append(bad, err)...); err != nil {
		return nil, err
	}
	fn := next.manifest.Functions[p.fn()]
	if p.Request == nil {
		bad = append(bad, fits(fn.Request, in))
	}
	if p.Response == nil {
		bad = append(bad, fits(fn.Response, out))
	}
	return next, errors.Join(bad...)
}

// describe fills in the schema of a type, unless the tool has its own.
func describe(s *jsontext.Value, what string, t reflect.Type) (err error) {
	if *s == nil {
		if *s, err = jsonschema.FromType(t); err != nil {
			*s = jsontext.Value("true") // judge the rest
			return fmt.Errorf("there is no schema of the %s: %w", what, err)
		}
	}
	return nil
}

// differs says why a further function is none of the tool.
func (t *typed) differs(p part) error {
	if _, double := t.part(p.fn()); double {
		return fmt.Errorf("there is a function %s already", p.fn())
	}
	one, other := p.Tool, t.about
	for _, about := range []*Tool{&one, &other} {
		about.Function, about.FunctionDescription, about.Request, about.Response = "", "", nil, nil
	}
	if !reflect.DeepEqual(one, other) {
		return errors.New("the functions of one tool differ in Function, FunctionDescription, Request and Response, " +
			"and in nothing else")
	}
	return nil
}

// registry returns all tools.
func (t *Toolset) registry() (*tool.Set, error) {
	all := slices.Clone(t.folders)
	for _, one := range t.typed {
		all = append(all, one.manifest)
	}
	return tool.NewSet(all...), t.bad
}

// native returns what runs the functions.
func (t *Toolset) native() *native.Adapter {
	funcs := map[string]native.Func{}
	var lookups []native.Option
	for id, one := range t.typed {
		funcs[id] = one.execute
		lookups = append(lookups, native.WithLookup(id, one.lookup))
	}
	return native.New(funcs, lookups...)
}

func (t *typed) execute(ctx context.Context, inv tool.Invocation, sink tool.Sink) (tool.Result, error) {
	p, ok := t.part(inv.Fn)
	if !ok {
		return tool.Result{}, fmt.Errorf("no function %q", inv.Fn)
	}
	return p.run.result(ctx, newRun(inv, func(kind envelope.ChunkKind, data jsontext.Value) error {
		return sink.Emit(ctx, kind, data)
	}))
}

func (t *typed) lookup(ctx context.Context, inv tool.Invocation) (res tool.Result, found bool, err error) {
	p, ok := t.part(inv.Fn)
	if !ok || p.lookup == nil {
		return res, false, tool.ErrNoLookup
	}
	res, err = p.lookup.result(ctx, newRun(inv, nil))
	if errors.Is(err, ErrAbsent) {
		return res, false, nil
	}
	return res, err == nil, err
}

func (t *typed) part(fn string) (part, bool) {
	i := slices.IndexFunc(t.parts, func(p part) bool { return p.fn() == fn })
	if i < 0 {
		return part{}, false
	}
	return t.parts[i], true
}
