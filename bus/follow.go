package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/internal/wait"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Observed is an event of the call log as a follower sees it: without its body.
type Observed struct {
	Kind    call.Kind
	Attempt int
	State   call.State
	Seq     uint64
	Time    time.Time
}

// ErrLostTail means that the call log does not hold any more what was read from it, or the record
// what was written to it: the server has lost what it had not synced. Positions are used again
// then, so whoever follows has to start anew.
var ErrLostTail = errors.New("the server has lost the end of a stream, which it had not synced")

var errLogGone = fmt.Errorf("%w: the call log is gone", ErrLostTail)

// Follower reads one partition of the call log in order, every event of it, from a position on: of an attempt whose
// admission has expired, only a claim or a join may be left. It resumes by itself after any
// interruption.
type Follower struct {
	js     jetstream.JetStream
	part   subjects.Part
	stream jetstream.Stream
	behind atomic.Int64 // unix nanoseconds of the event it stands at; 0 when it is up to date
	missed atomic.Int64 // the same of the first event that it should have got meanwhile; 0 when there is none

	seeing sync.Mutex // one event at a time, also while one consumer takes over from another
	over   bool       // nothing is observed any more

	mu       sync.Mutex
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
func NewFollower(js jetstream.JetStream, part subjects.Part) *Follower {
	return &Follower{js: js, part: part, doubts: make(chan place, 1)}
}

// Run calls observe for every event from sequence from (1 for all) until ctx ends, which is no
// error, or the log is found to have lost its end ([ErrLostTail]). observe must not block for
// long: everything else waits for it.
func (f *Follower) Run(ctx context.Context, from uint64, observe func(Observed)) error {
	if err := f.begin(ctx); err != nil {
		return fmt.Errorf("follow the call log: %w", err)
	}
	cons, err := f.js.OrderedConsumer(ctx, f.part.Stream(), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{f.part.All()},
		DeliverPolicy:  jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:    max(from, 1),
		HeadersOnly:    true,
	})
	if err != nil {
		return fmt.Errorf("follow the call log: %w", err)
	}
	running, err := cons.Consume(func(msg jetstream.Msg) { f.see(msg, observe) })
	if err != nil {
		return fmt.Errorf("follow the call log: %w", err)
	}
	defer f.stop(running)
	return f.watch(ctx)
}

// stopTime is how long a follower takes to stop at the most.
const stopTime = 2 * time.Second

// stop ends the consumer. The client library does not let go of one that is looking for a server
// which is not there; that ends with the connection then, and nothing of it is observed any more.
func (f *Follower) stop(running jetstream.ConsumeContext) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		running.Stop()
		<-running.Closed()
	}()
	select {
	case <-ended:
	case <-time.After(stopTime):
	}
	f.seeing.Lock()
	defer f.seeing.Unlock()
	f.over = true
}

// begin notes the end of the log: it may be lost before anything has been read.
func (f *Follower) begin(ctx context.Context) error {
	stream, err := f.js.Stream(ctx, f.part.Stream())
	if err != nil {
		return err
	}
	f.stream = stream
	end := stream.CachedInfo().State.LastSeq
	msg, err := messageAt(ctx, stream, end)
	if end == 0 || errors.Is(err, jetstream.ErrMsgNotFound) { // empty, or expired
		return nil
	}
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = place{end, msg.Time}
	return nil
}

// messageAt reads a message. One whose headers cannot be read is none of ours, and counts as not there.
func messageAt(ctx context.Context, stream jetstream.Stream, seq uint64) (*jetstream.RawStreamMsg, error) {
	msg, err := stream.GetMsg(ctx, seq)
	if errors.Is(err, nats.ErrBadHeaderMsg) {
		err = jetstream.ErrMsgNotFound
	}
	return msg, err
}

// lookBehind is the rhythm in which a follower looks whether it is behind: who gets no events is
// not told by them.
const lookBehind = time.Second

