package workqueue

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Message is a work message in progress. Acks and hand-backs are transport; they prove nothing.
type Message struct {
	Entry call.Entry
	// Deliveries is 1 where nobody can have been handed the message before.
	Deliveries int
	workers    *Puller
	msg        *nats.Msg
	meta       *nats.MsgMetadata
	sender     sender
	overflow   bool // it has a slot that what goes behind may have
	lost       atomic.Bool
}

// InProgress says that the work is alive.
func (w *Message) InProgress() { _ = w.msg.InProgress() } // best effort: a lost lease is survived

// Ack says that the attempt is decided.
func (w *Message) Ack() { _ = w.msg.Ack() } // best effort: a redelivery finds the decision

// NakWithDelay returns the work, to be delivered again after a while.
func (w *Message) NakWithDelay(after time.Duration) { _ = w.msg.NakWithDelay(after) } // as Ack

// NakUnstarted is NakWithDelay of work that nothing was done with here: where this process is the next to be handed it
// again, nobody else has been, and it comes with the same Deliveries.
func (w *Message) NakUnstarted(after time.Duration) {
	w.workers.declines.note(w)
	w.NakWithDelay(after)
}

// TakeOver runs rest in another goroutine, which handles the message to its end: the one that handles it now does not
// return. The message has its slot until rest has returned.
func (w *Message) TakeOver(rest func()) {
	w.lost.Store(true)
	w.workers.handlers.Replace(func() {
		rest()
		w.workers.done(w)
	})
}

// Puller pull work messages of one pool from all partitions of the call log: as many as there are free slots, shared
// over the queues by weight, so that none starves. All slots may go to one queue of what goes ahead. What goes behind,
// since its actor has many calls open, leaves some free: what others ask for meanwhile finds one. The other queues are
// listened to meanwhile, so that there may be one message more in hand than there are slots for each queue of each
// partition; it waits for a slot, and is handed back when there is none soon.
type Puller struct {
	// Log is told of what cannot be read; set it before Run. Nil discards.
	Log       *slog.Logger
	notices   format.Notices
	slots     int
	lease     time.Duration
	patience  time.Duration // how long a message in hand waits for a slot
	declines  declines
	repeats   repeats
	sources   []*source
	handle    func(context.Context, *Message)
	handlers  *flow.WorkerPool[*Message]
	consumers Consumers
	missing   bool // a consumer was, at the last look
	nc        *nats.Conn
	lookNow   chan struct{}
	changed   chan struct{} // what PullsBehind returns may have
	ended     func() bool   // there is no more intake

	mu      sync.Mutex
	paused  bool // until there is another connection
	running taken
	of      map[sender]taken // of these, by whom; nobody who has none
	last    *source          // that had work most recently
	pulls   []*pull
}

// source is the consumer of one queue in one partition.
type source struct {
	consumerNames
	worked   time.Time // when it had work
	recent   bool      // it had of late
	known    consumerAge
	turns    int  // of having the next slot, see turn
	credits  int  // messages asked for and not yet here; each has a slot reserved
	share    int  // messages that are to be asked for
	heeded   bool // one message is asked for without a slot: it is not known whether there is any
	demand   int  // so many more messages are waiting, as far as known
	answered bool // the server has said something of it on this connection
	heard    bool // it has the last time, on whichever
	silent   bool // it has not the last time
	waiting  []*waiting
}

// queue is one of each pool.
type queue struct {
	priority envelope.Priority
	overflow bool // what is in it goes behind
	weight   int
}

// token is how subjects and consumers name it.
func (q queue) token() string { return subjects.Queue(string(q.priority), q.overflow) }

// queues are those that workers pull from. What goes ahead has four turns for one of what goes behind.
var queues = []queue{
	{envelope.PriorityHigh, false, 24},
	{envelope.PriorityNormal, false, 12},
	{envelope.PriorityLow, false, 4},
	{envelope.PriorityHigh, true, 6},
	{envelope.PriorityNormal, true, 3},
	{envelope.PriorityLow, true, 1},
}

