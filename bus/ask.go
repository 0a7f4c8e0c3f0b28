package bus

import (
	"context"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// CallQuery names a call by the reference that its acceptance gave; CallID narrows it to the
// attempt that this call id owns or joined.
type CallQuery struct {
	Ref    string `json:"ref"`
	CallID string `json:"call_id,omitzero"`
}

// ResultAnswer is the outcome of a call, or its acceptance while there is none.
type ResultAnswer struct {
	Response *envelope.Response `json:"response,omitzero"`
	Accepted *envelope.Accepted `json:"accepted,omitzero"`
}

// CancelAnswer says what a cancel did: "queued" (it never starts; of a pure or idempotent call, no
// executor said that it runs it), "running" (killed), "detached" (a joiner left), "decided" (too late;
// Response is the outcome).
type CancelAnswer struct {
	Told     string             `json:"told"`
	Response *envelope.Response `json:"response,omitzero"`
}

// WhyAnswer is one sentence.
type WhyAnswer struct {
	Sentence string `json:"sentence"`
}

// Refusal is a Go error for an operation that the bus refused.
type Refusal struct{ Reason *envelope.Error }

func (r *Refusal) Error() string { return r.Reason.String() }

// fetchTime is how long the output that an answer refers to is waited for, unless ctx ends earlier.
const fetchTime = 30 * time.Second

// Result returns the outcome of a call, or its acceptance while it has none. An output that can
// not be had is what it is for [Client.Call]: a statement of the library, with final: false.
func (c *Client) Result(ctx context.Context, q CallQuery) (ResultAnswer, error) {
	a, err := answer[ResultAnswer](ctx, c, subjects.OpResult, q)
	a.Response = c.told(ctx, a.Response)
	return a, err
}

// Cancel ends a call. Only the owner's cancel decides; a joiner's detaches the joiner.
func (c *Client) Cancel(ctx context.Context, q CallQuery) (CancelAnswer, error) {
	a, err := answer[CancelAnswer](ctx, c, subjects.OpCancel, q)
	a.Response = c.told(ctx, a.Response)
	return a, err
}

// told returns the outcome in an answer, if there is one, with its output.
func (c *Client) told(ctx context.Context, r *envelope.Response) *envelope.Response {
	if r == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	return c.whole(ctx, sane(r))
}

// Why says in one sentence what a call waits for, or why it ended as it did.
func (c *Client) Why(ctx context.Context, q CallQuery) (string, error) {
	a, err := answer[WhyAnswer](ctx, c, subjects.OpWhy, q)
	return a.Sentence, err
}

func answer[T any](ctx context.Context, c *Client, op string, q any) (T, error) {
	var a T
	refusal, err := c.ask(ctx, op, q, &a)
	if err == nil && refusal != nil {
		err = &Refusal{refusal}
	}
	return a, err
}