// watch looks, after every interruption, whether the log still holds what was read from it, and
// now and then whether there is more.
func (f *Follower) watch(ctx context.Context) error {
	status := f.js.Conn().StatusChanged(nats.CONNECTED)
	defer f.js.Conn().RemoveStatusListener(status)
	tick := time.NewTicker(lookBehind)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := f.look(ctx); err != nil {
				return err
			}
		case <-status:
			f.mu.Lock()
			f.question(f.last)
			f.mu.Unlock()
		case p := <-f.doubts:
			if err := f.check(ctx, p); err != nil {
				return err
			}
		}
	}
}

// look notes how old the oldest event is that has not been seen, if there is one: what was announced to come
// may have been lost. An error means that there is no log any more: its server came again without what it had stored.
func (f *Follower) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookBehind)
	defer cancel()
	f.mu.Lock()
	seen := f.last.seq
	f.mu.Unlock()
	var missed int64
	switch msg, err := f.stream.GetMsg(ctx, seen+1, jetstream.WithGetMsgSubject(f.part.All())); {
	case err == nil:
		missed = msg.Time.UnixNano()
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return errLogGone
	case !errors.Is(err, jetstream.ErrMsgNotFound):
		return nil // the server is not there: nothing is admitted either
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last.seq == seen {
		f.missed.Store(missed)
		if missed == 0 {
			f.behind.Store(0)
		}
	}
	return nil
}

// question lets p be checked, unless an older place is waiting to be. Callers hold f.mu.
func (f *Follower) question(p place) {
	if p.seq == 0 {
		return
	}
	select {
	case f.doubts <- p:
	default:
	}
}

// check says whether the log has lost the event at p. That it has expired is no loss.
func (f *Follower) check(ctx context.Context, p place) error {
	for ctx.Err() == nil {
		lost, err := f.lost(ctx, p)
		if err == nil {
			return lost
		}
		if !wait.For(ctx, time.Second) {
			break
		}
	}
	return nil
}

func (f *Follower) lost(ctx context.Context, p place) (lost, err error) {
	stream, err := f.js.Stream(ctx, f.part.Stream())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return errLogGone, nil
	}
	if err != nil {
		return nil, err
	}
	end := stream.CachedInfo().State.LastSeq
	if end < p.seq {
		return fmt.Errorf("%w: it ends at %d, and had been read up to %d", ErrLostTail, end, p.seq), nil
	}
	msg, err := messageAt(ctx, stream, p.seq)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case !msg.Time.Equal(p.at):
		return fmt.Errorf("%w: there is another event at %d", ErrLostTail, p.seq), nil
	}
	return nil, nil
}

func (f *Follower) see(msg jetstream.Msg, observe func(Observed)) {
	f.seeing.Lock()
	defer f.seeing.Unlock()
	meta, err := msg.Metadata()
	if err != nil || f.over {
		return
	}
	f.passed(meta)
	if e, err := kv.DecodeEvent(msg.Headers()); err == nil {
		e.State.Part = f.part
		observe(Observed{
			Kind: e.Kind, Attempt: e.Attempt, State: call.Fold(e, meta.Sequence.Stream),
			Seq: meta.Sequence.Stream, Time: meta.Timestamp,
		})
	}
}

// passed notes the place of an event. Where another consumer brings it than the one before, there
// was an interruption.
func (f *Follower) passed(meta *jetstream.MsgMetadata) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if meta.Consumer != f.consumer {
		f.question(f.last)
		f.consumer = meta.Consumer
	}
	if meta.Sequence.Stream > f.last.seq {
		f.last = place{meta.Sequence.Stream, meta.Timestamp}
	}
	f.missed.Store(0)
	f.behind.Store(0)
	if meta.NumPending > 0 {
		f.behind.Store(meta.Timestamp.UnixNano())
	}
}

// Behind returns how old the newest event is that this follower has seen, when there are newer
// ones that it has not, or the first of these; 0 when it is up to date.
func (f *Follower) Behind(now time.Time) (behind time.Duration) {
	for _, at := range []int64{f.behind.Load(), f.missed.Load()} {
		if at != 0 {
			behind = max(behind, now.Sub(time.Unix(0, at)))
		}
	}
	return behind
}
