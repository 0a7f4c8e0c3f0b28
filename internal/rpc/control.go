package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Control sends and receives the messages below tb.ctl about running attempts: from dispatchers to executors, and
// between dispatchers. Messages may be lost: the call log decides. Its methods are safe for concurrent use.
type Control struct {
	NC      *nats.Conn
	Log     *slog.Logger
	notices format.Notices
	replies executorReplies
	forged  flow.Dropped
}

// controlRequest is the body of a kill, with the deadline of the attempt, and of a locate request, which asks which
// executor runs an attempt. Executors answer on a subject of their own that ends with ReplyToken, because they cannot
// publish on a reply subject of another account. Executors of earlier builds answer on the reply subject, which ends
// with the same token.
type controlRequest struct {
	ID         string      `json:"id"`
	Attempt    int         `json:"attempt"`
	Due        call.UnixMS `json:"due,omitzero"`
	ReplyToken string      `json:"word,omitzero"`
}

type runLocation struct {
	By    string      `json:"by"`
	Since call.UnixMS `json:"since"`
}

// controlAnswer is how long a dispatcher waits for an answer of executors. It sends a kill up to killTries times, until
// the executor that runs the attempt answers. If no executor runs the attempt, none answers.
const (
	controlAnswer = 150 * time.Millisecond
	killTries     = 3
	killedRunning = "running"
)

// Kill tells executors that an attempt with the deadline due was cancelled. It reports whether an executor of the pool
// answered that it was running the attempt. It waits up to 450 ms.
func (c *Control) Kill(ctx context.Context, pool, id string, attempt int, due time.Time) (running bool) {
	tries := 0
	// The error only means that no executor answered.
	_ = timer.Backoff{Try: controlAnswer}.Until(ctx, func(ctx context.Context) (bool, error) {
		tries++
		msg, err := c.request(ctx, pool, subjects.Kill(id), controlRequest{ID: id, Attempt: attempt, Due: call.At(due)})
		running = err == nil && string(msg.Data) == killedRunning
		return err == nil || tries == killTries, err
	})
	return running
}

// Locate asks the executors of a pool which of them runs an attempt, and since when. ok is false if none answers within
// 150 ms.
func (c *Control) Locate(ctx context.Context, pool, id string, attempt int) (by string, since time.Time, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, controlAnswer)
	defer cancel()
	var seen runLocation
	msg, err := c.request(ctx, pool, subjects.Locate(id), controlRequest{ID: id, Attempt: attempt})
	if err != nil || format.Unmarshal(format.Message, msg.Data, &seen) != nil {
		return "", since, false
	}
	if pool, name, _, err := subjects.ParseExecutorReply(msg.Subject); err == nil { // the server enforces both
		seen.By = subjects.Instance(pool, name)
	}
	return seen.By, seen.Since.Time(), true
}

// Answer sends an answer to an executor, by its full name, for its question with the given id. The subject is one of
// the answers to that executor, so no other process gets it.
func (c *Control) Answer(by, question string, a call.Answer) error {
	pool, name, _ := strings.Cut(by, "/")
	to, ok := subjects.ExecutorAnswer(subjects.ExecutorRequest(subjects.OpAnswer, pool, name), question)
	if !ok {
		return fmt.Errorf("no executor has the question %.40q", question)
	}
	data, err := format.Marshal(format.Message, a)
	if err != nil {
		return err
	}
	return c.NC.Publish(to, data)
}

// JoinerLeft tells all dispatchers that a joiner no longer waits.
func (c *Control) JoinerLeft(l envelope.JoinerLeft) {
	data, err := format.Marshal(format.Message, l)
	if err == nil {
		err = c.NC.Publish(subjects.JoinerLeft, data)
	}
	if err != nil {
		c.Log.Warn("a joiner waits on", "call", l.ID, "err", err)
	}
}

// ToolNotice has a digest of the tools that a dispatcher has loaded. With Ask, it asks all others for theirs.
type ToolNotice struct {
	Instance string `json:"instance"`
	Digest   string `json:"digest"`
	Ask      bool   `json:"ask,omitzero"`
}

// TellTools sends a notice to all dispatchers, this one included.
func (c *Control) TellTools(n ToolNotice) {
	data, err := format.Marshal(format.Message, n)
	if err == nil {
		err = c.NC.Publish(subjects.DispatcherTools, data)
	}
	if err != nil {
		c.Log.Warn("other dispatchers are not told of the tools here", "err", err)
	}
}

// OnTools calls hear for each [Control.TellTools] of any dispatcher, until stop is called.
func (c *Control) OnTools(hear func(ToolNotice)) (stop func(), err error) {
	notices, err := c.NC.Subscribe(subjects.DispatcherTools, func(msg *nats.Msg) {
		var n ToolNotice
		if err := format.Unmarshal(format.Message, msg.Data, &n); err != nil {
			c.notices.Log(c.Log, "a notice of another dispatcher is not read", err)
			return
		}
		hear(n)
	})
	if err != nil {
		return nil, fmt.Errorf("listen for notices of dispatchers: %w", err)
	}
	return func() { _ = notices.Unsubscribe() }, nil // fails only if the connection is closed
}

