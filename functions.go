package toolbus

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
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

// EffectClass decides whether a call of a tool may run again after a crash.
type EffectClass string

// Values of [EffectClass].
const (
	Pure          = EffectClass(call.Pure)          // the tool changes nothing; the call runs again
	Idempotent    = EffectClass(call.Idempotent)    // a second run with the same key changes nothing; the call runs again
	SideEffectful = EffectClass(call.SideEffectful) // the call runs once; see [WithLookup] for an interrupted run
)

// Effect states whether a call changed anything: [EffectNone], [EffectApplied] or [EffectUnknown].
type Effect = envelope.Effect

// Values of [Effect].
const (
	EffectNone    Effect = envelope.EffectNone    // the call changed nothing
	EffectApplied Effect = envelope.EffectApplied // the effect took place
	EffectUnknown Effect = envelope.EffectUnknown // the effect may have taken place
)

// Tool describes a tool and one of its functions. ID and Class are required; the other zero values are defaults.
type Tool struct {
	ID      string // such as text.search or local::fs.write: lower-case letters, digits and . _ -, at most 128 bytes
	Version string // semantic version, such as 1.2.3; callers ask for ranges of versions; default 0.1.0
	Class   EffectClass

	// Name is the name of the tool in MCP: letters, digits, _ and -, at most 48 characters. Default: ID with all other
	// characters replaced by _. If the tool has several functions, the name of the function is appended.
	Name        string
	Title       string        // default ID
	Description string        // for people, and for models that choose a tool; default Title
	Owner       string        // person or team responsible for the tool; default "@local"
	Tags        []string      // for searches
	Streaming   bool          // required for [Run.Emit], [Run.Progress] and [Run.Log]: otherwise the chunks are dropped
	DryRun      bool          // the functions obey DryRun of the [Run]; if false, dispatchers refuse dry runs
	Errors      []*ToolError  // errors that the functions may return as declared outcomes
	Pool        string        // executors that run the tool: lower-case letters, digits and -; default "default"
	Retention   time.Duration // for which outcomes are kept, in whole seconds; at most 1 year, default 24 h
	// Build names the build of the Go functions, such as a revision of their source code; at most 256 characters, default
	// "". The digest of the tool covers the manifest, the schemas and Build, but not the program of the executor. A call
	// runs only in executors whose tool has the same digest as that of the dispatcher that admitted it. So change Build
	// only with the functions, and give dispatchers and executors the same. [ToolMain] ignores it: the digest of a program
	// covers its file.
	Build string
	// AcceptRerun allows calls of a SideEffectful tool on a bus that does not sync every write. There a call may run again
	// after a power cut.
	AcceptRerun bool
	// Context lists the members of the request's context that [Run.Caller] returns, by their names on the wire, such as
	// actor_id. Default: the functions get no member.
	Context []string

	Timeout     time.Duration // default timeout of a call, in whole ms; default 15 s, or MaxTimeout if that is shorter
	MaxTimeout  time.Duration // longest timeout that a call may have; default 60 s, at most 10 min
	Concurrency int           // largest number of concurrent runs in one executor; default 8, at most 10,000
	OutputBytes int64         // largest size of output and chunks of all kinds together; default 8 MiB, at most 1 GiB

	// The fields below describe one function. To make a tool with several functions, add each function with the same
	// values in all fields above.
	Function            string // a lower-case letter, then letters, digits and _ . -, at most 64 bytes; default "run"
	FunctionDescription string // default Description
	// Request and Response are JSON Schemas (2020-12) of input and output. Default: made from In and Out, see [Add].
	Request, Response jsontext.Value
}

// Toolset is a set of tools for dispatchers, executors or [ToolMain]: Go functions, and tools of folders. The zero
// value is an empty set. A Toolset is not safe for concurrent use. Executors and dispatchers do not see tools that are
// added after they were made, but for those of a folder that is read again, see [Toolset.AddFolder].
type Toolset struct {
	typed   map[string]*typed
	folders []*tool.Manifest
	bad     error // errors of all tools that could not be added

	dirs     []string // absolute names of the folders
	defaults []defaultsFile
	using    using
}

// NewToolset returns an empty set.
func NewToolset() *Toolset { return new(Toolset) }