// MinSlots is the fewest slots that Workers take.
const MinSlots = 1

// How long a pull waits. While there are free slots, one message per source is always asked for; what
// is asked for beyond that is asked for briefly, so that slots move to where the work is. The server says
// when a request has ended; when it does not, its slots are free again after a grace.
const (
	atOnce       = 0
	standingPull = 10 * time.Second
	extraPull    = 300 * time.Millisecond
	pullGrace    = time.Second
)

// New returns workers of pool with so many slots, which call handle for every message, as many at once as there are
// slots. They pull from all partitions, whose consumers are looked at once before.
func New(ctx context.Context, consumers Consumers, pool string, partitions, slots int, lease time.Duration,
	handle func(context.Context, *Message)) (*Puller, error) {
	if slots < MinSlots {
		return nil, fmt.Errorf("%d slots are too few, it takes %d", slots, MinSlots)
	}
	w := &Puller{
		slots: slots, lease: lease, patience: min(prefetchTime, lease/4), handle: handle, consumers: consumers,
		lookNow: make(chan struct{}, 1), changed: make(chan struct{}, 1), of: map[sender]taken{},
	}
	all, err := consumers.Look(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range consumersOf(pool, partitions) {
		w.sources = append(w.sources, &source{consumerNames: c})
	}
	w.last = w.sources[1]
	for _, s := range w.sources {
		if s.known = meet(of(all, s)); s.known.gone {
			w.lookSoon()
		}
	}
	return w, nil
}

// Run pulls until intake ends, then waits for what is in hand; handlers get ctx, which may end
// later than intake to let them finish (drain).
func (w *Puller) Run(ctx, intake context.Context, nc *nats.Conn) {
	status := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(status)
	w.mu.Lock()
	w.nc, w.ended = nc, func() bool { return intake.Err() != nil }
	w.mu.Unlock()
	w.handlers = flow.NewWorkerPool(func(m *Message) {
		if w.handle(ctx, m); !m.lost.Load() {
			w.done(m)
		}
	})
	w.handlers.Lost = func(m *Message) bool { return m != nil && m.lost.Load() }
	w.mu.Lock()
	w.pull()
	w.mu.Unlock()
	var looking sync.WaitGroup
	looking.Go(func() { w.look(intake) })
	defer looking.Wait()
	for {
		select {
		case <-intake.Done():
			w.stop()
			return
		case <-status:
			w.restart()
		}
	}
}

// done gives back the slot of a message.
func (w *Puller) done(m *Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs(m, -1)
	w.pull()
}

// stop takes no more work and waits for what is in hand. What still arrives is handed back.
func (w *Puller) stop() {
	w.mu.Lock()
	for _, p := range w.pulls {
		_ = p.sub.Drain() // it is gone with the connection otherwise
		w.over(p)
	}
	w.giveBackAll()
	w.mu.Unlock()
	w.handlers.Wait()
}

// Pause takes no more work before the connection is made anew: what the server hands to one that ends then comes again
// after a lease, to a call that may have no more time. When Pause returns all that was handed over is here.
func (w *Puller) Pause() {
	w.mu.Lock()
	nc := w.nc
	if nc == nil {
		w.mu.Unlock()
		return
	}
	w.paused = true
	for _, p := range w.pulls {
		_ = p.sub.Drain() // it is gone with the connection otherwise
		w.over(p)
	}
	w.pulls = nil
	w.mu.Unlock()
	_ = nc.FlushTimeout(pauseTime) // without an answer the connection is lost already
}

// pauseTime is how long the server may take to say that it hands over no more.
const pauseTime = time.Second

// restart asks anew for everything: requests died with the old connection.
func (w *Puller) restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused = false
	w.lookSoon()
	w.repeats.forget()
	for _, p := range w.pulls {
		w.over(p)
	}
	for _, s := range w.sources {
		s.answered = false
	}
	w.pull()
}

