package writer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// NewProjector returns a projector of a partition, and the sequence from which the follower must read it. That is the
// first unrecorded event, or the oldest open attempt if that is older. The log gets the reasons why projection does not
// continue. The function open must return the sequence of the oldest open attempt in the partition, or 0 if no attempt
// is open.
func NewProjector(ctx context.Context, js jetstream.JetStream, part subjects.Partition, log *slog.Logger,
	open func() uint64) (p *Projector, from uint64, err error) {
	p = newProjector(js, part)
	p.log, p.open = log, open
	oldest, err := p.resume(ctx)
	if err == nil {
		err = p.surplus.resume(ctx)
	}
	if err != nil {
		return nil, 0, err
	}
	from = p.done.Seq + 1
	if oldest > 0 {
		from = min(from, oldest)
	}
	return p, from, nil
}

func newProjector(js jetstream.JetStream, part subjects.Partition) *Projector {
	return &Projector{
		part: part, surplus: newSurplus(js, part), more: make(chan struct{}, 1), enough: make(chan struct{}, 1),
		chain: &chain{
			js: js, stream: subjects.AuditStream, all: part.AuditLog(), subject: part.Audit, answer: ackTime,
		},
	}
}

// projectors returns a projector for each partition. They have not read their chains yet.
func projectors(ctx context.Context, js jetstream.JetStream) (all []*Projector, err error) {
	n, err := bus.Partitions(ctx, js)
	for p := range n {
		all = append(all, newProjector(js, subjects.Partition(p)))
	}
	return all, err
}

// askTime is the timeout of a request that a server answers without reading many messages. A server or leader that goes
// away loses the requests that it has received, so repeating the request soon helps.
const askTime = time.Second

// resume reads the position up to which the log is recorded, and drops the pending records up to it. It returns
// Segment.Oldest of the last segment.
func (p *Projector) resume(ctx context.Context) (oldest uint64, err error) {
	t, err := p.chain.resume(ctx)
	if err != nil {
		return 0, err
	}
	last := t.last()
	if last == nil {
		through, oldest, err := p.unchained(ctx)
		if err != nil || through.Seq == 0 {
			return 0, err
		}
		last = &audit.OpenedSegment{Segment: audit.Segment{Through: through, Oldest: oldest}}
	}
	done, b := last.Through, begun{}
	if last.K < last.N {
		done = last.After
		if b, err = unfinished(t.flush); err != nil {
			return 0, err
		}
	}
	if done, err = p.match(ctx, done); err != nil {
		return 0, err
	}
	if b.k > 0 {
		found, err := p.at(ctx, b.through)
		if err != nil {
			return 0, err
		}
		// The log no longer holds the event at the end of the flush, so it will not be observed: continue with a new flush.
		if !found.there {
			b.k, b.through = 0, audit.Position{}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if done.Seq < p.done.Seq { // the projector no longer has the records in between
		return 0, fmt.Errorf("%w: the record ends at %d of the log, and had %d", kv.ErrStreamRolledBack, done.Seq, p.done.Seq)
	}
	p.settled(done, p.upTo(done.Seq))
	p.begun = b
	p.pending = slices.DeleteFunc(p.pending, func(r audit.Record) bool { return b.has[placeOf(&r)] })
	return last.Oldest, nil
}

// unchained returns the position up to which a partition with an empty chain is recorded, according to the checkpoint.
// The segments themselves were dropped.
func (p *Projector) unchained(ctx context.Context) (through audit.Position, oldest uint64, err error) {
	n, err := readCheckpoint(ctx, p.chain.js, p.part)
	if err != nil {
		return through, 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n.Through.Seq <= p.done.Seq { // the projector itself knows this position or a later one
		return audit.Position{}, 0, nil
	}
	return n.Through, n.Oldest, nil
}

// unfinished describes an incomplete flush with these stored segments. It returns a [format.Error] if a newer build has
// begun the flush: this build cannot know which events its records are of.
func unfinished(flush []audit.OpenedSegment) (begun, error) {
	last := flush[len(flush)-1]
	b := begun{k: last.K, through: last.Through, has: map[place]bool{}}
	for _, s := range flush {
		for line := range s.Lines() {
			r, ok, err := audit.Decode(line)
			if err != nil {
				return begun{}, fmt.Errorf("audit record of an unfinished flush: %w", err)
			}
			if ok {
				b.has[placeOf(&r)] = true
			}
		}
	}
	return b, nil
}

// match compares a recorded position with the call log, and returns the sequence up to which the present log is
// recorded. A log that lost its end (see [kv.ErrStreamRolledBack]) uses sequences again. Then only events that are not
// younger than done count as recorded.
func (p *Projector) match(ctx context.Context, done audit.Position) (audit.Position, error) {
	if done.Seq == 0 {
		return done, nil
	}
	found, err := p.at(ctx, done)
	if err != nil || found.there || found.expired {
		return done, err
	}
	done.Seq, err = p.younger(ctx, done.Time, found.end)
	return done, err
}

// found describes the content of the call log at a position.
type found struct {
	there   bool // the same event, by its time
	expired bool // no event any more
	end     uint64
}

func (p *Projector) at(ctx context.Context, pos audit.Position) (f found, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	stream, err := p.chain.js.Stream(ctx, p.part.Stream())
	if err != nil {
		return f, fmt.Errorf("audit: %w", err)
	}
	f.end = stream.CachedInfo().State.LastSeq
	msg, err := bus.MessageAt(ctx, stream, pos.Seq)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		f.expired = pos.Seq <= f.end
	case err != nil:
		return f, fmt.Errorf("audit: %w", err)
	default:
		f.there = msg.Time.Equal(pos.Time)
	}
	return f, nil
}

// younger returns the sequence before the first event that is younger than at, or end if no event is younger.
func (p *Projector) younger(ctx context.Context, at time.Time, end uint64) (uint64, error) {
	after := at.Add(1)
	from := jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &after, HeadersOnly: true,
	}
	for msg, err := range bus.Messages(ctx, p.chain.js, p.part.Stream(), from, bus.ReadTimeout) {
		if err != nil {
			return 0, fmt.Errorf("audit: %w", err)
		}
		return msg.Seq - 1, nil
	}
	return end, nil
}

// forget removes the first n pending records. It reuses their memory if at most n remain, so that copying is cheap. The
// caller holds p.mu.
func (p *Projector) forget(n int) {
	left := len(p.pending) - n
	p.waiting.Done(p.done.Seq)
	if left > n {
		p.pending = p.pending[n:]
		return
	}
	copy(p.pending, p.pending[n:])
	clear(p.pending[left:])
	p.pending = p.pending[:left]
}
