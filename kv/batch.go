package kv

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/seed-018f16cc/toolbus/bus"
)

// group writes together what waits for the stream at the same time (group commit). A server that
// syncs every message by itself stores as many a second as its disk takes syncs; a batch costs it
// a directory, files and a few syncs, however many events are in it.
//
// A batch is all or nothing. Where the server refuses one, because one of its logs has moved, each
// of its events is written alone, which tells whose it was. There is no goroutine of its own: the
// first writer of a batch sends it, and tells the others.
type group struct {
	js     jetstream.JetStream
	answer time.Duration
	least  int // how many make a batch; fewer go alone

	mu      sync.Mutex
	waiting []*writer
	alone   int  // writers that send their own event
	batch   bool // one is under way
}

// DefaultBatch is from where on a batch is cheaper than to write one by one: it takes a server
// about as long as so many synced writes.
const DefaultBatch = 16

// Bounds of a batch. Large events gain nothing: a batch is stored twice.
const (
	maxBatch      = 256
	maxBatchBytes = 1 << 20
	maxGrouped    = 64 << 10
)

// writer waits for its turn.
type writer struct {
	msg  *nats.Msg
	turn chan turn // holds one
}

// turn is what a writer is told: to send its own event, to send a batch, whose first is its own, or
// what became of its event.
type turn struct {
	batch []*writer
	sent  bool
	seq   uint64
	err   error
}

// publish sends msg, alone or with others, and returns where it is stored. It waits for its turn and for the answer of
// the server, together at most for the duration answer. It waits longer only for a batch with msg that is being sent.
func (g *group) publish(ctx context.Context, msg *nats.Msg, answer time.Duration) (uint64, error) {
	if len(msg.Data) > maxGrouped {
		return publish(ctx, g.js, msg, answer)
	}
	until, over := time.Now().Add(answer), time.NewTimer(answer)
	defer over.Stop()
	w := &writer{msg: msg, turn: make(chan turn, 1)}
	g.queue(w)
	err := context.DeadlineExceeded
	select {
	case t := <-w.turn:
		return g.take(ctx, w, t, until)
	case <-over.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if g.leave(w) {
		return 0, err
	}
	return g.take(ctx, w, <-w.turn, until)
}

func (g *group) queue(w *writer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = append(g.waiting, w)
	g.next()
}

// leave reports whether w had no turn yet, and takes it out of the queue.
func (g *group) leave(w *writer) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := len(g.waiting)
	g.waiting = slices.DeleteFunc(g.waiting, func(other *writer) bool { return other == w })
	return len(g.waiting) < before
}

// next gives turns: to a batch where enough wait for it, or to writers alone. While a batch is
// under way all others wait, to become the next. Callers hold g.mu.
func (g *group) next() {
	if g.batch {
		return
	}
	if len(g.waiting) >= g.least {
		n := fitting(g.waiting)
		batch := slices.Clone(g.waiting[:n])
		g.waiting, g.batch = slices.Delete(g.waiting, 0, n), true
		batch[0].turn <- turn{batch: batch}
		return
	}
	for len(g.waiting) > 0 && g.alone < g.least {
		g.waiting[0].turn <- turn{}
		g.waiting = slices.Delete(g.waiting, 0, 1)
		g.alone++
	}
}

// fitting returns how many of the writers fit into one batch. The server checks a batch before it
// stores it, so that two events for the same place of one log would both pass.
func fitting(waiting []*writer) int {
	bytes, logs := 0, make(map[string]bool, len(waiting))
	for n, w := range waiting {
		log := w.msg.Header[jetstream.ExpectedLastSubjSeqSubjHeader][0]
		if bytes += len(w.msg.Data); n == maxBatch || logs[log] || n > 0 && bytes > maxBatchBytes {
			return n
		}
		logs[log] = true
	}
	return len(waiting)
}

func (g *group) take(ctx context.Context, w *writer, t turn, until time.Time) (uint64, error) {
	if t.batch != nil {
		t = g.lead(ctx, t.batch)
	}
	if t.sent {
		return t.seq, t.err
	}
	defer g.free()
	return publish(ctx, g.js, w.msg, time.Until(until))
}

// free ends the turn of a writer that was alone.
func (g *group) free() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.alone--
	g.next()
}

// lead sends the batch, tells its other writers what became of their events, and returns what
// became of the first.
func (g *group) lead(ctx context.Context, batch []*writer) turn {
	seq, err := g.send(ctx, batch)
	became := func(i int) turn { return turn{sent: true, seq: seq + uint64(i), err: err} }
	g.mu.Lock()
	defer g.mu.Unlock()
	if refused(err) {
		became = func(int) turn { return turn{} }
		g.alone += len(batch)
	}
	for i, w := range batch[1:] {
		w.turn <- became(i + 1)
	}
	g.batch = false
	g.next()
	return became(0)
}

// send publishes a batch and returns where its first event is stored; the others follow it. It
// takes its own time: the batch is not only that of whoever sends it.
func (g *group) send(ctx context.Context, batch []*writer) (uint64, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.answer)
	defer cancel()
	b, err := jetstreamext.NewBatchPublisher(g.js, jetstreamext.BatchFlowControl{})
	if err != nil {
		return 0, fmt.Errorf("batch: %w", err)
	}
	last := len(batch) - 1
	for _, w := range batch[:last] {
		if err := b.AddMsg(copied(w.msg)); err != nil {
			return 0, fmt.Errorf("batch: %w", err)
		}
	}
	ack, err := b.CommitMsg(ctx, copied(batch[last].msg))
	if err != nil {
		return 0, fmt.Errorf("batch: %w", err)
	}
	return ack.Sequence - uint64(last), nil
}

// copied returns msg with headers of its own: those of a batch are not to be sent with it again.
func copied(msg *nats.Msg) *nats.Msg {
	header := make(nats.Header, len(msg.Header)+3)
	for name, values := range msg.Header {
		header[name] = values
	}
	return &nats.Msg{Subject: msg.Subject, Data: msg.Data, Header: header}
}

// refused reports whether err says that nothing of a batch is stored, and never will be.
func refused(err error) bool {
	return bus.IsAnswered(err) && !bus.HasErrorCode(err, bus.CodeBatchUnknown)
}
