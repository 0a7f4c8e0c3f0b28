package executor

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// result makes the verdict from the result of a run. A result that does not fit the response schema of the tool
// becomes an error.
func (r *run) result(res tool.Result, fault *envelope.Error) verdict {
	d := outcome.Draft{SideEffects: res.SideEffects, Warnings: res.Warnings, Metrics: res.Metrics}
	d.Metrics.DurationMS = time.Since(r.began).Milliseconds()
	d.Metrics.QueueMS = max(0, r.started.Sub(r.job.enqueued()).Milliseconds())
	d.Timed = true
	end := call.Completion{Cause: call.ToolEnded, Effect: envelope.EffectApplied, Fence: r.fence}
	end.Writes, end.Server = call.Writes(res.SideEffects), call.PlainVersion(res.Server)
	if violation := r.foreignWrite(end.Writes, fault); violation != nil {
		fault = violation
	} else if fault == nil {
		fault = r.checkOutput(res, &d)
	}
	if fault != nil {
		d.Error, end.Error, end.Effect = fault, fault.Code, fault.Details.Effect
		if end.Effect == "" {
			end.Effect = envelope.EffectUnknown
		}
		end.Output = r.keepResult(r.context, fault, &d)
		return verdict{end: end, draft: d}
	}
	sum := sha256.Sum256(res.Output)
	var digits [2 * sha256.Size]byte
	end.Output = string(hex.AppendEncode(digits[:0], sum[:]))
	return verdict{end: end, draft: d}
}

func (r *run) checkOutput(res tool.Result, d *outcome.Draft) *envelope.Error {
	if n := len(res.Output); n > envelope.MaxPayload {
		says := fmt.Sprintf("the output is %d bytes, at most %d are allowed", n, envelope.MaxPayload)
		return envelope.NewError(envelope.CodeOutputLimit, says).
			WithFix("ask for less; the tool's owner can let it write a large result in chunks").
			WithEffect(envelope.EffectApplied)
	}
	fn, _ := r.manifest.Function(r.job.state.Fn)
	response := fn.Response
	switch bad := r.violations(response, res.Output); {
	case len(bad) > 0 && envelope.IsMCPResult(response.Raw()):
		d.Warnings = append(slices.Clone(d.Warnings), broken(bad))
	case len(bad) > 0:
		return envelope.NewError(envelope.CodeOutput, "").WithViolations(bad...).WithEffect(envelope.EffectApplied)
	}
	if len(res.Output) <= envelope.MaxInline {
		d.Output = res.Output
		return nil
	}
	ctx, stop := r.beforeDue(r.context)
	defer stop()
	ref, err := r.Payloads.Put(ctx, r.job.owner().On(r.job.state.Pool), res.Output)
	if err != nil { // Put retries until shortly before the deadline
		return envelope.NewError(envelope.CodeStoreFull, "the output is too large to travel inline and could not be stored").
			WithFix("call again later; the operator must enlarge the stream PAYLOADS").
			WithCause(err.Error()).WithEffect(envelope.EffectApplied)
	}
	d.OutputRef = &ref
	return nil
}

// violations returns the rules of a schema that an output breaks. An output that is not checked shortly before the
// deadline breaks one.
func (r *run) violations(s *jsonschema.Schema, output jsontext.Value) []jsonschema.Violation {
	if bad := ijson.Check(output); bad != nil || s.Accepts(output) {
		return bad
	}
	ctx, stop := r.beforeDue(context.WithoutCancel(r.context))
	defer stop()
	bad, err := s.ValidateFully(ctx, output)
	if err != nil {
		return []jsonschema.Violation{ijson.NewViolation("", "steps", "could not be checked before the deadline")}
	}
	return bad
}

// broken returns the warning for an output that is returned although it does not fit its schema.
func broken(bad []jsonschema.Violation) string {
	text := "the output breaks the schema of the tool"
	for _, v := range bad[:min(len(bad), maxBroken)] {
		text += fmt.Sprintf("; %s %s", cmp.Or(v.Pointer, "it"), v.Message)
	}
	return ijson.Clip(text, envelope.MaxMessage)
}

// maxBroken is the number of violations that a warning names.
const maxBroken = 5

