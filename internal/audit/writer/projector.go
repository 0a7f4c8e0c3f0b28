package writer

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Projector puts the records of one partition of the call log on record, in order: what came since the last flush as
// one segment of each tenant, by compare-and-set on the chain of the partition. Several may run: one of them wins each
// flush, the others read on from what it wrote, and finish it if it died between two segments. Nothing is doubled and
// nothing forgotten.
type Projector struct {
	part  subjects.Partition
	log   *slog.Logger
	open  func() uint64 // log position of the oldest open attempt; 0 when none is open
	chain *chain        // of the partition; used by Run alone

	mu      sync.Mutex
	pending []audit.Record
	waiting kv.Lag // of what is pending
	hurried bool   // a flush waits for no more records
	awaited uint64 // newest request that a call waits for to be on record
	more    chan struct{}
	enough  chan struct{}  // a flush has waited enough
	seen    uint64         // up to which the call log was observed
	done    audit.Position // up to which it is on record
	begun   begun          // a flush that somebody has not finished
}

// begun is a flush of which not all segments were found.
type begun struct {
	k       int            // segments that are stored
	through audit.Position // up to which it goes; a zero Seq is: as far as there is something
	has     map[place]bool // what is on record of it
}

// place is a position as a key.
type place struct {
	seq  uint64
	nano int64
}

func placeOf(r *audit.Record) place { return place{r.LogSeq, r.Timestamp.UnixNano()} }

// The rhythm of projection. A projector that lost a flush stands by for a while, so that one
// leads and the others follow.
const (
	flushLinger   = 200 * time.Millisecond // every flush costs a durable write and a hash for each tenant
	pollEvery     = 10 * time.Millisecond
	ackTime       = 2 * time.Second
	waitAsStandby = time.Second
	maxFlush      = 10_000  // records
	maxPending    = 200_000 // then the follower waits; memory stays flat
)

// Observe takes the next event of the call log.
func (p *Projector) Observe(ctx context.Context, o kv.FollowedEvent) {
	r, ok := audit.Project(o.Kind, o.Attempt, o.State, o.Seq, o.Time)
	if !ok {
		p.pass(o.Seq)
		return
	}
	for !p.add(r, o.Known) && timer.Sleep(ctx, pollEvery) {
	}
	if a, ok := o.State.Attempt(o.Attempt); ok && a.Strict && o.Kind == call.Requested {
		p.await(o.Seq)
	}
}

// await lets the flush with the record of seq wait for no more of them: a call starts only then.
func (p *Projector) await(seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.awaited = max(p.awaited, seq)
	timer.Notify(p.enough)
}

// pass notes that the log was observed up to seq. A flush that somebody has begun is finished when all of it was.
func (p *Projector) pass(seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = max(p.seen, seq)
	if p.begun.k > 0 {
		timer.Notify(p.more)
	}
}

func (p *Projector) add(r audit.Record, known time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case r.LogSeq <= p.done.Seq:
		return true
	case len(p.pending) >= maxPending:
		return false
	}
	p.seen = max(p.seen, r.LogSeq)
	if p.begun.has[placeOf(&r)] {
		return true
	}
	p.pending = append(p.pending, r)
	p.waiting.Known(r.LogSeq, known)
	timer.Notify(p.more)
	if len(p.pending) == maxFlush {
		timer.Notify(p.enough)
	}
	return true
}

// Lag returns for how long the oldest record that waits to be projected has been known of; served is the time on
// the clock of the follower that brings them, see Served of the follower in package bus.
func (p *Projector) Lag(served time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return served - p.waiting.Since(served)
}

// Flush returns when everything is on record that has been observed by now, or ctx ends. Flushes wait for no more
// records from then on. Run has to go on meanwhile.
func (p *Projector) Flush(ctx context.Context) error {
	for newest := p.hurry(); !p.recorded(newest); {
		if !timer.Sleep(ctx, pollEvery) {
			return ctx.Err()
		}
	}
	return nil
}

// hurry lets flushes wait no more, and returns the position of the newest pending record; 0 when there is none.
func (p *Projector) hurry() (newest uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hurried = true
	timer.Notify(p.enough)
	if n := len(p.pending); n > 0 {
		newest = p.pending[n-1].LogSeq
	}
	return newest
}

func (p *Projector) recorded(newest uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done.Seq >= newest
}

