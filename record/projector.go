package record

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/seed-018f16cc/toolbus/audit"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/form"
	"github.com/seed-018f16cc/toolbus/internal/jscode"
	"github.com/seed-018f16cc/toolbus/internal/wait"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Headers of projected records: where in the call log they come from, and from where a new
// guardian would have to read to find all attempts that were open then.
const (
	headerLogSeq = "Tb-Log-Seq"
	headerOpen   = "Tb-Open"
)

// Projector appends the records of one partition of the call log to AUDIT, in order, by compare-and-set on the
// projection's own last record. Several may run: one of them wins each batch, the others read on
// from what it wrote. Nothing is doubled and nothing forgotten.
type Projector struct {
	js   jetstream.JetStream
	part subjects.Part
	log  *slog.Logger
	open func() uint64 // log position of the oldest open attempt; 0 when none is open

	mu      sync.Mutex
	pending []audit.Record
	waiting bus.Backlog // of what is pending
	hurried bool        // a batch waits for no more records
	more    chan struct{}
	last    uint64 // sequence in AUDIT of the last projected record
	done    uint64 // up to which the call log is on record
}

// The rhythm of projection. A projector that lost a batch stands by for a while, so that one
// leads and the others follow.
const (
	batchSize   = 1000                   // the most that a server takes at once
	batchLinger = 500 * time.Millisecond // a batch costs a directory and files of its own
	stageEvery  = 10 * time.Millisecond
	ackTime     = 2 * time.Second // of the first record of a batch; none comes from a server or a leader that is gone
	commitTime  = 2 * time.Second // what is stored later is found to be
	standBy     = time.Second
	maxPending  = 200_000 // then the follower waits; memory stays flat
)

// Observe takes the next event of the call log.
func (p *Projector) Observe(ctx context.Context, o bus.Observed) {
	r, ok := audit.Project(o.Kind, o.Attempt, o.State, o.Seq, o.Time)
	if !ok {
		return
	}
	for !p.add(r, o.Known) && wait.For(ctx, stageEvery) {
	}
}

func (p *Projector) add(r audit.Record, known time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case r.LogSeq <= p.done:
		return true
	case len(p.pending) >= maxPending:
		return false
	}
	p.pending = append(p.pending, r)
	p.waiting.Known(r.LogSeq, known)
	wait.Signal(p.more)
	return true
}

// Lag returns for how long the oldest record that waits to be projected has been known of; served is the time on
// the clock of the follower that brings them, see [Follower.Served].
func (p *Projector) Lag(served time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return served - p.waiting.Since(served)
}

// Flush returns when everything is on record that has been observed by now, or ctx ends. Batches wait for no more
// records from then on. Run has to go on meanwhile.
func (p *Projector) Flush(ctx context.Context) error {
	for newest := p.hurry(); !p.recorded(newest); {
		if !wait.For(ctx, stageEvery) {
			return ctx.Err()
		}
	}
	return nil
}

// hurry lets batches wait no more, and returns the position of the newest pending record; 0 when there is none.
func (p *Projector) hurry() (newest uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hurried = true
	if n := len(p.pending); n > 0 {
		newest = p.pending[n-1].LogSeq
	}
	return newest
}

func (p *Projector) recorded(newest uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done >= newest
}

// lingers reports whether a batch waits for more records until end.
func (p *Projector) lingers(end time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.hurried && time.Now().Before(end)
}

// Run projects until ctx ends, which is no error, or the record is found to have lost its end
// ([bus.ErrLostTail]) or to be continued by a newer build (a [form.Error])
func (p *Projector) Run(ctx context.Context) error {
	status := p.js.Conn().StatusChanged(nats.CONNECTED)
	defer p.js.Conn().RemoveStatusListener(status)
	for size := batchSize; ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-status: // the server may have come back without the end of the record, and nothing more may come
			if err := p.findEnd(ctx); err != nil {
				return err
			}
		case <-p.more:
			if err := p.projectAll(ctx, &size); err != nil {
				return err
			}
		}
	}
	return nil
}

// projectAll projects until nothing is pending. A smaller batch may pass where a large one does not.
func (p *Projector) projectAll(ctx context.Context, size *int) error {
	tries := rhythm()
	for ctx.Err() == nil && len(p.after(0, 1)) > 0 {
		err := p.project(ctx, *size)
		if err == nil {
			*size, tries = min(2**size, batchSize), rhythm()
			continue
		}
		pause := standBy
		if ctx.Err() == nil && !overtaken(err) {
			p.log.Warn("audit record not written yet", "err", err)
			pause = tries.Next()
		}
		*size = max(1, *size/2)
		if !wait.For(ctx, pause) {
			return nil
		}
		if err := p.findEnd(ctx); err != nil {
			return err
		}
	}
	return nil
}

