package bus

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// ackInbox hears the answers to all that is published over one connection, and tells each waiter the one that is for
// it.
//
// A waiter is told exactly once, by whatever takes it out of the map: its answer, the sweep, its own context, or the
// end of the inbox. That is why its channel holds one result, nobody ever waits to send, and it can be used again. An
// answer that comes late, or twice, finds nobody.
type ackInbox struct {
	nc   *nats.Conn
	free sync.Pool // of *waiter

	mu      sync.Mutex // one for all: whatever is published takes the one of the connection, too
	sub     *nats.Subscription
	prefix  string        // of the reply subjects
	ended   chan struct{} // closed when nothing is heard any more
	closed  bool
	last    uint64 // token that was given
	waiting map[uint64]*ackWaiter

	timer    *time.Timer
	due      time.Time // when it sweeps; zero when nobody waits
	sweeping sync.WaitGroup
}

type ackWaiter struct {
	told  chan ackResult // holds one
	until time.Time
}

type ackResult struct {
	ack PubAck
	err error
}

func newAckInbox(nc *nats.Conn) *ackInbox {
	return &ackInbox{
		nc: nc, ended: make(chan struct{}), waiting: map[uint64]*ackWaiter{},
		free: sync.Pool{New: func() any { return &ackWaiter{told: make(chan ackResult, 1)} }},
	}
}

func (in *ackInbox) publish(ctx context.Context, msg *nats.Msg, answer time.Duration) (PubAck, error) {
	if ctx.Err() != nil {
		return PubAck{}, ctx.Err()
	}
	token, w, err := in.open(answer)
	if err != nil {
		return PubAck{}, err
	}
	sent := nats.Msg{Subject: msg.Subject, Reply: in.reply(token), Header: msg.Header, Data: msg.Data}
	if err := in.nc.PublishMsg(&sent); err != nil {
		in.tell(token, ackResult{err: err})
	}
	var r ackResult
	select {
	case r = <-w.told:
	case <-ctx.Done():
		in.tell(token, ackResult{err: ctx.Err()})
		r = <-w.told // this, or what was on its way
	}
	in.free.Put(w)
	return r.ack, r.err
}

// reply returns the subject on which the answer to a waiter is heard.
func (in *ackInbox) reply(token uint64) string {
	var room [64]byte
	return string(strconv.AppendUint(append(room[:0], in.prefix...), token, 36))
}

// open adds a waiter.
func (in *ackInbox) open(answer time.Duration) (token uint64, w *ackWaiter, err error) {
	w = in.free.Get().(*ackWaiter)
	w.until = time.Now().Add(answer)
	in.mu.Lock()
	defer in.mu.Unlock()
	if err := in.listen(); err != nil {
		return 0, nil, err
	}
	in.last++
	in.waiting[in.last] = w
	in.arm(w.until)
	return in.last, w, nil
}

// listen subscribes, the first time. Callers hold in.mu.
func (in *ackInbox) listen() (err error) {
	if in.closed {
		return nats.ErrConnectionClosed
	}
	if in.sub != nil {
		return nil
	}
	in.prefix = in.nc.NewInbox() + "."
	if in.sub, err = in.nc.Subscribe(in.prefix+"*", in.hear); err != nil {
		return fmt.Errorf("inbox of acknowledgements: %w", err)
	}
	in.sub.SetClosedHandler(in.end)
	if !in.sub.IsValid() { // the connection was closed meanwhile, which may have missed the handler
		in.sub, in.closed = nil, true
		return nats.ErrConnectionClosed
	}
	return nil
}

// hear tells the waiter whose answer msg is.
func (in *ackInbox) hear(msg *nats.Msg) {
	token, err := strconv.ParseUint(msg.Subject[len(in.prefix):], 36, 64)
	if err != nil {
		return // not one that was given
	}
	if w := in.take(token); w != nil {
		w.told <- readAck(msg)
	}
}

func (in *ackInbox) tell(token uint64, r ackResult) {
	if w := in.take(token); w != nil {
		w.told <- r
	}
}

// take removes a waiter, nil when it has been told.
func (in *ackInbox) take(token uint64) *ackWaiter {
	in.mu.Lock()
	defer in.mu.Unlock()
	w := in.waiting[token]
	delete(in.waiting, token)
	return w
}

// ackGrain is how much longer than it asked for a waiter may wait, so that many are swept at once.
const ackGrain = 5 * time.Millisecond

// arm sees to a sweep at that time, unless there is an earlier one. Callers hold in.mu.
func (in *ackInbox) arm(at time.Time) {
	if !in.due.IsZero() && !at.Before(in.due) {
		return
	}
	in.due = at
	switch after := time.Until(at); {
	case in.timer == nil:
		in.sweeping.Add(1)
		in.timer = time.AfterFunc(after, in.sweep)
	case !in.timer.Reset(after):
		in.sweeping.Add(1)
	}
}

// sweep tells those that have waited for long enough, and comes again when the next of them will have. Most are
// answered before, so that it is one sweep for thousands of answers.
func (in *ackInbox) sweep() {
	defer in.sweeping.Done()
	in.mu.Lock()
	defer in.mu.Unlock()
	now := time.Now()
	var next time.Time
	for token, w := range in.waiting {
		switch {
		case !w.until.After(now):
			delete(in.waiting, token)
			w.told <- ackResult{err: context.DeadlineExceeded}
		case next.IsZero() || w.until.Before(next):
			next = w.until
		}
	}
	in.due = time.Time{}
	if next.IsZero() {
		return
	}
	if soon := now.Add(ackGrain); next.Before(soon) {
		next = soon
	}
	in.arm(next)
}

// end tells all waiters that nothing is heard any more.
func (in *ackInbox) end(string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.refuse()
	close(in.ended)
}

// refuse lets nobody wait. Callers hold in.mu.
func (in *ackInbox) refuse() {
	in.closed = true
	for token, w := range in.waiting {
		delete(in.waiting, token)
		w.told <- ackResult{err: nats.ErrConnectionClosed}
	}
}

func (in *ackInbox) close() {
	if sub := in.shut(); sub != nil {
		_ = sub.Unsubscribe() // it is gone with the connection otherwise
		<-in.ended
	}
	in.sweeping.Wait()
}

// shut ends all waits, and returns what is still heard.
func (in *ackInbox) shut() *nats.Subscription {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.refuse()
	if in.timer != nil && in.timer.Stop() {
		in.sweeping.Done()
	}
	return in.sub
}
