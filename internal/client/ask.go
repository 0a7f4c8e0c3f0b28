package client

import (
	"context"
	"iter"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/client/exchange"
	"github.com/seed-018f16cc/toolbus/internal/operation"
)

// fetchTime bounds the fetch of an output that an answer refers to, unless ctx ends earlier.
const fetchTime = 30 * time.Second

// Result returns the outcome of a call, or its acceptance while it has none. If the output cannot be fetched, the
// response is a statement of the library with final: false, as that of [Client.Call].
func (c *Client) Result(ctx context.Context, q envelope.CallRef) (envelope.ResultResponse, error) {
	a, err := Ask(ctx, c, operation.Result, q)
	a.Response = c.told(ctx, q.Ref, a.Response)
	return a, err
}

// Cancel ends a call. Only the cancel of the owner ends the call for all; that of a joiner detaches the joiner.
func (c *Client) Cancel(ctx context.Context, q envelope.CallRef) (envelope.CancelResponse, error) {
	a, err := Ask(ctx, c, operation.Cancel, q)
	a.Response = c.told(ctx, q.Ref, a.Response)
	return a, err
}

// Answer answers a question of a running call. A nil error means that the answer was passed on.
func (c *Client) Answer(ctx context.Context, q envelope.AnswerRequest) error {
	_, err := Ask(ctx, c, operation.Answer, q)
	return err
}

// told returns the outcome in an answer about the call that ref names, with its output; nil if there is no outcome.
func (c *Client) told(ctx context.Context, ref string, r *envelope.Response) *envelope.Response {
	if r == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	return c.whole(ctx, ref, exchange.Sane(r))
}

// Why says what a call waits for, or why it ended as it did, and which policy allowed it.
func (c *Client) Why(ctx context.Context, q envelope.CallRef) (string, error) {
	a, err := Ask(ctx, c, operation.Why, q)
	return a.Sentence, err
}

// Trace returns the events of a call. A call id in q selects one attempt.
func (c *Client) Trace(ctx context.Context, q envelope.CallRef) (envelope.TraceResponse, error) {
	return Ask(ctx, c, operation.Trace, q)
}

// OpenCalls yields the open calls of the caller or, for an operator, those of a tenant, oldest first. After an error,
// which asError converts, it ends.
func OpenCalls(
	ctx context.Context, c *Client, tenant string, asError func(error) error,
) iter.Seq2[envelope.OpenCall, error] {
	return Pages(envelope.OpenCallsRequest{Tenant: tenant}, func(q *envelope.OpenCallsRequest) (
		[]envelope.OpenCall, bool, error) {
		page, err := Ask(ctx, c, operation.CallList, *q)
		q.After = page.Next
		return page.Calls, page.More, asError(err)
	})
}

// Pages yields the items of all pages of a list. The function ask returns those of a page, and whether there are more.
// It changes q, which is a copy of first at first, to the request for the next page. After an error the list ends.
func Pages[Q, T any](first Q, ask func(q *Q) (page []T, more bool, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for q, more := first, true; more; {
			var page []T
			var err error
			if page, more, err = ask(&q); err != nil {
				yield(*new(T), err)
				return
			}
			for _, one := range page {
				if !yield(one, nil) {
					return
				}
			}
		}
	}
}

// Ask sends a request for an operation, and returns the answer, or an [operation.Refusal]. It returns early if the
// server no longer accepts the connection. If ctx has no deadline it waits up to 5 s.
func Ask[Q, A any](ctx context.Context, c *Client, op operation.Operation[Q, A], q Q) (A, error) {
	asking, stop := c.whileAccepted(ctx)
	defer stop()
	a, refusal, err := op.Ask(asking, c.inbox, q)
	if barred := c.IsPermissionDenied(); err != nil && barred != nil && ctx.Err() == nil {
		refusal, err = exclusion(barred), nil
	}
	if err == nil && refusal != nil {
		err = &operation.Refusal{Reason: refusal}
	}
	return a, err
}

// whileAccepted returns a context that also ends when the server refuses the connection. Call stop when done.
func (c *Client) whileAccepted(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	forget := c.OnRefused(cancel)
	if c.IsPermissionDenied() != nil {
		cancel()
	}
	return ctx, func() { forget(); cancel() }
}
