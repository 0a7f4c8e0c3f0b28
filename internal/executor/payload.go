package executor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// noMemory is the error of a call for whose large input this executor had no memory in time. Its tool was not started.
type noMemory struct{ fault *envelope.Error }

func (n noMemory) Error() string          { return n.fault.Message }
func (n noMemory) Fault() *envelope.Error { return n.fault }

// fetch reads the large input of a job, and reserves memory for it until the tool has read it. Reading takes twice the
// size of the input, because the messages with its parts become garbage only at the end. fetch waits for memory until
// shortly before the deadline, which leaves time to report the error.
func (e *Executor) fetch(ctx context.Context, j *job) (jsontext.Value, error) {
	waiting, stop := e.storing(ctx, j)
	defer stop()
	share, err := e.inputMemory.Acquire(waiting, flow.Sender(j.owner()), 2*j.inputRef.Bytes)
	switch {
	case errors.Is(err, flow.ErrTooLarge):
		return nil, noMemory{envelope.NewError(envelope.CodeLimit,
			fmt.Sprintf("to read the input takes %d MiB of memory, more than this executor has for inputs: %d MiB",
				(2*j.inputRef.Bytes+1<<20-1)>>20, e.inputMemory.Total()>>20)).
			WithFix("send less at once; the operator may give executors more by --payload-memory")}
	case err != nil && ctx.Err() == nil:
		return nil, noMemory{envelope.NewError(envelope.CodeCapacity, "too many large inputs are being worked on").
			WithRetryAfter(time.Second)}
	case err != nil:
		return nil, err
	}
	data, err := e.Payloads.Get(ctx, j.owner().On(j.state.Pool), *j.inputRef)
	if err != nil {
		share.Release()
		return nil, err
	}
	share.Keep(j.inputRef.Bytes)
	j.input = share
	return data, nil
}

// resultTime is the time that the large result of a failed tool waits for room in the payload store. After it the
// error is stored without the result.
const resultTime = 5 * time.Second

// keepResult puts a large result of a tool that failed into the payload store. It returns the SHA-256 of a result that
// is kept, in hex. If the result cannot be stored, the error loses it, and a warning says so.
func (e *Executor) keepResult(ctx context.Context, j *job, fault *envelope.Error, d *outcome.Draft) string {
	result := fault.Details.ToolResult
	switch {
	case len(result) == 0:
		return ""
	case len(result) <= envelope.MaxErrorDetails:
		sum := sha256.Sum256(result)
		return hex.EncodeToString(sum[:])
	}
	fault.Details.ToolResult = nil
	ctx, stop := e.storing(ctx, j)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, resultTime)
	defer cancel()
	ref, err := e.Payloads.Put(ctx, j.owner().On(j.state.Pool), result)
	if err != nil {
		d.Warnings = append(slices.Clone(d.Warnings), ijson.Clip(fmt.Sprintf(
			"the result of the tool, %d bytes, could not be stored, and is lost but for its beginning: %v", len(result), err),
			envelope.MaxMessage))
		return ""
	}
	fault.Details.ToolResultRef = &ref
	return ref.SHA256
}

// owner returns the owner of the large input and output of the job.
func (j *job) owner() subjects.Owner {
	a, _ := j.state.Attempt(j.attempt)
	return subjects.Owner{Tenant: j.state.Tenant, Actor: a.Owner.Actor}
}

// freeInput frees the memory of a large input.
func (j *job) freeInput() {
	if j.input != nil {
		j.input.Release()
	}
}
