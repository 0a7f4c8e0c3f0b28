package bus

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// ackInbox receives the acknowledgements of all messages that are published over one connection, and passes each one to
// the goroutine that waits for it.
//
// A waiter gets exactly one result, from the function that removes it from the map: because of its acknowledgement, a
// sweep, the end of its own context, or the end of the inbox. So its channel holds one result, sending never blocks,
// and the waiter can be used again. A late or second acknowledgement finds no waiter and is dropped.
type ackInbox struct {
	nc   *nats.Conn
	free sync.Pool // of *ackWaiter

	mu      sync.Mutex // one lock is enough: each publish also takes the lock of the connection
	sub     *nats.Subscription
	prefix  string        // of the reply subjects
	ended   chan struct{} // closed when the subscription has ended
	closed  bool
	last    uint64                // token that was issued last
	waiting map[uint64]*ackWaiter // by token

	timer    *time.Timer
	due      time.Time // of the next sweep; zero if no sweep is due
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
		r = <-w.told // this error, or the result that came first
	}
	in.free.Put(w)
	return r.ack, r.err
}

// reply returns the reply subject of a token.
func (in *ackInbox) reply(token uint64) string {
	var room [64]byte
	return string(strconv.AppendUint(append(room[:0], in.prefix...), token, 36))
}

// open adds a waiter that waits at most for the duration answer.
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

// listen subscribes if it has not yet. Callers hold in.mu.
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
	if !in.sub.IsValid() { // the connection was closed just now, perhaps before the handler was set
		in.sub, in.closed = nil, true
		return nats.ErrConnectionClosed
	}
	return nil
}

// hear passes the acknowledgement msg to its waiter.
func (in *ackInbox) hear(msg *nats.Msg) {
	token, err := strconv.ParseUint(msg.Subject[len(in.prefix):], 36, 64)
	if err != nil {
		return // not a token of this inbox
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

// take removes and returns a waiter. It returns nil if the waiter has its result already.
func (in *ackInbox) take(token uint64) *ackWaiter {
	in.mu.Lock()
	defer in.mu.Unlock()
	w := in.waiting[token]
	delete(in.waiting, token)
	return w
}

// ackGrain is the shortest time between two sweeps. A waiter may wait longer than it asked for by this time.
const ackGrain = 5 * time.Millisecond

// arm sets the timer for a sweep at the given time, unless an earlier sweep is due. Callers hold in.mu.
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

// sweep ends the waiters whose time is over, and sets the timer for the next one. Most acknowledgements come much
// earlier, so one sweep serves thousands of them.
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

// end is called when the subscription is closed. It ends all waiters.
func (in *ackInbox) end(string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.refuse()
	close(in.ended)
}

// refuse ends all waiters and accepts no more. Callers hold in.mu.
func (in *ackInbox) refuse() {
	in.closed = true
	for token, w := range in.waiting {
		delete(in.waiting, token)
		w.told <- ackResult{err: nats.ErrConnectionClosed}
	}
}

func (in *ackInbox) close() {
	if sub := in.shut(); sub != nil {
		_ = sub.Unsubscribe() // an error means that the connection is closed, and the subscription with it
		<-in.ended
	}
	in.sweeping.Wait()
}

// shut ends all waiters and the timer. It returns the subscription, which may be nil.
func (in *ackInbox) shut() *nats.Subscription {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.refuse()
	if in.timer != nil && in.timer.Stop() {
		in.sweeping.Done()
	}
	return in.sub
}