// How long it may take at first to find where the record ends, and at the most, where there is much to read.
const (
	findTime = 2 * askTime
	findLong = time.Minute
)

// rhythm is that of a projector which has no answer: AUDIT may have a leader again at any moment, and calls are refused
// if the record is behind for long.
func rhythm() wait.Retry {
	return wait.Retry{Pause: standBy / 10, MaxPause: standBy, Try: findTime, MaxTry: findLong}
}

// findEnd reads where the record ends, again and again until it can.
func (p *Projector) findEnd(ctx context.Context) error {
	final := false
	err := rhythm().Until(ctx, func(ctx context.Context) (bool, error) {
		_, err := p.resume(ctx)
		if final = err == nil || errors.Is(err, bus.ErrLostTail) || form.Unreadable(err); !final {
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
func overtaken(err error) bool { return jscode.Is(err, jscode.WrongLast, jscode.BatchDuplicate) }

// after returns the pending records from the n-th on, up to the size-th.
func (p *Projector) after(n, size int) []audit.Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pending[min(n, len(p.pending)):min(size, len(p.pending))]
}

// project appends the next batch: as many records as come while it lingers, but at most size.
// They are sent as they come, so that a batch is no burst that calls have to wait for, and stored
// together with the last one. An error means that nothing or everything of the batch was stored,
// and resume tells which.
func (p *Projector) project(ctx context.Context, size int) error {
	first := jetstreamext.BatchFlowControl{AckFirst: true, AckTimeout: ackTime}
	batch, err := jetstreamext.NewBatchPublisher(p.js, first)
	if err != nil {
		return fmt.Errorf("audit batch: %w", err)
	}
	end := time.Now().Add(batchLinger)
	for staged := 0; ; {
		records := p.after(staged, size)
		if len(records)+staged == size || !p.lingers(end) {
			return p.commit(ctx, batch, records, staged)
		}
		if n := len(records) - 1; n > 0 { // the last of all is what commits
			if err := p.stage(batch, records[:n], staged); err != nil {
				return err
			}
			staged += n
		}
		if !wait.For(ctx, stageEvery) {
			return ctx.Err()
		}
	}
}

// stage sends records, which follow on so many of the batch, to be stored with its last one.
func (p *Projector) stage(batch jetstreamext.BatchPublisher, records []audit.Record, staged int) error {
	for i, r := range records {
		msg, err := p.message(r, staged+i == 0)
		if err == nil {
			err = batch.AddMsg(msg)
		}
		if err != nil {
			return fmt.Errorf("audit batch: %w", err)
		}
	}
	return nil
}

// commit sends the last records of the batch and waits until all of it is stored.
func (p *Projector) commit(ctx context.Context, batch jetstreamext.BatchPublisher, records []audit.Record,
	staged int) error {
	last := len(records) - 1
	if err := p.stage(batch, records[:last], staged); err != nil {
		return err
	}
	msg, err := p.message(records[last], staged+last == 0)
	if err != nil {
		return err
	}
	if oldest := p.open(); oldest > 0 {
		msg.Header.Set(headerOpen, strconv.FormatUint(oldest, 10))
	}
	ctx, cancel := context.WithTimeout(ctx, commitTime)
	defer cancel()
	seq, err := p.store(ctx, batch, msg)
	if err != nil {
		return fmt.Errorf("audit batch: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.done = seq, records[last].LogSeq
	p.forget(staged + len(records))
	return nil
}

// store sends the last message of a batch. One that is alone needs no batch, which costs the
// server a directory and files of its own.
func (p *Projector) store(ctx context.Context, batch jetstreamext.BatchPublisher, msg *nats.Msg) (uint64, error) {
	if batch.Size() > 0 {
		ack, err := batch.CommitMsg(ctx, msg)
		if err != nil {
			return 0, err
		}
		return ack.Sequence, nil
	}
	ack, err := p.js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
	switch {
	case err != nil:
		return 0, err
	case ack.Duplicate:
		return 0, errors.New("record is there already")
	}
	return ack.Sequence, nil
}

// message makes the message of a record; the first of a batch says what it follows on.
func (p *Projector) message(r audit.Record, first bool) (*nats.Msg, error) {
	data, err := encodeRecord(r)
	if err != nil {
		return nil, fmt.Errorf("audit record: %w", err)
	}
	values := [...]string{r.ID(), strconv.FormatUint(r.LogSeq, 10)}
	header := nats.Header{jetstream.MsgIDHeader: values[:1:1], headerLogSeq: values[1:]}
	if first {
		p.mu.Lock()
		last := p.last
		p.mu.Unlock()
		header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(last, 10))
		header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, p.part.AuditLog())
	}
	subject := subjects.Audit(p.part.AuditSource(), r.Tenant, string(r.Event), r.ToolName)
	return &nats.Msg{Subject: subject, Data: data, Header: header}, nil
}
