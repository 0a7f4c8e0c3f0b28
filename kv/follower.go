package kv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// FollowedEvent is an event of the call log as a follower sees it: without its body.
type FollowedEvent struct {
	Kind    call.Kind
	Attempt int
	State   call.State
	Seq     uint64
	Time    time.Time
	Known   time.Duration // since when the follower knows of it, see [Follower.Served]
}

// ErrStreamRolledBack means that the call log does not hold any more what was read from it, or the record
// what was written to it: the server has lost what it had not synced. Positions are used again
// then, so whoever follows has to start anew.
var ErrStreamRolledBack = errors.New("the server has lost the end of a stream, which it had not synced")

var errLogGone = fmt.Errorf("%w: the call log is gone", ErrStreamRolledBack)

// Follower reads one partition of the call log in order, every event of it, from a position on: of an attempt whose
// admission has expired, only a claim or a join may be left. It resumes by itself after any interruption, and where
// events that the server has do not come. Its methods are safe for concurrent use; Run may be called once.
type Follower struct {
	// Passes reports whether an event that this build cannot read is passed over, because of whoever wrote it; nil is
	// never. It is set before Run.
	Passes func(instance string) bool
	Log    *slog.Logger // is told of what is passed over; nil discards

	js     jetstream.JetStream
	part   subjects.Partition
	stream jetstream.Stream
	uptime serverUptime

	running jetstream.ConsumeContext // brings the events; Run's own
	still   still                    // Run's own, too
	retired sync.WaitGroup           // those that brought them before

	notices format.Notices
	seeing  sync.Mutex // one event at a time, also while one consumer takes over from another
	over    bool       // nothing is observed any more
	logs    openLogs   // as they were observed
	closed  closedLogs // others that were read
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

// NewFollower returns a follower of a partition of the call log.
func NewFollower(js jetstream.JetStream, part subjects.Partition) *Follower {
	return &Follower{js: js, part: part, logs: openLogs{}, closed: closedLogs{}, doubts: make(chan place, 1),
		refused: make(chan *Unreadable, 1)}
}

// Unreadable is where a follower stopped: at an event that a build of another age wrote. Whoever follows
// stands by behind a build that reads it.
type Unreadable struct {
	call.Position
	Err error // a [format.Error]
}

func (u *Unreadable) Error() string {
	return fmt.Sprintf("%s at %d: %s", u.Partition.Stream(), u.Seq, u.Err)
}

// Unwrap returns the [format.Error].
func (u *Unreadable) Unwrap() error { return u.Err }

// Gone waits until the event at which a follower stopped is not there any more, because it has expired, or ctx ends.
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

// StandBy is the rhythm in which a process that stands by looks whether it can go on.
const StandBy = 5 * time.Second

// Run calls observe for every event from sequence from (1 for all) until ctx ends, which is no
// error, or the log is found to have lost its end ([ErrLostTail]), or to hold what this build cannot read
// ([Unreadable]): then it stops there, and skips nothing. observe must not block for
// long: everything else waits for it.
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

// consume lets the events come that have not been observed, from a consumer of its own. One that was running is
// let go of; what both bring is observed once, since each brings everything from some place on.
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
	f.retire()
	f.running = running
	return nil
}

// retire lets go of the consumer.
func (f *Follower) retire() {
	if old := f.running; old != nil {
		f.retired.Go(func() { old.Stop(); <-old.Closed() })
	}
}

// position returns up to where every event has been observed.
func (f *Follower) position() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.read
}

// stopTime is how long a follower takes to stop at the most.
const stopTime = 2 * time.Second

// stop ends the consumers. The client library does not let go of one that is looking for a server
// which is not there; that ends with the connection then, and nothing of it is observed any more.
func (f *Follower) stop() {
	ended := make(chan struct{})
	f.retire()
	go func() {
		defer close(ended)
		f.retired.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(stopTime):
	}
	f.seeing.Lock()
	defer f.seeing.Unlock()
	f.over = true
}

// begin notes where it begins, and the end of the log: it may be lost before anything has been read.
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

// lookBehind is the rhythm in which a follower looks whether there is more, and how long the server may take to
// say so: a follower that gets no events is not told by them.
const lookBehind = time.Second

// watch looks, after every interruption, whether the log still holds what was read from it, and
// now and then whether there is more.
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
			if doubt.seq == 0 { // the older one says more
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
	if format.IsUnsupported(err) && Passed(msg.Subject(), f.Passes) {
		f.notices.Log(f.Log, "an event that cannot be read is passed over: only the call that it is of is harmed", err)
	} else if format.IsUnsupported(err) { // nothing behind it is observed either
		f.over = true
		at := call.Position{Partition: f.part, Seq: meta.Sequence.Stream}
		f.refused <- &Unreadable{at, err} // there is room for the only one
		return
	}
	known, isNew := f.begun(meta)
	if !isNew {
		return
	}
	if err == nil {
		switch s, ok := f.logs.fold(ctx, f, e, meta.Sequence.Stream); {
		case ok:
			observe(FollowedEvent{
				Kind: e.Kind, Attempt: e.Attempt, State: s, Seq: meta.Sequence.Stream, Time: meta.Timestamp, Known: known,
			})
		case ctx.Err() != nil: // it may be one that the log allows
			return
		}
	}
	f.passed(meta.Sequence.Stream)
}

// begun notes the place of an event that has come, and returns since when it is known; it is not new if it has been
// observed already. Where another consumer brings it than the one before, there was an interruption.
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
	f.waiting.Known(meta.Sequence.Stream+meta.NumPending, at) // of those there are gaps between, some are further on
	return f.waiting.Since(at), true
}

// passed notes that everything up to seq has been observed.
func (f *Follower) passed(seq uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read, f.busy = seq, false
	f.waiting.Done(seq)
}
