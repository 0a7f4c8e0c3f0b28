package executorapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/deadletter"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/executor/workqueue"
	"github.com/seed-018f16cc/toolbus/internal/policy/lock"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Client sends the requests of one executor to dispatchers. Its methods are safe for concurrent use.
type Client struct {
	Inbox    *rpc.Inbox // of the executor: see [rpc.Control.Inbox]
	Pool     string
	Instance string        // the instance id of the executor
	NewNonce func() string // creates the id of an audit record
	Clock    *bus.Clock    // made with Time; KeepLocks and Dead need it
	Log      *slog.Logger

	waiting atomic.Bool   // it was logged that no dispatcher answers
	heard   atomic.Bool   // an answer has arrived
	answer  time.Duration // for tests; 0 is answerTime
}

// ErrNoDispatcher means that no dispatcher answers executors.
var ErrNoDispatcher = errors.New("no dispatcher answers executors on this bus (start one, and replace " +
	"older ones first)")

// ErrNoAnswers means that dispatchers receive the requests of an executor, but that it does not receive their answers.
var ErrNoAnswers = errors.New("a dispatcher gets the questions of this executor, and no answer arrives (write the " +
	"configurations of the servers again with `toolbus keys servers`)")

// answerTime is how long the client waits for an answer before it sends the request again, which another dispatcher may
// receive. An executor does not start if it receives no answers to its first maxUnanswered requests.
const (
	answerTime    = 2 * time.Second
	maxUnanswered = 10
)

// ask sends a request once. The error is a refusal, or means that no answer was received: then the operation may still
// have been done.
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

// refusal is the error of a request that a dispatcher refused.
type refusal struct{ says *envelope.Error }

func (r *refusal) Error() string { return r.says.String() }

func refuse(code envelope.Code, message string) error {
	return &refusal{envelope.NewError(code, message)}
}

// final reports whether repeating the request after err would be useless.
func final(err error) bool {
	r, ok := errors.AsType[*refusal](err)
	return ok && r.says.Code != envelope.CodeUnavailable || errors.Is(err, ErrNoAnswers)
}

// put sends a request once and decodes the answer.
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

// askAgain and askSeldom are the first and the longest pause before a request is repeated. After tellWaiting without an
// answer, the client logs that it waits.
const (
	askAgain    = 50 * time.Millisecond
	askSeldom   = 250 * time.Millisecond
	tellWaiting = time.Second
)

// connected reports whether the connection to the server is there. Its process logs a loss, once for all that follows.
func (c *Client) connected() bool { return c.Inbox.NC.IsConnected() }

// insist calls ask until it is answered or refused, or ctx ends. It logs once that no dispatcher answers, and again
// only after an answer.
func (c *Client) insist(ctx context.Context, what string, ask func(context.Context) error) error {
	begun, answered := time.Now(), false
	var before error // the previous error: the error of ctx does not tell why there was no answer
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
		case ctx.Err() == nil && time.Since(begun) > tellWaiting && c.connected() && !c.waiting.Swap(true):
			c.Log.Warn("waiting for a dispatcher", "for", what, "err", err)
		}
		return answered, err
	})
	if !answered {
		return fmt.Errorf("%w; the last try said: %w", context.Cause(ctx), err)
	}
	return err
}

// Hello requests the settings and the time of the bus, until a dispatcher answers or ctx ends. The error is
// [ErrNoAnswers] if dispatchers receive the requests but no answer has ever arrived.
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

// Time returns the time of the NATS server, for [bus.NewClockOf].
func (c *Client) Time(ctx context.Context) (time.Time, error) {
	h, err := c.Hello(ctx)
	return h.Now, err
}

// Look implements [workqueue.Consumers]. It repeats the request until ctx ends.
func (c *Client) Look(ctx context.Context) ([]workqueue.Consumer, error) {
	var all consumers
	err := c.insist(ctx, "the consumers of the pool", func(ctx context.Context) error {
		return c.put(ctx, subjects.OpWork, nothing{}, &all)
	})
	return all.All, err
}

// maxTrip is the longest round trip at which an executor can always start calls. It is shorter than [timer.LeaseTime],
// because the locks are up to 200 ms old when a dispatcher answers. The pause between two requests for the locks is
// locksEvery, or locksOften if round trips take longer than that.
const (
	maxTrip    = 600 * time.Millisecond
	locksEvery = 300 * time.Millisecond
	locksOften = 100 * time.Millisecond
)

