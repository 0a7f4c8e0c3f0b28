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

// ErrAbsent is the error that a lookup returns if no effect is committed under the key of the call.
var ErrAbsent = program.ErrAbsent

// Run is one run of a function. It holds the facts of the call, and its methods send chunks, side effects and warnings
// to the caller. Its methods are safe for concurrent use. Do not call them after the function has returned. The zero
// value drops all chunks; tests use it to call a function directly.
type Run struct {
	CallID string
	// IdempotencyKey is the key under which the function commits its effect, and by which a lookup finds it. It has 32
	// lower-case letters and digits. It is the same in every run of the call, and different for every other call.
	IdempotencyKey string
	Attempt        int       // number of the attempt; the first is 1
	Fence          uint64    // fencing token: grows with every run of the call
	Deadline       time.Time // the context ends at this time
	DryRun         bool      // the function must change nothing
	Digest         string    // build digest of the tool: "sha256:" and 64 hex digits
	Traceparent    string    // W3C traceparent of this run, the parent of the spans that the function makes

	invocation tool.Invocation
	mu         sync.Mutex
	emit       func(kind envelope.ChunkKind, data jsontext.Value) error
	effects    []SideEffect
	warnings   []string
}

func newRun(inv tool.Invocation, emit func(envelope.ChunkKind, jsontext.Value) error) *Run {
	return &Run{
		CallID: inv.CallID, IdempotencyKey: inv.IdempotencyKey, Attempt: inv.Attempt, Fence: inv.Fence,
		Deadline: inv.Deadline, DryRun: inv.DryRun, Digest: inv.Digest, Traceparent: inv.Traceparent, invocation: inv,
		emit: emit,
	}
}

// Caller returns the members of the request's context that Tool.Context lists, such as the actor. All other members are
// zero. The error is not nil if the context cannot be decoded.
func (r *Run) Caller() (RequestContext, error) { return r.invocation.Caller() }

// SideEffect describes one change that a run made: its kind, such as file.write; the changed object, without secrets;
// and the number of bytes written, if known.
type SideEffect = program.SideEffect

// Emit sends data to the caller as the next chunk of the result. The JSON of data may have at most 256 KiB. If the tool
// does not declare Streaming, the chunk is dropped and the outcome carries a warning. Emit blocks while earlier chunks
// are being stored. After an error, return: the run cannot go on, or its output exceeds OutputBytes.
func (r *Run) Emit(data any) error { return r.chunk(envelope.ChunkData, data) }

// Progress sends data to the caller as a chunk of kind progress: the state of the work, not part of the result. It has
// the limits and errors of [Run.Emit].
func (r *Run) Progress(data any) error { return r.chunk(envelope.ChunkProgress, data) }

// Log sends data to the caller as a chunk of kind log: a diagnostic, not part of the result. It has the limits and
// errors of [Run.Emit].
func (r *Run) Log(data any) error { return r.chunk(envelope.ChunkLog, data) }

// SideEffect adds a change to the outcome, if that is a success. An outcome holds at most 96 KiB of changes and
// warnings.
func (r *Run) SideEffect(e SideEffect) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.effects = append(r.effects, e)
}

// Warn adds a warning to the outcome, if that is a success. Its arguments are those of fmt.Sprintf.
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

// handler is a function of a tool with its types erased.
type handler func(ctx context.Context, run *Run) (output any, err error)

// untyped returns a handler that decodes the input of the run and calls f. It returns nil if f is nil.
func untyped[In, Out any](f func(context.Context, *Run, In) (Out, error)) handler {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, run *Run) (any, error) {
		var in In
		if err := decode(run.invocation.Input, &in); err != nil {
			return nil, &tool.Error{
				Code: tool.Undecoded, Message: "decode the input: " + err.Error(), Effect: envelope.EffectNone,
			}
		}
		return f(ctx, run, in)
	}
}

// decode decodes an input. If that fails, it decodes the canonical form of the input: JSON Schema accepts 3.0 or 1e3 as
// an integer, but Go integers do not.
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

// output runs the handler and encodes its output. The error is one that adapters return, see said.
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

// result runs the handler and returns the output with the side effects and warnings of the run.
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