// receive takes a message of a pull, or the server's word that there are no more.
func (w *Puller) receive(p *pull, msg *nats.Msg) {
	if status := msg.Header.Get("Status"); status != "" && len(msg.Data) == 0 {
		w.hear(p, status)
		return
	}
	work, ok := w.open(msg)
	w.mu.Lock()
	defer w.mu.Unlock()
	if ok && w.repeats.has(work.meta) {
		return
	}
	late := p.source == nil
	if !late {
		p.source.demand, p.source.worked, w.last = 0, time.Now(), p.source
		if ok {
			p.source.demand = int(work.meta.NumPending)
		}
		w.answers(p.source, true)
		w.came(p)
	}
	if ok {
		w.take(work, late)
	}
	w.pull()
}

// take begins with a message, or keeps it until there is a slot. Callers hold w.mu.
func (w *Puller) take(work *Message, late bool) {
	s := w.sourceOf(work.meta)
	work.Deliveries = w.deliveries(s, work)
	switch {
	case s == nil || w.ended() || late && w.free() <= 0: // its slot has been given away
		work.NakUnstarted(0)
	default:
		if s = w.waitsWith(s, work); w.slotsFor(s, w.running) > 0 {
			w.begin(s, work)
		} else {
			w.keep(s, work)
		}
	}
}

// begin gives a message of s a slot. Callers hold w.mu.
func (w *Puller) begin(s *source, work *Message) {
	work.overflow = s.overflow
	if !w.handlers.Start(work) {
		work.NakUnstarted(0)
		return
	}
	w.runs(work, 1)
}

// sourceOf returns where a message comes from. Its inbox does not say: that may have served another source before.
// Callers hold w.mu.
func (w *Puller) sourceOf(m *nats.MsgMetadata) *source {
	for _, s := range w.sources {
		if s.name == m.Consumer && s.stream == m.Stream {
			return s
		}
	}
	return nil
}

// deliveries returns how often a message was handed to somebody who may have done something with it; more than one
// where that is not known. Callers hold w.mu.
func (w *Puller) deliveries(s *source, work *Message) int {
	if s == nil || !s.known.counts(work.meta) {
		return max(work.Deliveries, 2)
	}
	s.known = s.known.heard(work.meta, time.Now())
	return w.declines.recall(work.meta)
}

// The server's words about a pull request.
const (
	statusHeartbeat = "100"
	statusNothing   = "404"
	statusExpired   = "408"
)

// hear ends a pull when the server says so. What is wrong with the consumer or the server is
// asked again a little later.
func (w *Puller) hear(p *pull, status string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case p.source == nil || status == statusHeartbeat:
	case status == statusNothing || status == statusExpired:
		p.source.demand = 0
		w.answers(p.source, true)
		w.over(p)
		w.pull()
	default:
		p.end.Reset(extraPull)
		p.wrong, p.source.known.gone = true, true
		w.lookSoon()
	}
}

// unreadableDelay is how long a message waits for an executor that can read it.
const unreadableDelay = time.Second

// open reads a work message. One that is not an event (an operator's delete marker, a foreign write) is
// acknowledged and forgotten; one that a newer build wrote is handed to an executor that can read it.
func (w *Puller) open(msg *nats.Msg) (*Message, bool) {
	meta, err := msg.Metadata()
	if err != nil {
		return nil, false
	}
	e, err := kv.DecodeEvent(msg.Subject, msg.Header)
	switch {
	case format.IsUnsupported(err):
		w.notices.Log(w.Log, "work handed to other executors", err)
		_ = msg.NakWithDelay(unreadableDelay) // as [Message.NakWithDelay]
		return nil, false
	case err != nil || e.Kind != call.Requested:
		_ = msg.Ack() // nothing to run; a redelivery would end here again
		return nil, false
	}
	seq := meta.Sequence.Stream
	attempt, _ := e.State.Attempt(e.Attempt)
	entry := call.Entry{State: e.Folded(seq), Kind: e.Kind, Attempt: e.Attempt, Body: msg.Data, Time: meta.Timestamp}
	return &Message{
		Entry: entry, Deliveries: int(meta.NumDelivered), workers: w, msg: msg, meta: meta,
		sender: sender{e.State.Tenant, attempt.Owner.Actor},
	}, true
}
