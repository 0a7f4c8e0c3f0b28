package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// complete fetches a large output of a call, and checks the output against the response schema of the tool. A stored
// outcome may be of another build than the described one. That build has a schema of its own, which the executor has
// checked, so the output is returned as it is.
func (p *pendingCall) complete(r *envelope.Response) *envelope.Response {
	if isApart(r) {
		bounded, cancel := p.Graced()
		defer cancel()
		r = p.client.whole(bounded, p.client.key(p.req).Ref(), r)
	}
	fn := p.fn
	if r.Status != envelope.Success || fn == nil || fn.Response == nil || r.Provenance.Digest != fn.Digest {
		return r
	}
	validate := (*jsonschema.Schema).ValidateChecked // it was decoded with its envelope
	if r.Provenance.OutputRef != nil {
		validate = (*jsonschema.Schema).Validate
	}
	if bad := validate(fn.Response, r.Output); len(bad) > 0 && !envelope.IsMCPResult(fn.Response.Raw()) {
		return spoiledResponse(r, envelope.NewError(envelope.CodeOutput, "").WithViolations(bad...))
	}
	return r
}

// isApart reports whether a response has a reference in the place of its output, or of the result in its error.
func isApart(r *envelope.Response) bool {
	return r.Provenance.OutputRef != nil || r.Error != nil && r.Error.Details.ToolResultRef != nil
}

// whole returns the response of the call that ref names with its output, or the result in its error, which is fetched
// if only a reference to it came.
func (c *Client) whole(ctx context.Context, ref string, r *envelope.Response) *envelope.Response {
	switch {
	case !isApart(r):
		return r
	case r.Error != nil:
		return c.withResult(ctx, ref, r)
	}
	data, err := c.output(ctx, ref, *r.Provenance.OutputRef)
	if err != nil {
		return spoiledResponse(r, envelope.NewError(payloadCode(err), "").WithCause(err.Error()))
	}
	fetched := *r
	fetched.Output = data
	return &fetched
}

// withResult returns an error outcome with the result of the tool that it refers to. If the result cannot be fetched,
// it returns the outcome with a warning.
func (c *Client) withResult(ctx context.Context, ref string, r *envelope.Response) *envelope.Response {
	if r.Error.Details.ToolResultRef == nil {
		return r
	}
	data, err := c.output(ctx, ref, *r.Error.Details.ToolResultRef)
	if err == nil && len(ijson.Check(data)) > 0 {
		err = errors.New("it is no I-JSON")
	}
	if err != nil {
		why := "the whole result of the tool could not be had: " + err.Error()
		return warnedResponse(r, ijson.Clip(why, envelope.MaxMessage))
	}
	e, fetched := *r.Error, *r
	fetched.Error = e.WithToolResult(data)
	return &fetched
}

// payloadCode returns the code of the taxonomy for an error of a fetch of an output or of its chunks.
func payloadCode(err error) envelope.Code {
	switch {
	case errors.Is(err, streaming.ErrChecksum), errors.Is(err, streaming.ErrDigest), errors.Is(err, streaming.ErrCorrupt):
		return envelope.CodeChecksum
	case errors.Is(err, context.DeadlineExceeded):
		return envelope.CodeTimeout
	}
	return envelope.CodePayloadMissing
}

// output fetches the large output of a call from dispatchers.
func (c *Client) output(ctx context.Context, call string, ref envelope.PayloadRef) ([]byte, error) {
	return streaming.Collect(ctx, ref, envelope.MaxPayload, func(ctx context.Context, part int64) ([]byte, error) {
		return c.askForPart(ctx, call, ref, part)
	})
}

// askForPart asks for a part of an output until ctx ends, or there is a definite answer.
func (c *Client) askForPart(
	ctx context.Context, call string, ref envelope.PayloadRef, part int64,
) (body []byte, err error) {
	var refusal *envelope.Error
	q := envelope.PayloadRequest{Ref: call, SHA256: ref.SHA256, Part: part, Direct: true}
	err = timer.Backoff{
		Pause: partPause, MaxPause: 10 * partPause, Try: partTime, MaxTry: partTime,
	}.Until(ctx, func(ctx context.Context) (done bool, err error) {
		var a envelope.PayloadResponse
		body, refusal, err = c.inbox.AskRaw(ctx, subjects.OpPayload, q, &a)
		switch {
		case errors.Is(err, rpc.ErrNotStored):
			q.Direct = false // the dispatcher asks the leader
		case err == nil && refusal != nil:
			err = &operation.Refusal{Reason: refusal}
		case body == nil:
			body = a.Body
		}
		return err == nil || refusal != nil && !refusal.Code.Retryable(), err
	})
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return body, err
}

// partTime bounds one request for a part of an output; partPause is the first pause before the next request.
const (
	partTime  = 5 * time.Second
	partPause = 50 * time.Millisecond
)