// failure maps the error of a run to the taxonomy. It returns nil for nil. The effect class is that of the call, which
// a policy may have made stricter. A call that has no effect in any case, such as a dry run, is classified as one of a
// pure tool.
func (r *run) failure(err error) *envelope.Error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[envelope.Fault](err); ok {
		return known.Fault()
	}
	m := *r.manifest
	if m.Class = r.job.state.Class; r.job.state.HasNoEffect() {
		m.Class = call.Pure
	}
	fault := tool.ClassifyError(r.adapter, &m, err)
	stopped, ok := errors.AsType[*tool.StoppedError](err)
	if ok && errors.Is(stopped.Cause, context.DeadlineExceeded) && fault.Cause == "" {
		waited, ran := max(0, r.started.Sub(r.job.enqueued())), time.Since(r.began)
		fault.WithCause(fmt.Sprintf("it waited %v in the queue, ran %v and %s",
			waited.Round(time.Millisecond), ran.Round(time.Millisecond), stopped.Ended()))
	}
	return fault
}

// foreignWrite returns the error of a run that reported a write outside the write targets of its call, or nil. It
// replaces the error that the tool itself reported, which may permit a further run.
func (r *run) foreignWrite(writes []call.ReportedWrite, reported *envelope.Error) *envelope.Error {
	targets := r.job.writeTargets
	for _, w := range writes {
		if targets.Allow(w.Target) {
			continue
		}
		may := "may write to no target"
		if len(targets) > 0 {
			may = fmt.Sprintf("may write only to %.500s", strings.Join(targets, ", "))
		}
		message := fmt.Sprintf("the tool %q wrote to %.200q, and %s", r.job.state.Tool, w.Target, may)
		fault := envelope.NewError(envelope.CodeWriteTarget, message).WithEffect(envelope.EffectApplied)
		if reported != nil {
			fault = fault.WithCause(fmt.Sprintf("%s: %s", reported.Code, reported.Message))
		}
		return fault
	}
	return nil
}

// resultTime is the time that the large result of a failed tool waits for room in the payload store. After it the
// error is stored without the result.
const resultTime = 5 * time.Second

// keepResult puts a large result of a tool that failed into the payload store. It returns the SHA-256 of a result that
// is kept, in hex. If the result cannot be stored, the error loses it, and a warning says so.
func (r *run) keepResult(ctx context.Context, fault *envelope.Error, d *outcome.Draft) string {
	result := fault.Details.ToolResult
	switch {
	case len(result) == 0:
		return ""
	case len(result) <= envelope.MaxErrorDetails:
		sum := sha256.Sum256(result)
		return hex.EncodeToString(sum[:])
	}
	fault.Details.ToolResult = nil
	ctx, stop := r.beforeDue(ctx)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, resultTime)
	defer cancel()
	ref, err := r.Payloads.Put(ctx, r.job.owner().On(r.job.state.Pool), result)
	if err != nil {
		d.Warnings = append(slices.Clone(d.Warnings), ijson.Clip(fmt.Sprintf(
			"the result of the tool, %d bytes, could not be stored, and is lost but for its beginning: %v", len(result), err),
			envelope.MaxMessage))
		return ""
	}
	fault.Details.ToolResultRef = &ref
	return ref.SHA256
}

// chunkSink takes the chunks of a run. It opens the stream at the first chunk, because most runs have none.
type chunkSink struct {
	run     *run
	stream  Stream     // nil before the first chunk
	context *timer.Run // of stream
	dropped int
}

// Emit takes a chunk. It drops and counts the chunks of a tool that does not declare streaming, because callers rely
// on the declaration.
func (c *chunkSink) Emit(ctx context.Context, kind envelope.ChunkKind, data jsontext.Value) error {
	if !c.run.manifest.Capability.Streaming {
		c.dropped++
		return nil
	}
	if c.stream == nil {
		j, limit := c.run.job, c.run.manifest.Limits.OutputBytes
		c.context = j.untilDue(&j.control.stream) // not the run of the tool, which ends when a chunk is refused
		c.stream = c.run.Streams.Open(c.context, j.state, j.attempt, c.run.fence, limit)
	}
	return c.stream.Emit(ctx, kind, data)
}

// stored waits until all chunks are stored, and returns their count and digest. It returns nil without chunks, or if
// their number is not known.
func (c *chunkSink) stored() (*envelope.Chunks, error) {
	if c.stream == nil {
		return nil, nil
	}
	ctx, stop := c.run.beforeDue(c.context)
	defer stop()
	chunks, err := c.stream.Close(ctx)
	if chunks.Count == 0 {
		return nil, err
	}
	return &chunks, err
}

// warn adds a warning about dropped chunks to the warnings of a run.
func (c *chunkSink) warn(warnings []string) []string {
	if c.dropped == 0 {
		return warnings
	}
	return append(slices.Clone(warnings), fmt.Sprintf(
		"chunk, progress and log lines were dropped (%d): the tool does not declare streaming", c.dropped))
}
