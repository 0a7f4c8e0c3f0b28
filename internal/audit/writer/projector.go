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

// Projector records the events of one partition of the call log in order. A flush writes the records since the last
// one, as one or more segments per tenant, by compare-and-set on the chain of the partition. Several projectors may run
// for a partition. One of them wins each flush. The others continue after it, and complete it if the winner died
// between two segments. So each event is recorded exactly once.
type Projector struct {
	part  subjects.Partition
	log   *slog.Logger
	open  func() uint64 // returns the sequence of the oldest open attempt; 0 if none is open
	chain *chain        // of the partition; used only by Run

	// Shares selects the tenants whose records go to SURPLUS; nil selects none. It must be set before Run and Observe.
	Shares  *Shares
	surplus *surplus // used only by Run

	mu      sync.Mutex
	pending []audit.Record
	waiting kv.Lag // since when the pending records are known
	hurried bool   // flushes do not linger
	awaited uint64 // sequence of the newest request whose call waits for its record
	more    chan struct{}
	enough  chan struct{}  // receives a value when a flush must stop lingering
	seen    uint64         // sequence up to which the call log was observed
	done    audit.Position // position up to which the log is recorded
	begun   begun          // an incomplete flush of another projector
}

// begun describes a flush of which not all segments are stored. The zero value means that no such flush is known.
type begun struct {
	k       int            // number of stored segments
	through audit.Position // end of the flush; if Seq is zero, the end is free
	has     map[place]bool // places of the records in the stored segments
}

// place identifies a record of the call log, as a map key: its Position, and its event, because some
// positions have several records.
type place struct {
	seq   uint64
	nano  int64
	event audit.Event
}

func placeOf(r *audit.Record) place { return place{r.LogSeq, r.Timestamp.UnixNano(), r.Event} }

// Times and limits of projection. A projector that lost a compare-and-set waits for waitAsStandby, so that one
// projector leads and the others follow.
const (
	flushLinger   = 200 * time.Millisecond // each flush costs a durable write and a hash per tenant
	pollEvery     = 10 * time.Millisecond
	ackTime       = 2 * time.Second
	waitAsStandby = time.Second
	maxFlush      = 10_000  // records
	maxPending    = 200_000 // records; then Observe blocks, which bounds memory
)

// Observe processes the next event of the call log. It blocks while maxPending records are pending.
func (p *Projector) Observe(ctx context.Context, o kv.FollowedEvent) {
	records := audit.Project(o.Kind, o.Attempt, o.State, o.Seq, o.Time)
	if len(records) == 0 {
		p.pass(o.Seq)
		return
	}
	for !p.add(records, o.Known) && timer.Sleep(ctx, pollEvery) {
	}
	a, ok := o.State.Attempt(o.Attempt)
	if ok && a.Strict && o.Kind == call.Requested && !p.Shares.crowds(o.State.Tenant) {
		p.await(o.Seq)
	}
}

// await makes the flush that records the request at seq stop lingering, because a strict call starts only after that.
func (p *Projector) await(seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.awaited = max(p.awaited, seq)
	timer.Notify(p.enough)
}

// pass records that the log was observed up to seq. An incomplete flush can be completed only when the log was observed
// up to its end.
func (p *Projector) pass(seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = max(p.seen, seq)
	if p.begun.k > 0 {
		timer.Notify(p.more)
	}
}

// add makes all records of one event pending. It returns false if too many records are pending.
func (p *Projector) add(records []audit.Record, known time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	seq := records[0].LogSeq
	switch {
	case seq <= p.done.Seq:
		return true
	case len(p.pending) >= maxPending:
		return false
	}
	p.seen = max(p.seen, seq)
	before := len(p.pending)
	for i := range records {
		if !p.begun.has[placeOf(&records[i])] {
			p.pending = append(p.pending, records[i])
		}
	}
	if len(p.pending) == before {
		return true
	}
	p.waiting.Known(seq, known)
	timer.Notify(p.more)
	if before < maxFlush && len(p.pending) >= maxFlush {
		timer.Notify(p.enough)
	}
	return true
}

// Lag returns for how long the oldest pending record has been known. served is the current time on the clock of the
// follower, see [kv.Follower.Served].
func (p *Projector) Lag(served time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return served - p.waiting.Since(served)
}

