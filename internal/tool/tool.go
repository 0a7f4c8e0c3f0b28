package tool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// Invocation is one run of one tool function. The executor passes it to an adapter after all checks have passed.
type Invocation struct {
	CallID      string
	ToolID      string
	ToolVersion string
	Digest      string // build digest of the manifest that the executor runs
	Fn          string
	Input       jsontext.Value
	// Done, if not nil, releases the memory budget of a large Input. The adapter may call it, also more than once, as soon
	// as it does not need Input any more, although the tool still runs.
	Done func() `json:"-"`
	// Context holds the members of the request's context that the manifest lists, see Manifest.Context. It is nil if it
	// would be empty.
	Context jsontext.Value
	// MCPMeta is an object, or nil: the _meta of an MCP client, without the members of Toolbus and of the protocol. It is
	// for the servers of MCP tools.
	MCPMeta jsontext.Value `json:",omitzero"`
	// MCPInput is for the servers of MCP tools, too. The executor has checked that the caller may answer the question.
	MCPInput MCPInput `json:",omitzero"`
	// IdempotencyKey is the id of the call, 32 lower-case letters and digits: the hash of tenant, key scope with its actor
	// or session, tool, function, dry run and the caller's key. It is the same in every attempt and run of the call and in
	// no other call. So a tool commits its effect under it, looks the effect up by it, and passes it to the services that
	// it calls. Tools do not get the caller's own key, because another tenant or actor may use the same one.
	IdempotencyKey string
	Attempt        int
	// Fence grows with every run of the call. A tool may refuse a fence that is lower than one it has seen.
	Fence uint64
	// Deadline is a time of this host's clock, which the tool reads, too.
	Deadline time.Time
	DryRun   bool
	// Traceparent is the W3C traceparent of this run: the parent of the spans that the tool makes. It is set also if no
	// exporter is configured.
	Traceparent string
	// Report, if not nil, takes what the tool reports of itself while it runs. It keeps nothing of its argument.
	Report func(Report) `json:"-"`
}

// Report describes what a tool reports of itself, as it says it. The executor knows what the manifest declares of it.
type Report struct {
	Type  string // metric, attribute or event
	Name  string
	Kind  string         // of a metric: counter, the default, or histogram
	Value jsontext.Value // of a metric or an attribute
	// Unknown is a member that a report without a name has and no report may have, or "".
	Unknown string
}

// Caller decodes Context. The members that the manifest does not list are zero.
func (inv Invocation) Caller() (c envelope.RequestContext, err error) {
	if len(inv.Context) > 0 {
		err = json.Unmarshal(inv.Context, &c)
	}
	return c, err
}

// Result is the result of a successful run. Output is one JSON value. Metrics holds only values that the adapter
// measured (CPU, memory).
type Result struct {
	Output      jsontext.Value
	SideEffects []jsontext.Value
	Warnings    []string
	Metrics     envelope.Metrics
	Server      string // version of the MCP server that ran the call, as it reports it, or ""
}

// Check returns an error if r breaks the tool contract. It does not validate Output against its schema; the executor
// does.
func (r Result) Check() error {
	switch {
	case !r.Output.IsValid():
		return errors.New("the output is no JSON value")
	case ijson.Depth(r.Output)+1 > ijson.MaxDepth: // the response adds one level
		return fmt.Errorf("the output is nested deeper than %d", ijson.MaxDepth-1)
	case len(r.SideEffects) > envelope.MaxSideEffects:
		return fmt.Errorf("more than %d side effects", envelope.MaxSideEffects)
	case len(r.Warnings) > envelope.MaxWarnings:
		return fmt.Errorf("more than %d warnings", envelope.MaxWarnings)
	}
	aside := 0 // bytes of JSON
	for i, effect := range r.SideEffects {
		if err := checkSideEffect(effect); err != nil {
			return fmt.Errorf("side effect %d: %w", i, err)
		}
		aside += len(effect)
	}
	for _, warning := range r.Warnings {
		quoted, err := jsontext.AppendQuote(nil, warning)
		if len(warning) > envelope.MaxMessage || err != nil {
			return fmt.Errorf("a warning is longer than %d bytes or no UTF-8", envelope.MaxMessage)
		}
		aside += len(quoted)
	}
	if aside > envelope.MaxAside {
		return fmt.Errorf("the side effects and warnings take %d bytes, at most %d", aside, envelope.MaxAside)
	}
	return nil
}

// checkSideEffect returns an error if a response with effect could not be decoded.
func checkSideEffect(effect jsontext.Value) error {
	const above = 2 // levels that the response and its list add
	if effect.Kind() != '{' || !effect.IsValid() {
		return errors.New(`it is not a JSON object such as {"kind":"write","target":"file:///srv/out/a.txt"}`)
	}
	if bad := ijson.Check(effect); len(bad) > 0 {
		return fmt.Errorf("%q: %s", bad[0].Pointer, bad[0].Message)
	}
	if ijson.Depth(effect)+above > ijson.MaxDepth {
		return fmt.Errorf("it is nested deeper than %d", ijson.MaxDepth-above)
	}
	return nil
}

