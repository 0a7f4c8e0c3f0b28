package executorapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/deadletter"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/executor/workqueue"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Client asks dispatchers for one executor. Its methods are safe for concurrent use.
type Client struct {
	Inbox    *rpc.Inbox // of the executor: see [rpc.Control.Inbox]
	Pool     string
	Instance string           // of the executor, within its pool
	NewNonce func() string    // which names a record
	Now      func() time.Time // bus time, which dates a dead letter
	Log      *slog.Logger

	waiting atomic.Bool   // it was said that no dispatcher answers
	heard   atomic.Bool   // an answer has arrived
	answer  time.Duration // for tests; 0 is answerTime
}

// ErrNoDispatcher means that no dispatcher answers executors.
var ErrNoDispatcher = errors.New("no dispatcher answers executors on this bus (start one, and replace " +
	"older ones first)")

// ErrNoAnswers means that dispatchers get the questions of an executor, and their answers do not arrive.
var ErrNoAnswers = errors.New("a dispatcher gets the questions of this executor, and no answer arrives (write the " +
	"configurations of the servers again with `toolbus keys servers`, or start dispatchers with --older-builds)")

// answerTime is how long a dispatcher may take to answer. One that is gone by then is not waited for any longer:
// another one is asked. An executor does not start if the answers to maxUnanswered questions in a row do not arrive.
const (
	answerTime    = 2 * time.Second
	maxUnanswered = 10
)

// ask asks once. An error is a refusal, or that nobody has answered: what was asked for may have been done then.
func (c *Client) ask(ctx context.Context, op string, body []byte) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.answer, answerTime))
	defer cancel()
	msg, err := c.Inbox.Request(ctx, subjects.ExecutorRequest(op, c.Pool, c.Instance), body)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, fmt.Errorf("%s: %w", op, ErrNoDispatcher)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	c.heard.Store(true)
	if msg.Header.Get(subjects.HeaderKind) == envelope.KindRefusal {
		refused := envelope.ServiceRefusal{Refusal: new(envelope.Error)}
		if err := format.Unmarshal(format.Message, msg.Data, &refused); err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		return nil, fmt.Errorf("%s: %w", op, &refusal{refused.Refusal})
	}
	return msg, nil
}

// refusal is what a dispatcher says instead of an answer.
type refusal struct{ says *envelope.Error }

func (r *refusal) Error() string { return r.says.String() }

func refuse(code envelope.Code, message string) error {
	return &refusal{envelope.NewError(code, message)}
}

// final reports whether err is a refusal that no other dispatcher, and no later time, changes.
func final(err error) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && r.says.Code != envelope.CodeUnavailable || errors.Is(err, ErrNoAnswers)
}

// put asks once, and decodes the answer.
func (c *Client) put(ctx context.Context, op string, q, answer any) error {
	body, err := format.Marshal(format.Message, q)
	if err != nil {
		return err
	}
	msg, err := c.ask(ctx, op, body)
	if err != nil {
		return err
	}
	return format.Unmarshal(format.Message, msg.Data, answer)
}

// How long after an answer that did not come the question is asked again, and from when on it is said that it waits.
const (
	askAgain    = 50 * time.Millisecond
	askSeldom   = 250 * time.Millisecond
	tellWaiting = time.Second
)

// insist asks until it is answered, or ctx ends. That nobody answers is said once, until somebody does.
func (c *Client) insist(ctx context.Context, what string, ask func(context.Context) error) error {
	begun, answered := time.Now(), false
	var before error // the end of ctx says nothing of why there was no answer
	err := timer.Backoff{Pause: askAgain, MaxPause: askSeldom}.Until(ctx, func(ctx context.Context) (bool, error) {
		err := ask(ctx)
		if before != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			err = before
		}
		before = err
		answered = err == nil || final(err) || format.IsUnsupported(err)
		switch {
		case answered:
			c.waiting.Store(false)
		case ctx.Err() == nil && time.Since(begun) > tellWaiting && !c.waiting.Swap(true):
			c.Log.Warn("waiting for a dispatcher", "for", what, "err", err)
		}
		return answered, err
	})
	if !answered {
		return fmt.Errorf("%w; the last try said: %w", context.Cause(ctx), err)
	}
	return err
}

