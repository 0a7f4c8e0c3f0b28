package bus

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/call"
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

// Follower reads the admissions and decisions of the call log in order, every one of them, from
// a position on. It resumes by itself after any interruption.
type Follower struct {
	js     jetstream.JetStream
	behind atomic.Int64 // unix nanoseconds of the event it stands at; 0 when it is up to date
}

// NewFollower returns a follower of the call log.
func NewFollower(js jetstream.JetStream) *Follower { return &Follower{js: js} }

// Run calls observe for every event from sequence from (1 for all) until ctx ends. observe must
// not block for long: everything else waits for it.
func (f *Follower) Run(ctx context.Context, from uint64, observe func(Observed)) error {
	cons, err := f.js.OrderedConsumer(ctx, subjects.CallsStream, jetstream.OrderedConsumerConfig{
		FilterSubjects: subjects.Followed(),
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
	<-ctx.Done()
	running.Stop()
	<-running.Closed()
	return nil
}

func (f *Follower) see(msg jetstream.Msg, observe func(Observed)) {
	meta, err := msg.Metadata()
	if err != nil {
		return
	}
	if e, err := kv.DecodeEvent(msg.Headers()); err == nil {
		observe(Observed{
			Kind: e.Kind, Attempt: e.Attempt, State: call.Fold(e, meta.Sequence.Stream),
			Seq: meta.Sequence.Stream, Time: meta.Timestamp,
		})
	}
	if meta.NumPending == 0 {
		f.behind.Store(0)
		return
	}
	f.behind.Store(meta.Timestamp.UnixNano())
}

// Behind returns how old the newest event is that this follower has seen, when there are newer
// ones that it has not; 0 when it is up to date.
func (f *Follower) Behind(now time.Time) time.Duration {
	at := f.behind.Load()
	if at == 0 {
		return 0
	}
	return now.Sub(time.Unix(0, at))
}