// Flush waits until everything that was observed before the call is recorded, or ctx ends. From then on flushes do not
// linger. Run must be running.
func (p *Projector) Flush(ctx context.Context) error {
	for newest := p.hurry(); !p.recorded(newest); {
		if !timer.Sleep(ctx, pollEvery) {
			return ctx.Err()
		}
	}
	return nil
}

// hurry ends lingering for good, and returns the sequence of the newest pending record, or 0 if no record is pending.
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

// Run projects until ctx ends, and then returns nil. It returns [kv.ErrStreamRolledBack] if the audit record has lost
// its end, and a [format.Error] if a newer build has continued it.
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
		case <-status: // after a restart the server may have lost the end of the record, and no more events may come
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

// note stores before, the position at the last call, as checkpoint, and returns the current position.
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

// flushAll flushes until no records are pending.
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

// linger waits up to flushLinger for more records, unless there are enough for a flush or a caller waits for the
// pending ones.
func (p *Projector) linger(ctx context.Context) {
	if !p.lingers() {
		select {
		case <-p.enough: // discard the signal: the flush that it is for comes now
		default:
		}
		return
	}
	long := flushLinger
	if p.Shares.crowded() {
		long = surplusLinger
	}
	timer := time.NewTimer(long)
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

// First and longest timeout of one attempt to find the end of the record. The longest allows for reading many messages.
const (
	findTime = 2 * askTime
	findLong = time.Minute
)

// rhythm returns the pauses of a projector that gets no answer. They are short: AUDIT may have a leader again at any
// time, and dispatchers refuse calls if the record lags for long.
func rhythm() timer.Backoff {
	return timer.Backoff{Pause: waitAsStandby / 10, MaxPause: waitAsStandby, Try: findTime, MaxTry: findLong}
}

// findEnd reads the end of the record, and retries until it succeeds or ctx ends.
func (p *Projector) findEnd(ctx context.Context) error {
	final := false
	err := rhythm().Until(ctx, func(ctx context.Context) (bool, error) {
		_, err := p.resume(ctx)
		if err == nil {
			err = p.surplus.resume(ctx)
		}
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

// overtaken reports whether another projector has appended first.
func overtaken(err error) bool {
	return bus.HasErrorCode(err, bus.CodeWrongLast)
}

// flush is a set of records that are appended together.
type flush struct {
	records []audit.Record
	segment audit.Segment // template of the segments; K is that of the first one
}

// next returns the next flush. It returns nil if nothing is pending, or if an incomplete flush must be completed and
// the log was not yet observed up to its end.
func (p *Projector) next() *flush {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.most()
	if through := p.begun.through; through.Seq > 0 {
		if p.seen < through.Seq {
			return nil
		}
		n = p.upTo(through.Seq)
		if n == 0 { // all of its records are stored
			p.settled(through, 0)
			n = p.most()
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

// most returns the number of pending records of the next flush, at most maxFlush. It does not separate the records of
// one event, because a flush ends at a position of the log. The caller holds p.mu.
func (p *Projector) most() int {
	n := min(len(p.pending), maxFlush)
	for n < len(p.pending) && p.pending[n].LogSeq == p.pending[n-1].LogSeq {
		n--
	}
	return n
}

// upTo returns the number of pending records with sequences up to seq. The caller holds p.mu.
func (p *Projector) upTo(seq uint64) int {
	n, _ := slices.BinarySearchFunc(p.pending, seq+1, func(r audit.Record, seq uint64) int {
		return cmp.Compare(r.LogSeq, seq)
	})
	return n
}

// flush appends records to the chain. After an error, all, some or none of their segments are stored. resume finds out
// which.
func (p *Projector) flush(ctx context.Context, f *flush) error {
	f.segment.Oldest = p.open()
	rest, err := p.divert(ctx, f.records)
	if err != nil {
		return err
	}
	lines, err := audit.SplitSegments(rest, audit.MaxSegment)
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

// settled records that the log is recorded up to at, including the first n pending records. The caller holds p.mu.
func (p *Projector) settled(at audit.Position, n int) {
	p.done, p.begun = at, begun{}
	p.forget(n)
}
