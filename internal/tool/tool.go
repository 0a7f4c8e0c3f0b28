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

// Invocation is one run of one tool function: what an adapter gets after every check passed.
type Invocation struct {
	CallID      string
	ToolID      string
	ToolVersion string
	Digest      string
	Fn          string
	Input       jsontext.Value
	// Done may be called, once or more often, when Input is not needed any more, though the tool still runs: a large
	// one takes room from others. It may be nil.
	Done    func()         `json:"-"`
	Context jsontext.Value // as it came; see Caller
	// IdempotencyKey is the id of the call, 32 lower-case letters and digits: the hash of tenant, key scope, tool,
	// function, dry run and the caller's key. It is the same in every attempt and run of the call and in no other
	// call, so it is the key to commit under, to look up by, and to hand to whatever the tool calls in turn. The
	// caller's own key, which another tenant or actor may use as well, is not told to tools.
	IdempotencyKey string
	Attempt        int
	// Fence grows with every run of the call; a tool may refuse a lower one than it has seen.
	Fence uint64
	// Deadline is by the clock of this host, as the tool reads it.
	Deadline time.Time
	DryRun   bool
}

// Caller returns the context of the request: who asks, and in which trace.
func (inv Invocation) Caller() (c envelope.RequestContext, err error) {
	if len(inv.Context) > 0 {
		err = json.Unmarshal(inv.Context, &c)
	}
	return c, err
}

// Result is what a run produced. Output is one JSON value; Metrics holds only what the adapter
// measured (CPU, memory).
type Result struct {
	Output      jsontext.Value
	SideEffects []jsontext.Value
	Warnings    []string
	Metrics     envelope.Metrics
}

// Check says what is wrong with r by the tool contract, or nil. That the output fits its schema
// is checked by whoever asked for it.
func (r Result) Check() error {
	switch {
	case !r.Output.IsValid():
		return errors.New("the output is no JSON value")
	case ijson.Depth(r.Output)+1 > ijson.MaxDepth: // the response is around it
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

// checkSideEffect says why a response with effect could not be read, or nil.
func checkSideEffect(effect jsontext.Value) error {
	const above = 2 // what is around it: the response and the list
	if effect.Kind() != '{' || !effect.IsValid() {
		return errors.New("it is no JSON object")
	}
	if bad := ijson.Check(effect); len(bad) > 0 {
		return fmt.Errorf("%q: %s", bad[0].Pointer, bad[0].Message)
	}
	if ijson.Depth(effect)+above > ijson.MaxDepth {
		return fmt.Errorf("it is nested deeper than %d", ijson.MaxDepth-above)
	}
	return nil
}

// Sink takes what a streaming tool emits while it runs. Emit blocks while the write window is
// full and returns an error when the stream is gone or over its limit; the run must then end.
// It is not safe for concurrent use.
type Sink interface {
	Emit(ctx context.Context, kind envelope.ChunkKind, data jsontext.Value) error
}

// Adapter runs tools of one transport. Normalisation
// of arguments is the same for every transport and lives in ijson.Canonical. All methods are
// safe for concurrent use.
type Adapter interface {
	// Validate says whether the manifest's endpoint can be run by this adapter on this host.
	Validate(m *Manifest) error
	// Execute runs the tool until it ends or ctx does. When ctx ends, every process and
	// goroutine of the run is gone before Execute returns; an adapter that cannot see to that needs a
	// watchdog.Run above ctx and guards it, so that its owner can do without it. A deadline of ctx is to be kept also
	// while this process is frozen, where the transport can. The error, if any, is classified by
	// [ClassifyError].
	Execute(ctx context.Context, m *Manifest, inv Invocation, sink Sink) (Result, error)
	// Lookup asks whether the effect of the call, by inv's idempotency key, has been committed. found is
	// true only with the committed result. A tool without lookup returns ErrNoLookup.
	Lookup(ctx context.Context, m *Manifest, inv Invocation) (res Result, found bool, err error)
}

// ErrorClassifier is an adapter that maps errors of Execute to error codes itself. The mapping is total and keeps what
// the tool said of its effect; where the tool said nothing, the effect is unknown.
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