// typed is a tool whose functions are Go functions.
type typed struct {
	about    Tool // as given for the first function
	parts    []part
	manifest *tool.Manifest // of all functions
}

// part is one function of a tool.
type part struct {
	Tool
	run, lookup handler
	looksUp     *[2]reflect.Type // input and output type of the lookup; nil if there is no lookup
	validate    handler          // nil without a check
	validates   reflect.Type     // its input type; nil without a check
}

// Add adds a function to the tool about.ID, and makes the schemas of its input and output from In and Out.
//
// The JSON of a type is that of package encoding/json: names are those of json tags, times are RFC 3339, durations are
// nanoseconds, and []byte is base64. Names are case-sensitive. Members are required unless they have omitempty or
// omitzero, and unknown members are refused. A jsonschema tag is the description of a member. Pointers and slices may
// be null. For constraints that a Go type cannot express, such as an enumeration or a range, set Request and Response.
//
// The function gets a context that ends at the deadline of the call, or when the call is cancelled; it must then
// return. If it returns a [ToolError], the caller gets that error. Any other error, and a panic, is a fault of the
// tool: the caller gets an outcome with a code of class S-TOOL. Its message is the text of that error, which must hold
// no secrets. The function must be safe for concurrent use.
//
// The error lists all problems. The methods that use tools return it again, so a caller may ignore it here.
func Add[In, Out any](tools *Toolset, about Tool, f func(ctx context.Context, run *Run, in In) (Out, error),
	options ...AddOption) error {
	p := part{Tool: about, run: untyped(f)}
	for _, o := range options {
		o.apply(&p)
	}
	return tools.add(p, reflect.TypeFor[In](), reflect.TypeFor[Out]())
}

// AddOption is an option of [Add]; [WithLookup] and [WithValidate] make one.
type AddOption struct{ apply func(*part) }

// WithLookup adds a lookup to a [SideEffectful] function. If the executor of a run is gone, another one calls it. It
// returns the output of the run if the effect under Run.IdempotencyKey is committed, and [ErrAbsent] if it is not. It
// must change nothing. After an error, also [ErrAbsent], and without a lookup, the outcome is a terminal error with
// unknown effect: the run may still have its effect. After the deadline of the call it is not called, so Timeout must
// be twice the lease of executors or more, which is 5 s by default.
func WithLookup[In, Out any](lookup func(ctx context.Context, run *Run, in In) (Out, error)) AddOption {
	return AddOption{func(p *part) {
		p.lookup, p.looksUp = untyped(lookup), &[2]reflect.Type{reflect.TypeFor[In](), reflect.TypeFor[Out]()}
	}}
}

// WithValidate adds a check of calls that the schema cannot express. Executors call it before the function. If it
// returns an error, the function does not run, and the caller gets that error as one of the function. It must change
// nothing. A refused call has no effect; the effect is unknown if an earlier run of the call may have been interrupted.
func WithValidate[In any](validate func(ctx context.Context, run *Run, in In) error) AddOption {
	return AddOption{func(p *part) {
		p.validates = reflect.TypeFor[In]()
		if validate != nil {
			p.validate = untyped(func(ctx context.Context, run *Run, in In) (any, error) { return nil, validate(ctx, run, in) })
		}
	}}
}

// AddFolder adds the tools of a folder, as `toolbus dev` reads it: each tool is a subfolder with a manifest and a
// program. The error lists the problems of all tools. The methods that use tools return it again.
//
// A folder that was added before is read again, also for the dispatchers and executors that were made with the set. New
// and changed tools are called, and removed ones no longer. Calls that run end on their build. One that waits for a
// build whose program was overwritten ends with S-TOOL-UNAVAILABLE. The error lists the problems of the tools that stay
// as they were.
func (t *Toolset) AddFolder(dir string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return t.refuse(fmt.Errorf("tools folder %s: %w", dir, err))
	}
	if slices.Contains(t.dirs, abs) {
		return t.reload(abs)
	}
	r, err := tool.Load(dir, app.Transports()...)
	if err != nil {
		return t.refuse(err)
	}
	t.dirs = append(t.dirs, abs)
	var all error
	for _, m := range r.List() {
		if t.has(m.ToolID) {
			all = errors.Join(all, fmt.Errorf("%s: there is a tool %s already", dir, m.ToolID))
		}
	}
	t.folders = append(t.folders, r.List()...)
	return t.refuse(all)
}

