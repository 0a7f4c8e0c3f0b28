package kv

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// FollowedEvent is an event of the call log without its body, and the state of the log after it.
type FollowedEvent struct {
	Kind    call.Kind
	Attempt int
	State   call.State
	Seq     uint64
	Size    int // of the body in bytes
	Time    time.Time
	Expires time.Time     // when the server drops it
	Known   time.Duration // time on the clock of [Follower.Served] when the follower learnt of it
}

// ErrStreamRolledBack means that the server has lost the end of a stream, which it had not synced to disk: the call log
// lacks events that were read, or the audit record lacks records that were written. The server uses the sequences
// again, so a follower must start from the beginning.
var ErrStreamRolledBack = errors.New("the server has lost the end of a stream")

var errLogGone = fmt.Errorf("%w: the call log is gone", ErrStreamRolledBack)

// Follower reads all events of one partition of the call log in order, from a sequence on. If the request event of an
// attempt has expired, only later events of it are left. The Follower resumes by itself after an interruption, and if
// the server stops delivering events that it has. Make one with [NewFollower]. Its methods are safe for concurrent use.
// Run may be called once.
type Follower struct {
	// Passes reports whether to skip events of an instance that this build cannot read; nil skips none. Set it before
	// Run.
	Passes func(instance string) bool
	Log    *slog.Logger // logs skipped events; nil discards
	// Foreign is called with each event that the log does not allow; nil ignores them. It must not block. Set it before
	// Run.
	Foreign func(call.Event)

	js     jetstream.JetStream
	part   subjects.Partition
	stream jetstream.Stream
	uptime serverUptime

	delivery delivery // of the events; only Run uses it

	notices format.Notices
	seeing  sync.Mutex // one event at a time, also while one consumer takes over from another
	over    bool       // nothing is observed any more
	knownLogs
	refused chan *Unreadable

	mu       sync.Mutex
	read     uint64 // every event up to here has been observed
	busy     bool   // the next one is being observed
	waiting  Lag    // of events that have not been observed
	last     place  // the newest event seen, or known to be there
	consumer string // that brought it
	doubts   chan place
}

// place is an event in the log. Its position alone does not name it: a log that has lost its end
// uses positions again.
type place struct {
	seq uint64
	at  time.Time
}

// NewFollower returns a follower of a partition of the call log. Call its Run.
func NewFollower(js jetstream.JetStream, part subjects.Partition) *Follower {
	return &Follower{js: js, part: part, knownLogs: knownLogs{openLogs{}, closedLogs{}, maphash.MakeSeed()},
		doubts: make(chan place, 1), refused: make(chan *Unreadable, 1)}
}

// Unreadable is the error of a follower that stopped at an event in a format that this build does not read. The process
// must leave the partition to a build that reads it.
type Unreadable struct {
	call.Position
	Err error // a [format.Error]
}

func (u *Unreadable) Error() string {
	return fmt.Sprintf("%s at %d: %s", u.Partition.Stream(), u.Seq, u.Err)
}

// Unwrap returns the [format.Error].
func (u *Unreadable) Unwrap() error { return u.Err }

// Gone waits until the event at which the follower stopped has expired, or ctx ends. It checks every [StandBy].
func (u *Unreadable) Gone(ctx context.Context, js jetstream.JetStream) {
	for {
		stream, err := js.Stream(ctx, u.Partition.Stream())
		if err == nil {
			_, err = bus.MessageAt(ctx, stream, u.Seq)
		}
		missing := errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, jetstream.ErrStreamNotFound)
		if missing || !timer.Sleep(ctx, StandBy) {
			return
		}
	}
}

// StandBy is the interval at which a process that waits for such an event checks whether it can go on.
const StandBy = 5 * time.Second

// Run calls observe for each event from the sequence from on; 1 means all. It calls observe for one event at a time, in
// order. observe must not block for long, because all later events wait. Run returns nil when ctx ends. It returns
// [ErrStreamRolledBack] if the server has lost the end of the log, and [Unreadable] at an event that it cannot read.
func (f *Follower) Run(ctx context.Context, from uint64, observe func(FollowedEvent)) error {
	if err := f.begin(ctx, from); err != nil {
		return fmt.Errorf("follow the call log: %w", err)
	}
	see := func(msg jetstream.Msg) { f.see(ctx, msg, observe) }
	if err := f.consume(ctx, see); err != nil {
		return fmt.Errorf("follow the call log: %w", err)
	}
	defer f.stop()
	return f.watch(ctx, see)
}

// consume starts a new consumer for the events that have not been observed, and stops the one before. An event that
// both deliver is observed once, because each consumer delivers all events from its start on.
func (f *Follower) consume(ctx context.Context, see func(jetstream.Msg)) error {
	cons, err := f.js.OrderedConsumer(ctx, f.part.Stream(), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{f.part.All()},
		DeliverPolicy:  jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:    f.position() + 1,
		HeadersOnly:    true,
	})
	if err != nil {
		return err
	}
	running, err := cons.Consume(see)
	if err != nil {
		return err
	}
	f.delivery.retire()
	f.delivery.running = running
	return nil
}

// delivery is the consumer that delivers the events.
type delivery struct {
	running jetstream.ConsumeContext
	still   still
	retired sync.WaitGroup // the consumers before
}

// retire stops the current consumer in another goroutine.
func (d *delivery) retire() {
	if old := d.running; old != nil {
		d.retired.Go(func() { old.Stop(); <-old.Closed() })
	}
}

