package record

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// NewProjector reads from AUDIT how far projection of a partition has come. It logs what keeps it from
// going on. open says where in the partition the oldest open attempt is.
func NewProjector(ctx context.Context, js jetstream.JetStream, part subjects.Part, log *slog.Logger,
	open func() uint64) (p *Projector, from uint64, err error) {
	p = &Projector{js: js, part: part, log: log, open: open, more: make(chan struct{}, 1)}
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

// askTime is how long an answer is waited for that needs no reading: a server or a leader that goes takes what it was
// asked with it, so that asking again is what helps.
const askTime = time.Second

// match holds the last projected record, of position done and time at, against the call log, and
// returns the position up to which the log is on record. A log that has lost its end (see
// [bus.ErrLostTail]) uses positions again: then everything younger than that record is still to come.
func (p *Projector) match(ctx context.Context, done uint64, at time.Time) (uint64, error) {
	soon, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	stream, err := p.js.Stream(soon, p.part.Stream())
	if err != nil {
		return 0, fmt.Errorf("audit: %w", err)
	}
	end := stream.CachedInfo().State.LastSeq
	msg, err := bus.MessageAt(soon, stream, done)
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
	from := jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &after, HeadersOnly: true,
	}
	for msg, err := range messages(ctx, p.js, p.part.Stream(), from, quietTime) {
		if err != nil {
			return 0, fmt.Errorf("audit: %w", err)
		}
		return msg.seq - 1, nil
	}
	return end, nil
}

// projected is what a record of the projection says of where it comes from.
type projected struct {
	seq    uint64 // of its event in the call log
	at     time.Time
	oldest uint64 // see headerOpen
}

// readProjected reads a record of the projection. It is not ok for what others have put on its
// subjects, as anybody may who reaches the server. An error is that a newer build projects: this one stands by.
func readProjected(header nats.Header, data []byte) (r projected, ok bool, err error) {
	seq, bad := strconv.ParseUint(header.Get(headerLogSeq), 10, 64)
	record, ok, err := decodeRecord(data)
	if bad != nil || !ok || err != nil {
		return r, false, err
	}
	oldest, _ := strconv.ParseUint(header.Get(headerOpen), 10, 64) // absent in all but the last of a batch
	return projected{seq, record.Timestamp, oldest}, true, nil
}

// lastProjected returns the position in AUDIT of the last message of the projection's subjects, which is
// what the next record is to follow on, and the last record among them; zero where there is none.
func (p *Projector) lastProjected(ctx context.Context) (end uint64, last projected, err error) {
	soon, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	stream, err := p.js.Stream(soon, subjects.AuditStream)
	if err != nil {
		return 0, last, fmt.Errorf("audit: %w", err)
	}
	msg, err := stream.GetLastMsgForSubject(soon, p.part.AuditLog())
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound): // new, or all records have aged out
		return 0, last, nil
	case err != nil && !errors.Is(err, nats.ErrBadHeaderMsg):
		return 0, last, fmt.Errorf("audit: %w", err)
	case err == nil:
		last, ok, err := readProjected(msg.Header, msg.Data)
		if ok || err != nil {
			return msg.Sequence, last, err
		}
	}
	return p.search(ctx, stream.CachedInfo().State.LastSeq)
}

// firstSpan is how far back the last record is searched for at first, behind messages that are no records.
const firstSpan = 1000

// search is lastProjected where the last message is not one of ours: it reads on from further and further
// back. Nothing can be removed from AUDIT, so that it has to be read past.
func (p *Projector) search(ctx context.Context, newest uint64) (end uint64, last projected, err error) {
	for span := uint64(firstSpan); last.seq == 0; span *= 10 {
		from := after(newest - min(span, newest))
		from.FilterSubjects = []string{p.part.AuditLog()}
		for msg, err := range messages(ctx, p.js, subjects.AuditStream, from, quietTime) {
			if err != nil {
				return 0, last, fmt.Errorf("audit: %w", err)
			}
			end = msg.seq
			r, ok, err := readProjected(msg.Headers(), msg.Data())
			if err != nil {
				return 0, last, err
			}
			if ok {
				last = r
			}
		}
		if span >= newest {
			break
		}
	}
	return end, last, nil
}

// resume reads the last projected record, and drops what is on record.
func (p *Projector) resume(ctx context.Context) (oldest uint64, err error) {
	end, last, err := p.lastProjected(ctx)
	if err != nil {
		return 0, err
	}
	if last.seq == 0 {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.last = end
		return 0, nil
	}
	done, err := p.match(ctx, last.seq, last.at)
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if done < p.done { // what is missing has to be read again
		return 0, fmt.Errorf("%w: the record ends at %d of the log, and had %d", bus.ErrLostTail, done, p.done)
	}
	p.last, p.done = end, done
	drop := 0
	for drop < len(p.pending) && p.pending[drop].LogSeq <= done {
		drop++
	}
	p.forget(drop)
	return last.oldest, nil
}

// forget drops the first n records. Their memory is used again where that is cheap. Callers
// hold p.mu.
func (p *Projector) forget(n int) {
	left := len(p.pending) - n
	p.waiting.Done(p.done)
	if left > n {
		p.pending = p.pending[n:]
		return
	}
	copy(p.pending, p.pending[n:])
	clear(p.pending[left:])
	p.pending = p.pending[:left]
}
