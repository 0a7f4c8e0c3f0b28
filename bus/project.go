package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/seed-018f16cc/toolbus/audit"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Headers of projected records: where in the call log they come from, and from where a new
// guardian would have to read to find all attempts that were open then.
const (
	headerLogSeq = "Tb-Log-Seq"
	headerOpen   = "Tb-Open"
)

// Projector appends the records of the call log to AUDIT, in order, by compare-and-set on the
// projection's own last record. Several may run: one of them wins each batch, the others read on
// from what it wrote. Nothing is doubled and nothing forgotten.
type Projector struct {
	nc   *nats.Conn
	js   jetstream.JetStream
	open func() uint64 // log position of the oldest open attempt; 0 when none is open

	mu      sync.Mutex
	pending []audit.Record
	more    chan struct{}
	last    uint64 // sequence in AUDIT of the last projected record
	done    uint64 // its position in the call log
}

// The rhythm of projection. A projector that lost a batch stands by for a while, so that one
// leads and the others follow.
const (
	batchSize   = 1000                   // the most that a server takes at once
	batchLinger = 100 * time.Millisecond // a batch costs a directory and files of its own
	standBy     = time.Second
	maxPending  = 200_000 // then the follower waits; memory stays flat
)

// NewProjector reads from AUDIT how far projection has come.
func NewProjector(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, open func() uint64) (p *Projector, from uint64, err error) {
	p = &Projector{nc: nc, js: js, open: open, more: make(chan struct{}, 1)}
	oldest, err := p.resume(ctx)
	if err != nil {
		return nil, 0, err
	}
	from = p.done + 1
	if oldest > 0 {
		from = min(from, oldest)
	}
	return p, from, nil
}

// resume reads the last projected record.
func (p *Projector) resume(ctx context.Context) (oldest uint64, err error) {
	stream, err := p.js.Stream(ctx, subjects.AuditStream)
	if err != nil {
		return 0, fmt.Errorf("audit: %w", err)
	}
	msg, err := stream.GetLastMsgForSubject(ctx, subjects.AuditLog)
	if errors.Is(err, jetstream.ErrMsgNotFound) { // new, or all records have aged out
		p.mu.Lock()
		defer p.mu.Unlock()
		p.last = 0
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("audit: %w", err)
	}
	done, err := strconv.ParseUint(msg.Header.Get(headerLogSeq), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("audit record %d has no log position", msg.Sequence)
	}
	oldest, _ = strconv.ParseUint(msg.Header.Get(headerOpen), 10, 64) // absent in all but the last of a batch
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.done = msg.Sequence, done
	drop := 0
	for drop < len(p.pending) && p.pending[drop].LogSeq <= done {
		drop++
	}
	p.forget(drop)
	return oldest, nil
}

// forget drops the first n records. Their memory is used again where that is cheap. Callers
// hold p.mu.
func (p *Projector) forget(n int) {
	left := len(p.pending) - n
	if left > n {
		p.pending = p.pending[n:]
		return
	}
	copy(p.pending, p.pending[n:])
	clear(p.pending[left:])
	p.pending = p.pending[:left]
}

// Observe takes the next event of the call log.
func (p *Projector) Observe(ctx context.Context, o Observed) {
	r, ok := audit.Project(o.Kind, o.Attempt, o.State, o.Seq, o.Time)
	if !ok {
		return
	}
	for !p.add(r) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(batchLinger):
		}
	}
}

func (p *Projector) add(r audit.Record) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case r.LogSeq <= p.done:
		return true
	case len(p.pending) >= maxPending:
		return false
	}
	p.pending = append(p.pending, r)
	select {
	case p.more <- struct{}{}:
	default:
	}
	return true
}

// Lag returns how long the oldest record has been waiting to be projected.
func (p *Projector) Lag(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.pending) == 0 {
		return 0
	}
	return now.Sub(p.pending[0].Timestamp)
}

// Run projects until ctx ends.
func (p *Projector) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.more:
		}
		delay, size := batchLinger, batchSize
		for ctx.Err() == nil {
			if !sleep(ctx, delay) {
				return
			}
			n, err := p.flush(ctx, size)
			switch {
			case err != nil: // a smaller batch may pass where a large one does not
				delay, size = standBy, max(1, size/2)
				if _, err := p.resume(ctx); err != nil {
					continue
				}
			case n < size:
				delay, size = batchLinger, min(2*size, batchSize)
			default:
				delay, size = 0, min(2*size, batchSize)
			}
			if n == 0 && err == nil {
				break
			}
		}
	}
}

// flush appends the next batch, of at most size records; an error means that nothing or everything of it was stored, and
// resume tells which.
func (p *Projector) flush(ctx context.Context, size int) (int, error) {
	p.mu.Lock()
	records := p.pending[:min(len(p.pending), size)]
	last := p.last
	p.mu.Unlock()
	if len(records) == 0 {
		return 0, nil
	}
	msgs, err := p.messages(records, last)
	if err != nil {
		return 0, err
	}
	seq, err := p.publish(ctx, msgs)
	if err != nil {
		return 0, fmt.Errorf("audit batch: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.done = seq, records[len(records)-1].LogSeq
	p.forget(len(records))
	return len(records), nil
}

func (p *Projector) publish(ctx context.Context, msgs []*nats.Msg) (uint64, error) {
	if len(msgs) == 1 {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		ack, err := p.js.PublishMsg(ctx, msgs[0], jetstream.WithRetryAttempts(0))
		if err != nil {
			return 0, err
		}
		if ack.Duplicate {
			return 0, errors.New("record is there already")
		}
		return ack.Sequence, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ack, err := jetstreamext.PublishMsgBatch(ctx, p.js, msgs)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

func (p *Projector) messages(records []audit.Record, last uint64) ([]*nats.Msg, error) {
	msgs := make([]*nats.Msg, len(records))
	for i, r := range records {
		data, err := json.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("audit record: %w", err)
		}
		msgs[i] = &nats.Msg{
			Subject: subjects.Audit(subjects.AuditFromLog, r.Tenant, string(r.Event), r.ToolName),
			Data:    data,
			Header: nats.Header{
				jetstream.MsgIDHeader: {r.ID()},
				headerLogSeq:          {strconv.FormatUint(r.LogSeq, 10)},
			},
		}
	}
	msgs[0].Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(last, 10))
	msgs[0].Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, subjects.AuditLog)
	if oldest := p.open(); oldest > 0 {
		msgs[len(msgs)-1].Header.Set(headerOpen, strconv.FormatUint(oldest, 10))
	}
	return msgs, nil
}

// Gate appends one record of the gate's own: a denial or a late result. It returns when the
// record is stored, with its message id.
func Gate(ctx context.Context, js jetstream.JetStream, id string, r audit.Record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("audit record: %w", err)
	}
	_, err = js.PublishMsg(ctx, &nats.Msg{
		Subject: subjects.Audit(subjects.AuditFromGate, r.Tenant, string(r.Event), r.ToolName),
		Data:    data,
		Header:  nats.Header{jetstream.MsgIDHeader: {id}},
	})
	if err != nil {
		return fmt.Errorf("audit record: %w", err)
	}
	return nil
}

// sleep waits for d; it reports false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