// Sink receives the chunks of a running tool. Emit blocks while earlier chunks are being stored. After an error the
// stream has ended or is over its limit, and the run must end. A Sink is not safe for concurrent use.
type Sink interface {
	Emit(ctx context.Context, kind envelope.ChunkKind, data jsontext.Value) error
}

// Adapter runs tools of one transport. Its methods are safe for concurrent use.
type Adapter interface {
	// Validate returns an error if this adapter cannot run the tool on this host.
	Validate(m *Manifest) error
	// Execute runs the tool until it ends or ctx ends. All processes and goroutines of the run have ended when Execute
	// returns. An adapter that cannot ensure this needs a ctx from a timer.Run and guards that run, so that the watchdog
	// can abandon it. If the transport allows it, the adapter enforces the deadline of ctx also while this process is
	// frozen. [ClassifyError] maps the error to an error code.
	Execute(ctx context.Context, m *Manifest, inv Invocation, sink Sink) (Result, error)
	// Lookup asks whether the effect of the call with inv.IdempotencyKey is committed. If found is true, res is the
	// committed result. A tool without lookup returns ErrNoLookup.
	Lookup(ctx context.Context, m *Manifest, inv Invocation) (res Result, found bool, err error)
}

// CallValidator is an adapter that can refuse single calls, for what their schema cannot say.
type CallValidator interface {
	// ValidateCall returns an error to refuse the call. The executor calls it right before Execute, under the same ctx and
	// rules, and does not call Execute after an error. It must change nothing. [ClassifyError] maps the error.
	ValidateCall(ctx context.Context, m *Manifest, inv Invocation) error
}

// ValidateCall returns the error by which a refuses the call. It returns nil if a is no [CallValidator].
func ValidateCall(ctx context.Context, a Adapter, m *Manifest, inv Invocation) error {
	if v, ok := a.(CallValidator); ok {
		return v.ValidateCall(ctx, m, inv)
	}
	return nil
}

// ErrorClassifier is an adapter that maps errors of Execute to error codes itself. It maps every error, and keeps the
// effect that the tool states. For the effect of a run whose tool states nothing it follows the rules of [Classify].
type ErrorClassifier interface {
	ClassifyError(m *Manifest, err error) *envelope.Error
}

// ClassifyError maps an error of a's Execute to an error code, as [Classify] does unless a is an [ErrorClassifier].
func ClassifyError(a Adapter, m *Manifest, err error) *envelope.Error {
	if own, ok := a.(ErrorClassifier); ok {
		return own.ClassifyError(m, err)
	}
	return Classify(m, err)
}

// Defined is an endpoint of a tool whose definition belongs to a server. The server may change it after its approval.
type Defined interface {
	Endpoint
	// Approved returns the name of the server and the digest of the approved definition. The digest is "" if any
	// definition is accepted.
	Approved() (server, definition string)
}

// Approved returns the server that defines the tool, and the digest of the approved definition. Both are "" if no
// server defines the tool. Only the digest is "" if any definition is accepted.
func (m *Manifest) Approved() (server, definition string) {
	if e, ok := m.Endpoint.(Defined); ok {
		return e.Approved()
	}
	return "", ""
}

// Coercing is an endpoint that says whether inputs are coerced for it.
type Coercing interface {
	Endpoint
	// Coerces reports whether the tool gets strings as the values that they spell, see [Manifest.Coerced].
	Coerces() bool
}

// Coerced returns an input of a function as the tool gets it. If its endpoint says so, strings become the values that
// they spell where the schema wants these, see jsonschema.Schema.Coerce. A valid input stays as it is, and one that is
// too large for a request. Dispatchers check the result, and adapters pass it on: the log, the record and the
// fingerprint have the input as the caller sent it.
func (m *Manifest) Coerced(fn string, input jsontext.Value) jsontext.Value {
	f, has := m.Function(fn)
	if !has || !m.coerces() || f.Request == nil || len(input) > envelope.MaxInline {
		return input
	}
	return f.Request.Coerce(input)
}

func (m *Manifest) coerces() bool {
	e, ok := m.Endpoint.(Coercing)
	return ok && e.Coerces()
}

// Verdict is the result of comparing a tool's current definition at its server with the approved one.
type Verdict int

// The verdicts.
const (
	NotCompared Verdict = iota
	AsApproved
	Changed // the adapter does not call the tool
)

// Comparer is an adapter of tools that servers define. Its methods are safe for concurrent use.
type Comparer interface {
	// Compared returns the verdict of the last comparison. It sends nothing to the server.
	Compared(m *Manifest) Verdict
	// Recheck compares the definitions of tools again, over connections that are already open. It asks a server that has
	// announced a change, and, at most once a minute, a server that has changed one of the tools. It starts no server.
	Recheck(ctx context.Context, tools []*Manifest)
	// Offered returns the sorted names of the tools that the servers of these tools have beside them, by server. It sends
	// nothing to the servers.
	Offered(tools []*Manifest) map[string][]string
	// Announced returns how often the servers of these tools have announced a change of their resources or prompts, by
	// server, without those that have not. It sends nothing to the servers.
	Announced(tools []*Manifest) map[string]int64
}