// KeepLocks keeps a board of the safety locks up to date until ctx ends. It does not wait for an answer before it sends
// the next request, because a round trip may take most of the time for which the locks hold. While no dispatcher that
// knows them answers, the board becomes stale.
func (c *Client) KeepLocks(ctx context.Context, board *lock.Board) {
	k := lockKeeper{client: c, board: board}
	var asking sync.WaitGroup
	defer asking.Wait()
	for {
		asking.Go(func() { k.ask(ctx) })
		pause := locksEvery
		if time.Duration(k.trip.Load()) > locksEvery {
			pause = locksOften
		}
		if !timer.Sleep(ctx, pause) {
			return
		}
	}
}

// lockKeeper asks for the safety locks, with several requests at a time.
type lockKeeper struct {
	client *Client
	board  *lock.Board
	trip   atomic.Int64 // the last round trip, in nanoseconds
	slow   atomic.Bool  // it was logged that round trips take too long
	// unknown means that it was logged that the locks are not known.
	unknown atomic.Bool
}

// reason returns the message of a dispatcher that refused a request, without a code of calls, or otherwise err.
func reason(err error) string {
	if r, ok := errors.AsType[*refusal](err); ok {
		return r.says.Message
	}
	return err.Error()
}

func (k *lockKeeper) ask(ctx context.Context) {
	c, at, all := k.client, time.Now(), locked{}
	once, cancel := context.WithTimeout(ctx, timer.LeaseTime)
	defer cancel()
	if err := c.put(once, subjects.OpLocked, nothing{}, &all); err != nil {
		_, age, _ := k.board.Known()
		if ctx.Err() == nil && age > tellWaiting && c.connected() && !c.waiting.Swap(true) {
			k.unknown.Store(true)
			c.Log.Error("no dispatcher says which safety locks are in force: no call starts until one does", "err", reason(err),
				"fix", "if no line follows that the locks are known again, see with `toolbus doctor` what dispatchers lack")
		}
		return
	}
	received := time.Now()
	trip := received.Sub(at)
	k.trip.Store(int64(trip))
	if all.Now > 0 {
		c.Clock.Hear(all.Now.Time(), at, received)
	}
	c.waiting.Store(false)
	if k.unknown.Swap(false) {
		c.Log.Warn("the safety locks are known again: calls start")
	}
	k.board.Learn(all.Locks, at.Add(-time.Duration(max(0, all.AgeMS))*time.Millisecond))
	if slow := trip > maxTrip; k.slow.Swap(slow) != slow && slow {
		c.Log.Warn("answers of dispatchers take too long: calls start late or not at all",
			"took", trip.Round(time.Millisecond), "most", maxTrip)
	}
}

// Beat requests once the sequence of the newest heartbeat of an executor, for heartbeat.NewRemoteStore.
func (c *Client) Beat(ctx context.Context, pool, name string) (uint64, error) {
	var b beating
	err := c.put(ctx, subjects.OpBeat, beating{Pool: pool, Instance: name}, &b)
	return b.Seq, err
}

// LateResult writes the result of a run whose attempt was already decided to the audit record. It repeats the
// request until ctx ends. It returns [outcome.ErrAttemptGone] if the attempt is not in the call log any more.
func (c *Client) LateResult(ctx context.Context, s call.State, attempt int, said call.Completion) error {
	q := late{
		Record: c.NewNonce(), Tool: s.Tool, ID: s.ID, Attempt: attempt,
		Error: said.Error, Effect: said.Effect, Fence: said.Fence, Output: said.Output,
	}
	return gone(c.insist(ctx, "a late result to be recorded", func(ctx context.Context) error {
		return c.put(ctx, subjects.OpLate, q, &nothing{})
	}))
}

// deadTime is the time limit of Dead. After it, the work message is delivered again.
const deadTime = 10 * time.Second

// Dead stores the dead letter of a call whose request is m, with the number of deliveries of its work message and the
// cause. It repeats the request up to 10 s. It returns [outcome.ErrAttemptGone] if the attempt or its request is not in
// the call log any more.
func (c *Client) Dead(ctx context.Context, s call.State, m call.Entry, deliveries int, cause *envelope.Error) error {
	data, err := deadletter.New(s, m, deliveries, cause, c.Clock.Now()).Fit(c.Inbox.NC.MaxPayload())
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

// gone returns [outcome.ErrAttemptGone] for the refusal of an attempt that is not in the call log any more, and err
// otherwise.
func gone(err error) error {
	if r, ok := errors.AsType[*refusal](err); ok && r.says.Code == envelope.CodeNotFound {
		return outcome.ErrAttemptGone
	}
	return err
}

// Wait returns nil when the audit record contains the event that was stored at position p at the given time. Otherwise
// it returns the cause of the end of ctx, or a refusal.
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