// Run projects until ctx ends, which is no error, or the record is found to have lost its end
// ([kv.ErrStreamRolledBack]) or to be continued by a newer build (a [format.Error])
func (p *Projector) Run(ctx context.Context) error {
	nc := p.chain.js.Conn()
	status := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(status)
	notes := time.NewTicker(keepEvery)
	defer notes.Stop()
	var before audit.Position
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-notes.C:
			before = p.note(ctx, before)
		case <-status: // the server may have come back without the end of the record, and nothing more may come
			if err := p.findEnd(ctx); err != nil {
				return err
			}
		case <-p.more:
			if err := p.flushAll(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// note notes a position that was on record at the last note, and returns the one that is now.
func (p *Projector) note(ctx context.Context, before audit.Position) (now audit.Position) {
	p.mu.Lock()
	now = p.done
	p.mu.Unlock()
	if before.Seq == 0 {
		return now
	}
	n := checkpoint{before, p.open()}
	if err := n.keep(ctx, p.chain.js, p.part); err != nil {
		p.log.Warn("not noted how far the call log is on record", "err", err)
	}
	return now
}

// flushAll projects until nothing is pending.
func (p *Projector) flushAll(ctx context.Context) error {
	tries := rhythm()
	for p.linger(ctx); ctx.Err() == nil; {
		f := p.next()
		if f == nil {
			return nil
		}
		err := p.flush(ctx, f)
		if err == nil {
			tries = rhythm()
			p.linger(ctx)
			continue
		}
		pause := waitAsStandby
		if ctx.Err() == nil && !overtaken(err) {
			p.log.Warn("audit record not written yet", "err", err)
			pause = tries.Next()
		}
		if !timer.Sleep(ctx, pause) {
			return nil
		}
		if err := p.findEnd(ctx); err != nil {
			return err
		}
	}
	return nil
}

// linger waits for more records, unless there are enough for a flush, or somebody waits for those that are pending.
func (p *Projector) linger(ctx context.Context) {
	if !p.lingers() {
		select {
		case <-p.enough: // what it was said of goes on record now
		default:
		}
		return
	}
	timer := time.NewTimer(flushLinger)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.enough:
	case <-ctx.Done():
	}
}

func (p *Projector) lingers() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.hurried && p.awaited <= p.done.Seq && len(p.pending) > 0 && len(p.pending) < maxFlush
}

// How long it may take at first to find where the record ends, and at the most, where there is much to read.
const (
	findTime = 2 * askTime
	findLong = time.Minute
)

// rhythm is that of a projector which has no answer: AUDIT may have a leader again at any moment, and calls are refused
// if the record is behind for long.
func rhythm() timer.Backoff {
	return timer.Backoff{Pause: waitAsStandby / 10, MaxPause: waitAsStandby, Try: findTime, MaxTry: findLong}
}

// findEnd reads where the record ends, again and again until it can.
func (p *Projector) findEnd(ctx context.Context) error {
	final := false
	err := rhythm().Until(ctx, func(ctx context.Context) (bool, error) {
		_, err := p.resume(ctx)
		if final = err == nil || errors.Is(err, kv.ErrStreamRolledBack) || format.IsUnsupported(err); !final {
			p.log.Warn("end of the audit record not found yet", "err", err)
		}
		return final, err
	})
	if !final {
		return nil // ctx has ended
	}
	return err
}

// overtaken reports whether err says that another projector was there first.
func overtaken(err error) bool {
	return bus.HasErrorCode(err, bus.CodeWrongLast)
}

// flush is what goes on record together.
type flush struct {
	records []audit.Record
	segment audit.Segment // of which the first one is the K-th
}

// next returns what is to go on record next; nil where there is nothing, or not all of it yet.
func (p *Projector) next() *flush {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(p.pending), maxFlush)
	if through := p.begun.through; through.Seq > 0 {
		if p.seen < through.Seq {
			return nil
		}
		n = p.upTo(through.Seq)
		if n == 0 { // nothing of it is missing
			p.settled(through, 0)
			n = min(len(p.pending), maxFlush)
		}
	}
	if n == 0 {
		return nil
	}
	last := &p.pending[n-1]
	s := audit.Segment{
		Source: audit.SourceLog, Part: p.part, After: p.done, K: p.begun.k + 1,
		Through: audit.Position{Seq: last.LogSeq, Time: last.Timestamp},
	}
	if p.begun.through.Seq > 0 {
		s.Through = p.begun.through
	}
	return &flush{p.pending[:n:n], s}
}

// upTo returns how many of the pending records are of events up to seq. Callers hold p.mu.
func (p *Projector) upTo(seq uint64) int {
	n, _ := slices.BinarySearchFunc(p.pending, seq+1, func(r audit.Record, seq uint64) int {
		return cmp.Compare(r.LogSeq, seq)
	})
	return n
}

// flush puts records on record. An error means that all, some or none of their segments were stored, and resume tells
// which.
func (p *Projector) flush(ctx context.Context, f *flush) error {
	f.segment.Oldest = p.open()
	lines, err := audit.SplitSegments(f.records, audit.MaxSegment)
	if err != nil {
		return err
	}
	msgs, err := p.chain.seal(lines, f.segment)
	if err != nil {
		return err
	}
	if _, err := p.chain.append(ctx, msgs); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settled(f.segment.Through, len(f.records))
	return nil
}

// settled notes that everything up to a position is on record, the first n pending records among it. Callers hold p.mu.
func (p *Projector) settled(at audit.Position, n int) {
	p.done, p.begun = at, begun{}
	p.forget(n)
}