// request sends a request to executors and returns the first answer of the pool.
func (c *Control) request(ctx context.Context, pool, subject string, q controlRequest) (*nats.Msg, error) {
	answer, err := c.replies.open(c.NC, pool, &q.ReplyToken)
	if err != nil {
		return nil, err
	}
	defer c.replies.close(q.ReplyToken)
	data, err := format.Marshal(format.Message, q)
	if err == nil {
		err = c.NC.PublishRequest(subject, c.replies.inbox+q.ReplyToken, data)
	}
	if err != nil {
		return nil, err
	}
	select {
	case msg := <-answer:
		if len(msg.Data) == 0 { // the server reports that no executor subscribes
			return nil, nats.ErrNoResponders
		}
		return msg, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// attemptController is implemented by an executor. Kill handles the claim of an unknown sender that an attempt was
// cancelled, and reports whether the executor runs it. Locate returns since when the executor runs an attempt.
type attemptController interface {
	Kill(id string, attempt int, due time.Time) (running bool)
	Locate(id string, attempt int) (since time.Time, ok bool)
}

// ServeControl passes kills and locate requests to an executor, instance, of a pool until stop is called. The
// subscriptions are active after the next flush of the connection.
func (c *Control) ServeControl(pool, instance string, r attemptController) (stop func(), err error) {
	answers := func() func(string, []byte) {
		var allowed allowance
		return func(word string, data []byte) {
			if word != "" && allowed.take(time.Now()) {
				_ = c.NC.Publish(subjects.ExecutorReply(pool, instance, word), data) // a lost answer is requested again if needed
			}
		}
	}
	killed, found := answers(), answers()
	kills, err := c.NC.Subscribe(subjects.KillWildcard, func(msg *nats.Msg) { c.killed(r, msg, killed) })
	if err != nil {
		return nil, fmt.Errorf("listen for kills: %w", err)
	}
	seeks, err := c.NC.Subscribe(subjects.LocateWildcard, func(msg *nats.Msg) {
		sought(subjects.Instance(pool, instance), r, msg, found)
	})
	if err != nil {
		return nil, fmt.Errorf("listen for those who ask what runs: %w", err)
	}
	return func() { _, _ = kills.Unsubscribe(), seeks.Unsubscribe() }, nil // fails only if the connection is closed
}

// maxAnswers is the number of kills, and of locate requests, that an executor answers per second. It ignores further
// ones.
const maxAnswers = 1000

// allowance limits answers per second. It is not safe for concurrent use.
type allowance struct {
	second int64
	taken  int
}

func (a *allowance) take(now time.Time) bool {
	if s := now.Unix(); s != a.second {
		a.second, a.taken = s, 0
	}
	a.taken++
	return a.taken <= maxAnswers
}

// killed handles a kill. Its sender is not authenticated, so the executor acts only on what the call log says.
func (c *Control) killed(r attemptController, msg *nats.Msg, answer func(word string, data []byte)) {
	var k controlRequest
	id, err := subjects.ParseKill(msg.Subject) // it is kept in memory, and short as a token of a subject
	if err == nil {
		err = format.Unmarshal(format.Message, msg.Data, &k)
	}
	switch {
	case format.IsUnsupported(err):
		c.notices.Log(c.Log, "a cancel is left to other executors", err)
		return
	case err != nil || k.ID != id:
		c.forged.Note(c.Log, "it is no cancel of the call that its subject names", msg.Subject)
		return
	}
	if r.Kill(k.ID, k.Attempt, k.Due.Time()) {
		answer(k.ReplyToken, []byte(killedRunning))
	}
}

// sought answers a locate request if the attempt runs here. A forged request does no harm: the answer goes to a subject
// of the executor's own answers, and dispatchers ignore reply tokens that they did not create.
func sought(instance string, r attemptController, msg *nats.Msg, answer func(word string, data []byte)) {
	var s controlRequest
	id, err := subjects.ParseLocate(msg.Subject)
	if err != nil || format.Unmarshal(format.Message, msg.Data, &s) != nil || s.ID != id {
		return
	}
	since, ok := r.Locate(s.ID, s.Attempt)
	if !ok {
		return
	}
	if data, err := format.Marshal(format.Message, runLocation{By: instance, Since: call.At(since)}); err == nil {
		answer(s.ReplyToken, data)
	}
}

// OnJoinerLeft calls forget for each [Control.JoinerLeft] of any dispatcher, until stop is called.
func (c *Control) OnJoinerLeft(forget func(envelope.JoinerLeft)) (stop func(), err error) {
	leaves, err := c.NC.Subscribe(subjects.JoinerLeft, func(msg *nats.Msg) {
		if l, ok := c.leave(msg.Data); ok {
			forget(l)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listen for joiners that leave: %w", err)
	}
	return func() { _ = leaves.Unsubscribe() }, nil // fails only if the connection is closed
}

func (c *Control) leave(data []byte) (l envelope.JoinerLeft, ok bool) {
	err := format.Unmarshal(format.Message, data, &l)
	c.notices.Log(c.Log, "a joiner waits on", err)
	return l, err == nil
}