// Hello asks what the bus is like, until a dispatcher answers or ctx ends. The error is [ErrNoAnswers] if dispatchers
// get the question and no answer has ever arrived.
func (c *Client) Hello(ctx context.Context) (h HelloResponse, err error) {
	lost := 0
	err = c.insist(ctx, "what the bus is like", func(ctx context.Context) error {
		err := c.put(ctx, subjects.OpHello, nothing{}, &h)
		if lost++; !errors.Is(err, context.DeadlineExceeded) || c.heard.Load() {
			lost = 0
		}
		if lost == maxUnanswered {
			return fmt.Errorf("%w: %w", ErrNoAnswers, err)
		}
		return err
	})
	return h, err
}

// Time returns the time of the server, for [bus.NewClockOf].
func (c *Client) Time(ctx context.Context) (time.Time, error) {
	h, err := c.Hello(ctx)
	return h.Now, err
}

// Look implements [workqueue.Consumers].
func (c *Client) Look(ctx context.Context) ([]workqueue.Consumer, error) {
	var all consumers
	err := c.insist(ctx, "the consumers of the pool", func(ctx context.Context) error {
		return c.put(ctx, subjects.OpWork, nothing{}, &all)
	})
	return all.All, err
}

// Beat asks once for the newest heartbeat of an executor; see heartbeat.NewRemoteStore.
func (c *Client) Beat(ctx context.Context, pool, name string) (uint64, error) {
	var b beating
	err := c.put(ctx, subjects.OpBeat, beating{Pool: pool, Instance: name}, &b)
	return b.Seq, err
}

// LateResult has recorded what a run had to say after its attempt was decided. It asks until it is, or ctx ends.
func (c *Client) LateResult(ctx context.Context, s call.State, attempt int, said call.Completion) error {
	q := late{
		Record: c.NewNonce(), Tool: s.Tool, ID: s.ID, Attempt: attempt,
		Error: said.Error, Effect: said.Effect, Fence: said.Fence, Output: said.Output,
	}
	return gone(c.insist(ctx, "a late result to be recorded", func(ctx context.Context) error {
		return c.put(ctx, subjects.OpLate, q, &nothing{})
	}))
}

// deadTime is how long a dispatcher is waited for that keeps a dead letter. Its work is handed back then.
const deadTime = 10 * time.Second

// Dead has a call kept that is given up, with what became of its work message since.
func (c *Client) Dead(ctx context.Context, s call.State, m call.Entry, deliveries int, cause *envelope.Error) error {
	data, err := deadletter.New(s, m, deliveries, cause, c.Now()).Fit(c.Inbox.NC.MaxPayload())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, deadTime)
	defer cancel()
	return gone(c.insist(ctx, "a dead letter to be kept", func(ctx context.Context) error {
		_, err := c.ask(ctx, subjects.OpDead, data)
		return err
	}))
}

// gone tells a log that is gone from what failed.
func gone(err error) error {
	if r, ok := errors.AsType[*refusal](err); ok && r.says.Code == envelope.CodeNotFound {
		return outcome.ErrAttemptGone
	}
	return err
}

// Wait returns when the record is known to hold the event that was stored at a position at that time. An error
// is the cause of the end of ctx, or that the record cannot be read.
func (c *Client) Wait(ctx context.Context, p call.Position, at time.Time) error {
	q := recordedRequest{p, at}
	var is recordedResponse
	err := timer.Backoff{Pause: askAgain}.Until(ctx, func(ctx context.Context) (bool, error) {
		err := c.put(ctx, subjects.OpCovered, q, &is)
		return is.Recorded || final(err) || format.IsUnsupported(err), err
	})
	if err == nil && is.Recorded || final(err) || format.IsUnsupported(err) {
		return err
	}
	return context.Cause(ctx)
}
