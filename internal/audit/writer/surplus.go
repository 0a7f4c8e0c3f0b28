package writer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// surplus stores records of a partition in the stream SURPLUS, those of each tenant as a chain of its own, in the order
// of the log. A flush stores them before it moves the end of the record in AUDIT. So after a flush that did not come to
// that, the ends of the chains say which records need not be stored again. It is not safe for concurrent use.
type surplus struct {
	js     jetstream.JetStream
	part   subjects.Partition
	chains map[string]*surplusChain // by subject
}

// surplusChain is the chain of a tenant.
type surplusChain struct {
	chain
	through audit.Position // of the last record
	has     map[place]bool // the records of the last segment
}

func newSurplus(js jetstream.JetStream, part subjects.Partition) *surplus {
	return &surplus{js: js, part: part, chains: map[string]*surplusChain{}}
}

// resume reads the ends of all chains of the partition.
func (s *surplus) resume(ctx context.Context) error {
	soon, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	stream, err := s.js.Stream(soon, subjects.SurplusStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) { // no dispatcher of this build has started
		return nil
	}
	if err != nil {
		return fmt.Errorf("surplus of the record: %w", err)
	}
	info, err := stream.Info(soon, jetstream.WithSubjectFilter(s.part.SurplusLog()))
	if err != nil {
		return fmt.Errorf("surplus of the record: %w", err)
	}
	clear(s.chains)
	for subject := range info.State.Subjects {
		if _, err := s.open(ctx, subject); err != nil {
			return err
		}
	}
	return nil
}

// open returns the chain on a subject, and reads its end unless that is known.
func (s *surplus) open(ctx context.Context, subject string) (*surplusChain, error) {
	if c := s.chains[subject]; c != nil {
		return c, nil
	}
	c := &surplusChain{chain: chain{
		js: s.js, stream: subjects.SurplusStream, all: subject, answer: ackTime,
		subject: func(string) string { return subject },
	}}
	t, err := c.resume(ctx)
	if err != nil {
		return nil, err
	}
	if last := t.last(); last != nil {
		end, err := unfinished(t.flush)
		if err != nil {
			return nil, err
		}
		c.through, c.has = end.through, end.has
	}
	s.chains[subject] = c
	return c, nil
}

// stored reports whether the chain of its tenant has a record.
func (s *surplus) stored(r *audit.Record) bool {
	c := s.chains[s.part.Surplus(r.Tenant)]
	return c != nil && r.LogSeq <= c.through.Seq && !r.Timestamp.After(c.through.Time) &&
		(r.LogSeq < c.through.Seq || c.has[placeOf(r)])
}

// append stores records of a tenant behind those that its chain has. After an error the chains must be resumed.
func (s *surplus) append(ctx context.Context, tenant string, records []audit.Record) error {
	c, err := s.open(ctx, s.part.Surplus(tenant))
	if err != nil {
		return err
	}
	bodies, err := audit.SplitSegments(records, audit.MaxSegment)
	if err != nil {
		return err
	}
	for _, body := range bodies {
		last := records[body.Count-1]
		through := audit.Position{Seq: last.LogSeq, Time: last.Timestamp}
		msgs, err := c.seal([]*audit.SegmentBody{body}, audit.Segment{
			Source: audit.SourceSurplus, Part: s.part, After: c.through, Through: through, K: 1,
		})
		if err != nil {
			return err
		}
		if _, err := c.append(ctx, msgs); err != nil {
			return err
		}
		c.through, c.has = through, map[place]bool{}
		for i := range records[:body.Count] {
			c.has[placeOf(&records[i])] = true
		}
		records = records[body.Count:]
	}
	return nil
}

// surplusLinger is how long flushes linger while records go to SURPLUS, so that segments there are large, and few
// flushes need room in AUDIT.
const surplusLinger = 2 * time.Second

// divert stores the records of tenants that crowd AUDIT in SURPLUS, and returns the others. It leaves the last event to
// AUDIT if no other is left, because a flush ends with a segment there. If SURPLUS cannot be written, all records go to
// AUDIT, also those that it may have stored: calls do not wait for it.
func (p *Projector) divert(ctx context.Context, records []audit.Record) (rest []audit.Record, err error) {
	if len(p.surplus.chains) == 0 && !p.Shares.crowded() {
		return records, nil
	}
	crowd, crowds := map[string][]audit.Record{}, map[string]bool{} // the same for all records of a tenant
	for _, r := range records {
		if _, known := crowds[r.Tenant]; !known {
			crowds[r.Tenant] = p.Shares.crowds(r.Tenant)
		}
		switch {
		case p.surplus.stored(&r):
		case crowds[r.Tenant]:
			crowd[r.Tenant] = append(crowd[r.Tenant], r)
		default:
			rest = append(rest, r)
		}
	}
	if len(rest) == 0 {
		rest = lastEvent(records)
		for tenant, all := range crowd {
			crowd[tenant] = slices.DeleteFunc(all, func(r audit.Record) bool { return r.LogSeq == rest[0].LogSeq })
		}
	}
	for tenant, all := range crowd {
		switch err := p.surplus.append(ctx, tenant, all); {
		case overtaken(err):
			return nil, err
		case err != nil:
			p.log.Warn("records of a tenant go to AUDIT, of which it fills more than its share", "tenant", tenant, "err", err)
			delete(p.surplus.chains, p.part.Surplus(tenant))
			return records, nil
		}
	}
	return rest, nil
}

// lastEvent returns the records of the last event.
func lastEvent(records []audit.Record) []audit.Record {
	seq := records[len(records)-1].LogSeq
	first := slices.IndexFunc(records, func(r audit.Record) bool { return r.LogSeq == seq })
	return records[first:]
}

// surplusWriters writes records of the process to SURPLUS, those of each tenant to a chain of its own.
type surplusWriters struct {
	open  func(tenant string) *writer // returns a new writer
	begun chan *writer                // receives each writer

	mu  sync.Mutex
	all map[string]*writer // by tenant
}

// of returns the writer of a tenant. It waits for run if many are new.
func (s *surplusWriters) of(tenant string) *writer {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.all[tenant]
	if w == nil {
		w = s.open(tenant)
		s.all[tenant] = w
		s.begun <- w
	}
	return w
}

// run runs the writers until ctx ends.
func (s *surplusWriters) run(ctx context.Context) {
	var writers sync.WaitGroup
	defer writers.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-s.begun:
			writers.Go(func() { w.run(ctx) })
		}
	}
}
