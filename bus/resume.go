package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/audit"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// NewProjector reads from AUDIT how far projection has come. It logs what keeps it from going on.
func NewProjector(ctx context.Context, js jetstream.JetStream, log *slog.Logger, open func() uint64) (p *Projector, from uint64, err error) {
	p = &Projector{js: js, log: log, open: open, more: make(chan struct{}, 1)}
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

// match holds the last projected record, of position done and time at, against the call log, and
// returns the position up to which the log is on record. A log that has lost its end (see
// [ErrLostTail]) uses positions again: then everything younger than that record is still to come.
func (p *Projector) match(ctx context.Context, done uint64, at time.Time) (uint64, error) {
	stream, err := p.js.Stream(ctx, subjects.CallsStream)
	if err != nil {
		return 0, fmt.Errorf("audit: %w", err)
	}
	end := stream.CachedInfo().State.LastSeq
	msg, err := stream.GetMsg(ctx, done)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound) && done <= end: // expired
		return done, nil
	case err != nil && !errors.Is(err, jetstream.ErrMsgNotFound):
		return 0, fmt.Errorf("audit: %w", err)
	case err == nil && msg.Time.Equal(at):
		return done, nil
	}
	return p.younger(ctx, at, end)
}

// younger returns the position before the first event that is younger than at; end when there is
// none.
func (p *Projector) younger(ctx context.Context, at time.Time, end uint64) (uint64, error) {
	after := at.Add(1)
	cons, err := p.js.OrderedConsumer(ctx, subjects.CallsStream, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &after, HeadersOnly: true,
	})
	if err != nil {
		return 0, fmt.Errorf("audit: %w", err)
	}
	if cons.CachedInfo().NumPending == 0 {
		return end, nil
	}
	msg, err := cons.Next(jetstream.FetchContext(ctx))
	if err != nil {
		return 0, fmt.Errorf("audit: %w", err)
	}
	meta, err := msg.Metadata()
	if err != nil {
		return 0, fmt.Errorf("audit: %w", err)
	}
	return meta.Sequence.Stream - 1, nil
}

// resume reads the last projected record, and drops what is on record.
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
	var last audit.Record
	if err := json.Unmarshal(msg.Data, &last); err != nil {
		return 0, fmt.Errorf("audit record %d: %w", msg.Sequence, err)
	}
	oldest, _ = strconv.ParseUint(msg.Header.Get(headerOpen), 10, 64) // absent in all but the last of a batch
	if done, err = p.match(ctx, done, last.Timestamp); err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if done < p.done { // what is missing has to be read again
		return 0, fmt.Errorf("%w: the record ends at %d of the log, and had %d", ErrLostTail, done, p.done)
	}
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
