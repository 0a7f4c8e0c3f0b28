package toolbus

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/program"
)

// ErrAbsent is what a lookup returns when no effect was committed under the key of the call.
var ErrAbsent = program.ErrAbsent

// Run is one run of a function: what is known of the call, and what the function tells of it besides its result.
// Its methods are safe for concurrent use, and must not be called after the function has returned. The zero value is a
// run that nobody watches, for a test that calls the function itself.
type Run struct {
	CallID string
	// IdempotencyKey is the key under which to commit an effect and by which to look it up: 32 lower-case letters and
	// digits, the same in every run of the call and in no other call.
	IdempotencyKey string
	Attempt        int       // from 1
	Fence          uint64    // grows with every run of the call
	Deadline       time.Time // at which the context ends
	DryRun         bool

	invocation tool.Invocation
	mu         sync.Mutex
	emit       func(kind envelope.ChunkKind, data jsontext.Value) error
	effects    []SideEffect
	warnings   []string
}

func newRun(inv tool.Invocation, emit func(envelope.ChunkKind, jsontext.Value) error) *Run {
	return &Run{
		CallID: inv.CallID, IdempotencyKey: inv.IdempotencyKey, Attempt: inv.Attempt, Fence: inv.Fence,
		Deadline: inv.Deadline, DryRun: inv.DryRun, invocation: inv, emit: emit,
	}
}

// Caller returns the context of the request: who calls, and in which trace, session, run and lane.
func (r *Run) Caller() (RequestContext, error) { return r.invocation.Caller() }

// SideEffect is one change that a run made outside of itself: its kind, such as file.write; what was changed, which
// holds no secret; and how many bytes were written, where that can be said.
type SideEffect = program.SideEffect

// Emit sends data, which encodes to at most 256 KiB of JSON, to the caller as the next part of the result. The tool
// must declare Streaming, else nobody gets it. Emit waits while too much is under way. After an error the function
// should return: nobody listens any more, or more was emitted than the tool's OutputBytes.
func (r *Run) Emit(data any) error { return r.chunk(envelope.ChunkData, data) }

// Progress is [Run.Emit] of how far the work is.
func (r *Run) Progress(data any) error { return r.chunk(envelope.ChunkProgress, data) }

// Log is [Run.Emit] of something for whoever watches the call.
func (r *Run) Log(data any) error { return r.chunk(envelope.ChunkLog, data) }

// SideEffect adds a change to the outcome, if that is a success. An outcome has room for at most 96 KiB of changes
// and warnings.
func (r *Run) SideEffect(e SideEffect) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.effects = append(r.effects, e)
}

// Warn adds a warning to the outcome, if that is a success.
func (r *Run) Warn(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.warnings = append(r.warnings, fmt.Sprintf(format, args...))
}

func (r *Run) chunk(kind envelope.ChunkKind, data any) error {
	value, err := json.Marshal(data, asJSON)
	if err != nil || r.emit == nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.emit(kind, value)
}

// handler is a function without its types.
type handler func(ctx context.Context, run *Run) (output any, err error)

// untyped makes a handler of a function.
func untyped[In, Out any](f func(context.Context, *Run, In) (Out, error)) handler {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, run *Run) (any, error) {
		var in In
		if err := decode(run.invocation.Input, &in); err != nil {
			return nil, fmt.Errorf("decode the input: %w", err)
		}
		return f(ctx, run, in)
	}
}

// decode reads an input. One whose whole numbers are written as 3.0 or 1e3, which its schema allows, is read anew in
// canonical form.
func decode(input jsontext.Value, into any) error {
	err := json.Unmarshal(input, into, asJSON)
	if err == nil {
		return nil
	}
	canonical := input.Clone()
	if canonical.Canonicalize() != nil || json.Unmarshal(canonical, into, asJSON) != nil {
		return err
	}
	return nil
}

// output runs the handler. Its error is in the words of adapters.
func (h handler) output(ctx context.Context, run *Run) (jsontext.Value, error) {
	out, err := h(ctx, run)
	if err != nil {
		return nil, said(err)
	}
	data, err := json.Marshal(out, asJSON)
	if err != nil {
		return nil, fmt.Errorf("encode the output: %w", err)
	}
	return data, nil
}

// result is what the run of a native tool returns.
func (h handler) result(ctx context.Context, run *Run) (tool.Result, error) {
	out, err := h.output(ctx, run)
	if err != nil {
		return tool.Result{}, err
	}
	res := tool.Result{Output: out, Warnings: run.warnings}
	for _, e := range run.effects {
		data, err := json.Marshal(e)
		if err != nil {
			return tool.Result{}, fmt.Errorf("encode a side effect: %w", err)
		}
		res.SideEffects = append(res.SideEffects, data)
	}
	return res, nil
}