// position returns the sequence up to which all events have been observed.
func (f *Follower) position() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read
}

// stopTime is the longest time that a follower takes to stop.
const stopTime = 2 * time.Second

// stop stops the consumers. nats.go does not stop a consumer while it looks for a server; that consumer ends with the
// connection, and its events are no longer observed.
func (f *Follower) stop() {
	ended := make(chan struct{})
	f.delivery.retire()
	go func() {
		defer close(ended)
		f.delivery.retired.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(stopTime):
	}
	f.seeing.Lock()
	defer f.seeing.Unlock()
	f.over = true
}

// begin stores the sequence to begin with, and the current end of the log, which may be lost before the first event is
// read.
func (f *Follower) begin(ctx context.Context, from uint64) error {
	stream, err := f.js.Stream(ctx, f.part.Stream())
	if err != nil {
		return err
	}
	f.stream = stream
	end := place{seq: stream.CachedInfo().State.LastSeq}
	msg, err := bus.MessageAt(ctx, stream, end.seq)
	switch {
	case end.seq == 0 || errors.Is(err, jetstream.ErrMsgNotFound): // empty, or expired
		end.seq = 0
	case err != nil:
		return err
	default:
		end.at = msg.Time
	}
	f.uptime.heard(time.Now())
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last, f.read = end, max(from, 1)-1
	return nil
}

// lookBehind is the interval at which a follower asks the server for further events, and the timeout of that request. A
// follower that receives no events cannot tell otherwise whether it is behind.
const lookBehind = time.Second

// watch checks after every interruption whether the log still holds the events that were read from it, and every
// lookBehind whether it has more.
func (f *Follower) watch(ctx context.Context, see func(jetstream.Msg)) (err error) {
	status := f.js.Conn().StatusChanged(nats.CONNECTED)
	defer f.js.Conn().RemoveStatusListener(status)
	tick := time.NewTicker(lookBehind)
	defer tick.Stop()
	for doubt := (place{}); err == nil; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err = f.checkServerPosition(ctx, see); err == nil {
				doubt, err = f.check(ctx, doubt)
			}
		case <-status:
			f.mu.Lock()
			f.question(f.last)
			f.mu.Unlock()
		case u := <-f.refused:
			return u
		case p := <-f.doubts:
			if doubt.seq == 0 { // the older place is the better evidence
				doubt = p
			}
			doubt, err = f.check(ctx, doubt)
		}
	}
	return err
}

func (f *Follower) see(ctx context.Context, msg jetstream.Msg, observe func(FollowedEvent)) {
	f.seeing.Lock()
	defer f.seeing.Unlock()
	meta, err := msg.Metadata()
	if err != nil || f.over {
		return
	}
	e, err := DecodeEvent(msg.Subject(), msg.Headers())
	if format.IsUnsupported(err) && passed(msg.Subject(), f.Passes) {
		f.notices.Log(f.Log, "an event that cannot be read is passed over: only the call that it is of is harmed", err)
	} else if format.IsUnsupported(err) { // no later event may be observed either
		f.over = true
		at := call.Position{Partition: f.part, Seq: meta.Sequence.Stream}
		f.refused <- &Unreadable{at, err} // never blocks: sent once, and the channel holds one
		return
	}
	known, isNew := f.begun(meta)
	if !isNew {
		return
	}
	if err == nil {
		switch s, ok := f.fold(ctx, e, place{meta.Sequence.Stream, meta.Timestamp}); {
		case ok:
			observe(FollowedEvent{
				Kind: e.Kind, Attempt: e.Attempt, State: s, Seq: meta.Sequence.Stream, Size: bodySize(msg.Headers()),
				Time: meta.Timestamp, Expires: expiresAt(msg.Headers(), meta.Timestamp), Known: known,
			})
		case ctx.Err() != nil: // e was not checked: the log may allow it
			return
		case f.Foreign != nil:
			f.Foreign(e)
		}
	}
	f.passed(meta.Sequence.Stream)
}

// bodySize returns the size of the body of a message that was delivered without it, from a header of the server.
func bodySize(h nats.Header) int {
	n, _ := strconv.Atoi(h.Get(nats.MsgSize)) // the server leaves it out for an empty body
	return n
}

// begun stores the place of an event that has arrived, and returns when the follower learnt of it. isNew is false if
// the event has been observed already. If it comes from another consumer than the event before, there was an
// interruption, so the end of the log is checked.
func (f *Follower) begun(meta *jetstream.MsgMetadata) (known time.Duration, isNew bool) {
	now := time.Now()
	f.uptime.heard(now)
	at := f.uptime.at(now)
	f.mu.Lock()
	defer f.mu.Unlock()
	if meta.Consumer != f.consumer {
		f.question(f.last)
		f.consumer = meta.Consumer
	}
	if meta.Sequence.Stream <= f.read {
		return 0, false
	}
	if meta.Sequence.Stream > f.last.seq {
		f.last = place{meta.Sequence.Stream, meta.Timestamp}
	}
	f.busy = true
	f.waiting.Known(meta.Sequence.Stream+meta.NumPending, at) // a lower bound: sequences have gaps
	return f.waiting.Since(at), true
}

// passed stores that all events up to seq have been observed.
func (f *Follower) passed(seq uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read, f.busy = seq, false
	f.waiting.Done(seq)
}