// Remove takes a tool out of the set that was added with a folder. Executors and dispatchers that were made before
// still have it, and it is in the set again when the folder is read again and the tool can run.
func (t *Toolset) Remove(id string) {
	t.folders = slices.DeleteFunc(t.folders, func(m *tool.Manifest) bool { return m.ToolID == id })
}

// SetDefaults replaces the defaults of the tools that were added before by those of a file: policy/defaults.yaml sets
// timeouts, concurrency and policies by environment (prod, staging or dev) and tool id. A value never exceeds a maximum
// of a manifest. The error lists all problems of the file. The methods that use tools return it again.
func (t *Toolset) SetDefaults(file, environment string) error {
	if !slices.Contains(tool.Environments(), environment) {
		return t.refuse(fmt.Errorf("environment %q: it is one of %v", environment, tool.Environments()))
	}
	d, err := tool.ReadDefaults(file)
	if err != nil {
		return t.refuse(err)
	}
	for i, m := range t.folders {
		if t.folders[i], err = d.Apply(m, environment); err != nil {
			return t.refuse(err)
		}
	}
	for _, of := range t.typed {
		if of.manifest, err = d.Apply(of.manifest, environment); err != nil {
			return t.refuse(err)
		}
	}
	t.defaults = append(t.defaults, defaultsFile{file, environment})
	return nil
}

// Len returns the number of tools.
func (t *Toolset) Len() int { return len(t.typed) + len(t.folders) }

// has reports whether the set has a tool with that id.
func (t *Toolset) has(id string) bool {
	return t.typed[id] != nil || slices.ContainsFunc(t.folders, func(m *tool.Manifest) bool { return m.ToolID == id })
}

// refuse keeps an error for the executors and dispatchers that are made with the set, and returns it.
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

// checkLookup returns an error if the lookup does not fit a function with the types in and out.
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

// checkValidate returns an error if the check does not fit a function with the type in.
func (p part) checkValidate(in reflect.Type) error {
	switch {
	case p.validates == nil:
		return nil
	case p.validate == nil:
		return errors.New("the check is nil: pass a function to WithValidate, or leave it out")
	case p.validates != in:
		return fmt.Errorf("the check takes %s, the function takes %s: they must be the same", p.validates, in)
	}
	return nil
}

// with returns the tool with p added to its functions. It does not change t.
func (t *Toolset) with(p part, in, out reflect.Type) (*typed, error) {
	var bad []error
	if p.run == nil {
		bad = append(bad, errors.New("there is no function"))
	}
	bad = append(bad, p.checkLookup(in, out), p.checkValidate(in))
	if !slices.Contains([]EffectClass{Pure, Idempotent, SideEffectful}, p.Class) {
		bad = append(bad, fmt.Errorf("the class is %q: it is Pure, Idempotent or SideEffectful, see toolbus.EffectClass",
			p.Class))
		p.Class = Pure // so that the other checks can go on
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
			*s = jsontext.Value("true") // so that the other checks can go on
			return fmt.Errorf("there is no schema of the %s: %w", what, err)
		}
	}
	return nil
}

// differs returns an error if p cannot be a further function of the tool: its name is taken, or other fields differ.
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

// registry returns all tools, and the errors of those that could not be added.
func (t *Toolset) registry() (*tool.Set, error) {
	all := slices.Clone(t.folders)
	for _, one := range t.typed {
		all = append(all, one.manifest)
	}
	return tool.NewSet(all...), t.bad
}

// native returns the adapter that runs the Go functions.
func (t *Toolset) native() *native.Adapter {
	funcs := map[string]native.Func{}
	var options []native.Option
	for id, one := range t.typed {
		funcs[id] = one.execute
		options = append(options, native.WithLookup(id, one.lookup))
		if slices.ContainsFunc(one.parts, func(p part) bool { return p.validate != nil }) {
			options = append(options, native.WithValidate(id, one.check))
		}
	}
	return native.New(funcs, options...)
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

// check refuses a call by the check of its function.
func (t *typed) check(ctx context.Context, inv tool.Invocation) error {
	p, ok := t.part(inv.Fn)
	if !ok || p.validate == nil {
		return nil
	}
	_, err := p.validate.output(ctx, newRun(inv, nil))
	return err
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
