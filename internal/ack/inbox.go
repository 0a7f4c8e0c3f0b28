package ack

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// inbox hears the answers to all that is published over one connection, and tells each waiter the one that is for it.
//
// A waiter is told exactly once, by whatever takes it out of the map: its answer, the sweep, its own context, or the
// end of the inbox. That is why its channel holds one result, nobody ever waits to send, and it can be used again. An
// answer that comes late, or twice, finds nobody.
type inbox struct {
	nc   *nats.Conn
	free sync.Pool // of *waiter

	mu      sync.Mutex // one for all: whatever is published takes the one of the connection, too
	sub     *nats.Subscription
	prefix  string        // of the reply subjects
	ended   chan struct{} // closed when nothing is heard any more
	closed  bool
	last    uint64 // token that was given
	waiting map[uint64]*waiter

	timer    *time.Timer
	due      time.Time // when it sweeps; zero when nobody waits
	sweeping sync.WaitGroup
}

type waiter struct {
	told  chan result // holds one
	until time.Time
}

type result struct {
	ack Ack
	err error
}

func newInbox(nc *nats.Conn) *inbox {
	return &inbox{
		nc: nc, ended: make(chan struct{}), waiting: map[uint64]*waiter{},
		free: sync.Pool{New: func() any { return &waiter{told: make(chan result, 1)} }},
	}
}

func (in *inbox) publish(ctx context.Context, msg *nats.Msg, answer time.Duration) (Ack, error) {
	if ctx.Err() != nil {
		return Ack{}, ctx.Err()
	}
	token, w, err := in.open(answer)
	if err != nil {
		return Ack{}, err
	}
	sent := nats.Msg{Subject: msg.Subject, Reply: in.reply(token), Header: msg.Header, Data: msg.Data}
	if err := in.nc.PublishMsg(&sent); err != nil {
		in.tell(token, result{err: err})
	}
	var r result
	select {
	case r = <-w.told:
	case <-ctx.Done():
		in.tell(token, result{err: ctx.Err()})
		r = <-w.told // this, or what was on its way
	}
	in.free.Put(w)
	return r.ack, r.err
}

// reply returns the subject on which the answer to a waiter is heard.
func (in *inbox) reply(token uint64) string {
	var room [64]byte
	return string(strconv.AppendUint(append(room[:0], in.prefix...), token, 36))
}

// open adds a waiter.
func (in *inbox) open(answer time.Duration) (token uint64, w *waiter, err error) {
	w = in.free.Get().(*waiter)
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
func (in *inbox) listen() (err error) {
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
func (in *inbox) hear(msg *nats.Msg) {
	token, err := strconv.ParseUint(msg.Subject[len(in.prefix):], 36, 64)
	if err != nil {
		return // not one that was given
	}
	if w := in.take(token); w != nil {
		w.told <- read(msg)
	}
}

func (in *inbox) tell(token uint64, r result) {
	if w := in.take(token); w != nil {
		w.told <- r
	}
}

// take removes a waiter, nil when it has been told.
func (in *inbox) take(token uint64) *waiter {
	in.mu.Lock()
	defer in.mu.Unlock()
	w := in.waiting[token]
	delete(in.waiting, token)
	return w
}

// grain is how much longer than it asked for a waiter may wait, so that many are swept at once.
const grain = 5 * time.Millisecond

// arm sees to a sweep at that time, unless there is an earlier one. Callers hold in.mu.
func (in *inbox) arm(at time.Time) {
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
func (in *inbox) sweep() {
	defer in.sweeping.Done()
	in.mu.Lock()
	defer in.mu.Unlock()
	now := time.Now()
	var next time.Time
	for token, w := range in.waiting {
		switch {
		case !w.until.After(now):
			delete(in.waiting, token)
			w.told <- result{err: context.DeadlineExceeded}
		case next.IsZero() || w.until.Before(next):
			next = w.until
		}
	}
	in.due = time.Time{}
	if next.IsZero() {
		return
	}
	if soon := now.Add(grain); next.Before(soon) {
		next = soon
	}
	in.arm(next)
}

// end tells all waiters that nothing is heard any more.
func (in *inbox) end(string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.refuse()
	close(in.ended)
}

// refuse lets nobody wait. Callers hold in.mu.
func (in *inbox) refuse() {
	in.closed = true
	for token, w := range in.waiting {
		delete(in.waiting, token)
		w.told <- result{err: nats.ErrConnectionClosed}
	}
}

func (in *inbox) close() {
	if sub := in.shut(); sub != nil {
		_ = sub.Unsubscribe() // it is gone with the connection otherwise
		<-in.ended
	}
	in.sweeping.Wait()
}

// shut ends all waits, and returns what is still heard.
func (in *inbox) shut() *nats.Subscription {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.refuse()
	if in.timer != nil && in.timer.Stop() {
		in.sweeping.Done()
	}
	return in.sub
}
