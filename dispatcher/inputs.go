package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/semaphore"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/ijson"
	"github.com/seed-018f16cc/toolbus/schema"
)

// Large inputs are read whole, to be checked, and a request of a few hundred bytes may refer to 64 MiB.
const (
	maxInputs     = 128 << 20 // bytes of large inputs that one dispatcher holds at once; others wait for their turn
	maxInputsHeld = 256       // requests with a large input that it works on at once, so that others find a handler
)

// inputs bounds the large inputs that a dispatcher holds.
type inputs struct {
	requests atomic.Int64
	bytes    *semaphore.Weighted
}

func newInputs() *inputs { return &inputs{bytes: semaphore.NewWeighted(maxInputs)} }

// reserve waits for room for an input, which free gives back. It reports false when there is none in time.
func (i *inputs) reserve(ctx context.Context, size int64) (free func(), ok bool) {
	if i.requests.Add(1) > maxInputsHeld || i.bytes.Acquire(ctx, size) != nil {
		i.requests.Add(-1)
		return nil, false
	}
	return func() {
		i.bytes.Release(size)
		i.requests.Add(-1)
	}, true
}

func noRoomForInput() *envelope.Error {
	return envelope.NewError(envelope.CodeCapacity, "too many large inputs are being checked").WithRetryAfter(time.Second)
}

// fetched gets the input of a candidate, which may travel by claim-check.
func (d *Dispatcher) fetched(ctx context.Context, c *candidate) (refusal *envelope.Error) {
	if c.in.InputRef == "" {
		c.input = c.req.Input
		return fitsInline(c.input)
	}
	ref := envelope.ParsePayloadRef(c.in.InputRef)
	if ref == nil || ref.Bytes > envelope.MaxPayload {
		return envelope.NewError(envelope.CodeLimit, "the reference to the input is malformed or too large")
	}
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	free, ok := d.inputs.reserve(ctx, ref.Bytes)
	if !ok {
		return noRoomForInput()
	}
	c.free = free
	c.input, refusal = d.fetch(ctx, *ref)
	return refusal
}

// fitsInline refuses an input that has to go through the payload store. With it the event of its admission
// could be larger than the server takes, above all where it carries the outcomes of earlier attempts.
func fitsInline(input jsontext.Value) *envelope.Error {
	if len(input) <= envelope.MaxInline {
		return nil
	}
	return envelope.NewError(envelope.CodeLimit,
		fmt.Sprintf("the input is %d bytes of JSON, at most %d fit into a request: "+
			"a larger one is put into the payload store", len(input), envelope.MaxInline))
}

// fetch reads a large input and checks that it is one.
func (d *Dispatcher) fetch(ctx context.Context, ref envelope.PayloadRef) (jsontext.Value, *envelope.Error) {
	data, err := d.Payloads.Get(ctx, ref)
	switch {
	case err != nil && ctx.Err() != nil: // it may be there; the caller asks again
		return nil, envelope.NewError(envelope.CodeUnavailable, "the input could not be read from the payload store").
			WithRetryAfter(time.Second)
	case err != nil:
		return nil, payloadFault(err).WithCause(err.Error()).WithEffect(envelope.EffectNone)
	}
	if bad := ijson.Check(data); len(bad) > 0 {
		return nil, envelope.InputFault(schema.Below("/input", bad))
	}
	return data, nil
}

// payloadFault is what is wrong with a payload: what its error says of itself, else that it is missing.
func payloadFault(err error) *envelope.Error {
	if known, ok := errors.AsType[envelope.Fault](err); ok {
		return known.Fault()
	}
	return envelope.NewError(envelope.CodePayloadMissing, "")
}
