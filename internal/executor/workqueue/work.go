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

// Message is a received work message. Its acknowledgement only ends the deliveries: the call log decides the outcome.
type Message struct {
	Entry call.Entry
	// Deliveries is 1 if no executor can have worked on the message before, and greater otherwise or if that is not known.
	Deliveries int
	workers    *Puller
	msg        *nats.Msg
	meta       *nats.MsgMetadata
	sender     flow.Sender
	overflow   bool // it counts as overflow work
	lost       atomic.Bool
}

// InProgress extends the acknowledgement timeout of the message.
func (w *Message) InProgress() { _ = w.msg.InProgress() } // if it is lost, the message may be delivered again

// Ack acknowledges the message: its attempt is decided.
func (w *Message) Ack() { _ = w.msg.Ack() } // if it is lost, the next delivery finds the decision

// NakWithDelay returns the message to the server, which delivers it again after the given time.
func (w *Message) NakWithDelay(after time.Duration) { _ = w.msg.NakWithDelay(after) } // as Ack

// NakUnstarted is NakWithDelay for a message that this process has not started to handle. If the next delivery is to
// this process, it has the same Deliveries.
func (w *Message) NakUnstarted(after time.Duration) {
	w.workers.declines.note(w)
	w.NakWithDelay(after)
}

// TakeOver runs rest, which finishes the handling of the message, in a new goroutine, because the present one may never
// return. The message keeps its slot until rest returns.
func (w *Message) TakeOver(rest func()) {
	w.lost.Store(true)
	w.workers.handlers.Replace(func() {
		rest()
		w.workers.done(w)
	})
}

// Puller pulls the work messages of one pool from all partitions of the call log: as many as it has free slots, which
// the queues share by weight, so that none starves. One main queue may get all slots. The overflow queues, with calls
// of actors that have many open calls, leave some slots free for calls of other actors. For each queue of each
// partition, the puller may also receive one message for which there is no slot. Such a message waits for a slot, and
// is returned if there is none soon.
type Puller struct {
	// Log logs messages that cannot be read, and missing consumers. Set it before Run. Nil discards.
	Log       *slog.Logger
	notices   format.Notices
	patience  time.Duration // how long a received message waits for a slot
	declines  declines
	repeats   repeats
	sources   []*source
	handle    func(context.Context, *Message)
	handlers  *flow.WorkerPool[*Message]
	consumers Consumers
	missing   bool // a consumer was missing at the last read
	nc        *nats.Conn
	lookNow   chan struct{}
	changed   chan struct{} // see Changed
	ended     func() bool   // intake has ended: no more work is pulled

	mu      sync.Mutex
	resumes uint64 // paused until the connection has reconnected this often; 0: not paused
	slots   slots
	last    *source // that had work most recently
	pulls   pulls
}

// source is the consumer of one queue in one partition.
type source struct {
	consumerNames
	worked   time.Time // when it last had work
	recent   bool      // it had work recently
	known    consumerAge
	turns    int  // state of turn
	credits  int  // requested messages that have not arrived, each with a reserved slot
	share    int  // messages to request
	heeded   bool // one message is requested without a slot, to learn whether there is any
	demand   int  // number of further messages that are known to wait in the stream
	large    bool // the last message was larger than a portion, or the next one is larger than was requested
	answered bool // the server has answered a request on this connection
	heard    bool // the server answered the last request, on any connection
	silent   bool // the server did not answer the last request
	waiting  []*waiting
}

// queue is a kind of queue that each pool has.
type queue struct {
	priority envelope.Priority
	step     int
	overflow bool // of a step with calls of actors that have many open
	weight   int
}

// token returns the name of the queue in subjects and in names of consumers.
func (q queue) token() string { return subjects.Queue(string(q.priority), q.step) }

// queues returns the queues of a pool. A queue has the product of the weights of its step and its priority.
func queues() (all []queue) {
	for step, weight := range [subjects.Steps]int{8, 4, 4, 1} {
		all = append(all,
			queue{envelope.PriorityHigh, step, step > 1, 6 * weight},
			queue{envelope.PriorityNormal, step, step > 1, 3 * weight},
			queue{envelope.PriorityLow, step, step > 1, weight})
	}
	return all
}

// MinSlots is the smallest number of slots of a [Puller].
const MinSlots = 1

// How long pull requests wait for messages. While there are free slots, one message of each source is always requested,
// with standingPull. Requests beyond that are short, so that slots move to the sources with work. If the server does
// not report the end of a request, its slots are freed after pullGrace.
const (
	atOnce       = 0
	standingPull = 10 * time.Second
	extraPull    = 300 * time.Millisecond
	pullGrace    = time.Second
)

