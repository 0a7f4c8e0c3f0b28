package rpc

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Control is what dispatchers tell executors, and each other, about calls in flight, below tb.ctl, and where executors
// hear their answers. All of it is best effort: the call log decides. Its methods are safe for concurrent use.
type Control struct {
	NC      *nats.Conn
	Log     *slog.Logger
	notices format.Notices
	replies executorReplies
	forged  flow.Dropped
}

// controlRequest is the message of a cancel, with when the attempt is due, and of the question which executor runs an
// attempt; sighting is the answer of the one that does. Executors answer under the word: no reply reaches one beyond
// the account that they are in. Those of earlier builds answer to the reply subject, which ends with it.
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

// How long executors are waited for. The one that runs the call answers a kill; where none does it is told again.
// Nobody answers a seek where nobody runs the call.
const (
	controlAnswer = 150 * time.Millisecond
	killTries     = 3
	killedRunning = "running"
)

// Kill tells executors that an attempt was cancelled, which was due at a time, and reports whether one of its pool says
// that it was running it.
func (c *Control) Kill(ctx context.Context, pool, id string, attempt int, due time.Time) (running bool) {
	tries := 0
	// An error says no more than that nobody answered.
	_ = timer.Backoff{Try: controlAnswer}.Until(ctx, func(ctx context.Context) (bool, error) {
		tries++
		msg, err := c.request(ctx, pool, subjects.Kill(id), controlRequest{ID: id, Attempt: attempt, Due: call.At(due)})
		running = err == nil && string(msg.Data) == killedRunning
		return err == nil || tries == killTries, err
	})
	return running
}

// Locate asks the executors of a pool which of them runs an attempt, and since when; ok is false where none says so in
// time.
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

// JoinerLeft tells all dispatchers that a joiner does not wait any more.
func (c *Control) JoinerLeft(l envelope.JoinerLeft) {
	data, err := format.Marshal(format.Message, l)
	if err == nil {
		err = c.NC.Publish(subjects.JoinerLeft, data)
	}
	if err != nil {
		c.Log.Warn("a joiner waits on", "call", l.ID, "err", err)
	}
}

// request asks executors, and returns the first answer of the pool.
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
		if len(msg.Data) == 0 { // the server's word that no executor listens
			return nil, nats.ErrNoResponders
		}
		return msg, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// attemptController is an executor, as far as it is controlled: Kill is called for an attempt that somebody says is
// cancelled, and reports whether it is running here; Seek returns since when it is.
type attemptController interface {
	Kill(id string, attempt int, due time.Time) (running bool)
	Locate(id string, attempt int) (since time.Time, ok bool)
}

// ServeControl lets an executor of a pool, which is named instance, hear kills and seeks until stop is called. They
// are heard from the next flush of the connection on.
func (c *Control) ServeControl(pool, instance string, r attemptController) (stop func(), err error) {
	answers := func() func(string, []byte) {
		var allowed allowance
		return func(word string, data []byte) {
			if word != "" && allowed.take(time.Now()) {
				_ = c.NC.Publish(subjects.ExecutorReply(pool, instance, word), data) // asked again otherwise, if need be
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
	return func() { _, _ = kills.Unsubscribe(), seeks.Unsubscribe() }, nil // gone with the connection otherwise
}

// maxAnswers is how many kills, and how many seeks, an executor answers in a second. Dispatchers do without further
// answers.
const maxAnswers = 1000

// allowance bounds answers by the second. It is for one goroutine at a time.
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

// killed hears a kill. Its sender is not known, so that the executor acts on what the log says.
func (c *Control) killed(r attemptController, msg *nats.Msg, answer func(word string, data []byte)) {
	var k controlRequest
	id, err := subjects.ParseKill(msg.Subject) // as a token of a subject it is short: it is remembered
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

// sought answers when an attempt is asked for that runs here. A forged question harms nobody: the answer goes below the
// subject of the executor's own answers, where dispatchers know the words that they have made.
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

// OnJoinerLeft tells forget of joiners that leave, until stop is called.
func (c *Control) OnJoinerLeft(forget func(envelope.JoinerLeft)) (stop func(), err error) {
	leaves, err := c.NC.Subscribe(subjects.JoinerLeft, func(msg *nats.Msg) {
		if l, ok := c.leave(msg.Data); ok {
			forget(l)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listen for joiners that leave: %w", err)
	}
	return func() { _ = leaves.Unsubscribe() }, nil // gone with the connection otherwise
}

func (c *Control) leave(data []byte) (l envelope.JoinerLeft, ok bool) {
	err := format.Unmarshal(format.Message, data, &l)
	c.notices.Log(c.Log, "a joiner waits on", err)
	return l, err == nil
}
