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

// group writes events as one batch if several wait for the stream at the same time (group commit). A server that syncs
// every message stores only as many messages per second as its disk makes syncs. A batch costs a directory, files and a
// few syncs, however many events are in it.
//
// The server stores all events of a batch or none. If it refuses a batch, because one of its compare-and-sets failed,
// each event is written alone to find out which one. group has no goroutine: the first writer of a batch sends it, and
// passes the result to the others.
type group struct {
	js     jetstream.JetStream
	answer time.Duration
	least  int // smallest number of events in a batch; fewer are sent alone

	mu      sync.Mutex
	waiting []*writer
	alone   int  // number of writers that send their event alone
	batch   bool // a batch is being sent
}

// DefaultBatch is the number of events from which on a batch is cheaper than single writes: a batch takes a server
// about as long as 16 synced writes.
const DefaultBatch = 16

// Limits of a batch: number of events, bytes of all events, and bytes of one event. Large events gain nothing from a
// batch, because the server stores a batch twice.
const (
	maxBatch      = 256
	maxBatchBytes = 1 << 20
	maxGrouped    = 64 << 10
)

// writer is a call of publish that waits for its turn.
type writer struct {
	msg  *nats.Msg
	turn chan turn // holds one
}

// turn is the message to a waiting writer. The zero value: send the own event alone. batch set: send this batch, whose
// first event is the own one. sent: the event was sent in a batch, with the result seq and err.
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

// leave removes w from the queue. It returns false if w already has its turn.
func (g *group) leave(w *writer) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := len(g.waiting)
	g.waiting = slices.DeleteFunc(g.waiting, func(other *writer) bool { return other == w })
	return len(g.waiting) < before
}

// next gives turns: to a batch if at least g.least writers wait, and otherwise to single writers. While a batch is
// being sent, all others wait and form the next one. Callers hold g.mu.
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

// fitting returns the number of writers whose events fit into one batch. A batch may have one event of each log: the
// server checks all compare-and-sets before it stores the first event, so two events with the same expectation would
// both pass.
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

// free ends the turn of a writer that sent its event alone.
func (g *group) free() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.alone--
	g.next()
}

// lead sends the batch, passes the results to its other writers, and returns that of the first.
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

// send publishes a batch and returns the sequence of its first event; the others follow it. It ignores the end of ctx,
// because the batch also holds events of other writers, and waits at most g.answer.
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

// copied returns msg with a copy of its headers. The batch publisher adds headers, which must not be sent if msg is
// sent alone later.
func copied(msg *nats.Msg) *nats.Msg {
	header := make(nats.Header, len(msg.Header)+3)
	for name, values := range msg.Header {
		header[name] = values
	}
	return &nats.Msg{Subject: msg.Subject, Data: msg.Data, Header: header}
}

// refused reports whether err means that no event of a batch is stored, and none will be.
func refused(err error) bool {
	return bus.IsAnswered(err) && !bus.HasErrorCode(err, bus.CodeBatchUnknown)
}