// New returns a Puller for a pool. [Puller.Run] calls handle for every message, in up to slots goroutines at a time.
// New reads the infos of the consumers once, and returns the error of that.
func New(ctx context.Context, consumers Consumers, pool string, partitions, slots int, lease time.Duration,
	handle func(context.Context, *Message)) (*Puller, error) {
	if slots < MinSlots {
		return nil, fmt.Errorf("%d slots are too few, it takes %d", slots, MinSlots)
	}
	w := &Puller{
		patience: min(prefetchTime, lease/4), handle: handle, consumers: consumers,
		lookNow: make(chan struct{}, 1), changed: make(chan struct{}, 1),
		slots: slotsOf(slots),
	}
	all, err := consumers.Look(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range consumersOf(pool, partitions) {
		w.sources = append(w.sources, &source{consumerNames: c})
	}
	w.last = w.sources[1]
	w.pulls = pullsFor(slots, len(w.sources))
	for _, s := range w.sources {
		if s.known = meet(of(all, s)); s.known.gone {
			w.lookSoon()
		}
	}
	return w, nil
}

// Run pulls messages until intake ends, and then waits until all handlers have returned. Handlers get ctx, which may
// end later than intake to let them finish.
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

// done frees the slot of a message.
func (w *Puller) done(m *Message) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slots.add(m, -1)
	w.pull()
}

// stop ends all pull requests, returns messages that wait or still arrive, and waits for the handlers.
func (w *Puller) stop() {
	w.mu.Lock()
	for _, p := range w.pulls.all {
		_ = p.sub.Drain() // it is gone with the connection otherwise
		w.over(p)
	}
	w.giveBackAll()
	w.mu.Unlock()
	w.handlers.Wait()
}

// Pause ends all pull requests before a planned reconnect: a message that the server sends to a closed connection is
// delivered again only after a lease, which may be too late for its call. When Pause returns, all sent messages have
// arrived, and no inbox is subscribed again after the reconnect, unless the server did not answer within 1 s. The next
// reconnect ends the pause. On a lost connection, Pause does nothing.
func (w *Puller) Pause() {
	w.mu.Lock()
	if w.nc == nil || !w.nc.IsConnected() {
		w.mu.Unlock()
		return
	}
	w.resumes = w.nc.Stats().Reconnects + 1
	ended := w.pulls.all
	w.pulls.all = nil
	for _, p := range ended {
		_ = p.sub.Drain() // it is gone with the connection otherwise
		w.over(p)
	}
	w.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), pauseTime)
	defer cancel()
	for _, p := range ended {
		select {
		case <-p.closed:
		case <-ctx.Done():
			_ = p.sub.Unsubscribe() // without an answer, the connection is lost already
		}
	}
}

// pauseTime is how long Pause waits for the server.
const pauseTime = time.Second

// restart sends new pull requests after a reconnect, which ended the previous ones.
func (w *Puller) restart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.nc.Stats().Reconnects < w.resumes {
		return // this reconnect was before the pause
	}
	w.resumes = 0
	w.lookSoon()
	w.repeats.forget()
	for _, p := range w.pulls.all {
		w.over(p)
	}
	for _, s := range w.sources {
		s.answered = false
	}
	w.pull()
}

// receive handles a message for the inbox of a pull: a work message or a status.
func (w *Puller) receive(p *pull, msg *nats.Msg) {
	if status := msg.Header.Get("Status"); status != "" && len(msg.Data) == 0 {
		w.hear(p, status, msg.Header.Get("Description"))
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
		w.came(p, msg.Size())
	}
	if ok {
		w.take(work, late)
	}
	w.pull()
}

// take starts a message, keeps it until there is a slot, or returns it. The caller holds w.mu.
func (w *Puller) take(work *Message, late bool) {
	s := w.sourceOf(work.meta)
	work.Deliveries = w.deliveries(s, work)
	switch {
	case s == nil || w.ended() || late && w.free() <= 0: // its slot has been given to another message
		work.NakUnstarted(0)
	default:
		if s = w.waitsWith(s, work); w.slots.room(s.overflow, w.slots.running) > 0 {
			w.begin(s, work)
		} else {
			w.keep(s, work)
		}
	}
}

// begin gives a slot of s to a message and starts its handler. The caller holds w.mu.
func (w *Puller) begin(s *source, work *Message) {
	work.overflow = s.overflow
	if !w.handlers.Start(work) {
		work.NakUnstarted(0)
		return
	}
	w.slots.add(work, 1)
}

// sourceOf returns the source of a message. The inbox does not tell it, because an inbox is reused for other sources.
// The caller holds w.mu.
func (w *Puller) sourceOf(m *nats.MsgMetadata) *source {
	for _, s := range w.sources {
		if s.name == m.Consumer && s.stream == m.Stream {
			return s
		}
	}
	return nil
}

// deliveries returns the number of deliveries of a message to executors that may have worked on it, at least 2 if that
// is not known. The caller holds w.mu.
func (w *Puller) deliveries(s *source, work *Message) int {
	if s == nil || !s.known.counts(work.meta) {
		return max(work.Deliveries, 2)
	}
	s.known = s.known.heard(work.meta, time.Now())
	return w.declines.recall(work.meta)
}

// unreadableDelay is the pause before the next delivery of a message that this executor cannot read.
const unreadableDelay = time.Second

// open decodes a work message. It acknowledges a message that is not a request event, such as a delete marker of an
// operator, and returns ok false. It returns a message of a newer build to the server, for an executor that can read
// it.
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
		sender: flow.Sender(call.Sender{Tenant: e.State.Tenant, Actor: attempt.Owner.Actor}.Family()),
	}, true
}
