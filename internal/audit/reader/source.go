package reader

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/audit"
)

// source is one of the two streams of the audit record, with the position up to which it was read.
type source struct {
	stream string
	from   StartAt
	state  State     // when reading began; set only if it begins at the end
	first  time.Time // time of the first message that was read
}

// batch holds the matching records of one message.
type batch struct {
	*source
	seq   uint64 // of the message
	at    time.Time
	lines []*Line
	err   error // if it is not nil, the other fields are not set, and no batch follows
}

// goneOn moves the start of the next read behind the batch.
func (b batch) goneOn() {
	b.from = StartAt{After: b.seq, Tenant: b.from.Tenant}
	if b.first.IsZero() {
		b.first = b.at
	}
}

// maxBatches is how far a goroutine reads ahead of the consumer: it decodes while the consumer prints.
const maxBatches = 4

// readers runs the goroutines that read sources.
type readers struct {
	archive Source
	filter  *Filter
	needles [][]byte
	quiet   time.Duration // see Source.Messages
	running sync.WaitGroup
}

// start starts a goroutine that sends the batches of a source to to. It calls end after the last one, or when ctx ends.
func (r *readers) start(ctx context.Context, s *source, to chan<- batch, end func()) {
	from := s.from
	r.running.Go(func() {
		defer end()
		for m, err := range r.archive.Messages(ctx, s.stream, from, r.quiet) {
			b := batch{source: s, seq: m.Seq, at: m.Time, err: err}
			if err == nil {
				b.lines, b.err = r.decode(m, s.stream)
			}
			select {
			case to <- b:
			case <-ctx.Done():
				return
			}
			if b.err != nil {
				return
			}
		}
	})
}

// decode returns the matching records of a message.
func (r *readers) decode(m Message, stream string) (fit []*Line, err error) {
	s, segment, err := audit.Open(m.Data)
	if err != nil {
		return nil, fmt.Errorf("audit segment %d of %s: %w", m.Seq, stream, err)
	}
	if !segment { // a foreign message, or a single record, for which Decode returns an error
		if _, _, err := audit.Decode(m.Data); err != nil {
			return nil, fmt.Errorf("audit record %d of %s: %w", m.Seq, stream, err)
		}
	}
	for line := range s.Lines() {
		if !perhaps(line, r.needles) {
			continue
		}
		l := &Line{Text: string(line)}
		var ok bool
		if l.Record, ok, err = audit.Parse(l.Text); err != nil {
			return nil, fmt.Errorf("audit record in %d of %s: %w", m.Seq, stream, err)
		}
		if ok && r.filter.has(&l.Record) {
			fit = append(fit, l)
		}
	}
	return fit, nil
}

// read calls take with the batches of all sources until take returns false or an error occurs. It merges them by the
// time of their messages, or, if r.quiet is 0, passes them on as they arrive.
func (r *readers) read(ctx context.Context, sources []*source, take func(batch) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer r.running.Wait()
	defer cancel()
	if r.quiet == 0 {
		return r.mixed(ctx, sources, take)
	}
	return r.merged(ctx, sources, take)
}

func (r *readers) mixed(ctx context.Context, sources []*source, take func(batch) bool) error {
	all := make(chan batch)
	var left sync.WaitGroup
	left.Add(len(sources))
	for _, s := range sources {
		r.start(ctx, s, all, left.Done)
	}
	r.running.Go(func() { left.Wait(); close(all) })
	for b := range all {
		if b.err != nil || !take(b) {
			return b.err
		}
	}
	return nil
}

func (r *readers) merged(ctx context.Context, sources []*source, take func(batch) bool) error {
	heads := map[chan batch]batch{}
	advance := func(from chan batch) error {
		b, more := <-from
		if heads[from] = b; !more {
			delete(heads, from)
		}
		return b.err
	}
	for _, s := range sources {
		to := make(chan batch, maxBatches)
		r.start(ctx, s, to, func() { close(to) })
		heads[to] = batch{}
	}
	for to := range heads {
		if err := advance(to); err != nil {
			return err
		}
	}
	for len(heads) > 0 {
		var oldest chan batch
		for from, b := range heads {
			if oldest == nil || b.at.Before(heads[oldest].at) {
				oldest = from
			}
		}
		if !take(heads[oldest]) {
			return nil
		}
		if err := advance(oldest); err != nil {
			return err
		}
	}
	return ctx.Err()
}
