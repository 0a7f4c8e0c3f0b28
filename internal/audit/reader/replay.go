package reader

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Line is a record with its stored text, which the root of its segment covers.
type Line struct {
	audit.Record
	Text string // shares its memory with the strings in Record
}

// Replay yields the matching records that the streams hold when it is called, ordered by time. It sorts at most 65,536
// records at a time: a record that was stored more than that many records too late is yielded late. With Follow it
// continues with new records in the order in which they are stored. It skips messages that are not records. It yields
// an error, and ends, if Filter.Check fails, or at a record of a newer build.
func Replay(ctx context.Context, from Source, f Filter) iter.Seq2[audit.Record, error] {
	return func(yield func(audit.Record, error) bool) {
		for l, err := range Lines(ctx, from, f) {
			if !yield(l.Record, err) {
				return
			}
		}
	}
}

// Lines is [Replay] with the stored text of each record.
func Lines(ctx context.Context, from Source, f Filter) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		a := &auditReader{
			readers: readers{archive: from, filter: &f, needles: f.needles()},
			yield:   func(l *Line) bool { return yield(*l, nil) },
		}
		err := f.Check()
		if err == nil {
			err = a.run(ctx)
		}
		if err != nil && !errors.Is(err, errEnough) && !(f.Follow && errors.Is(err, context.Canceled)) {
			yield(Line{}, err)
		}
	}
}

// auditReader yields the matching records of the streams.
type auditReader struct {
	readers
	yield   func(*Line) bool
	sources []*source
	told    flow.SeenSet // ids of yielded records; more than one process may write the same record
}

// errEnough ends reading when the consumer of the iterator has stopped.
var errEnough = errors.New("enough")

func (a *auditReader) run(ctx context.Context) error {
	err := a.open(ctx)
	switch {
	case err != nil:
	case a.filter.Last > 0:
		err = a.newest(ctx)
	case !a.filter.FromNow:
		err = a.stood(ctx)
	}
	switch {
	case err != nil || !a.filter.Follow:
		return err
	case a.filter.Until.IsZero():
		return a.follow(ctx)
	}
	return a.followUntil(ctx)
}

// open sets where to start in each stream.
func (a *auditReader) open(ctx context.Context) error {
	for _, stream := range ofRecord() {
		s := &source{stream: stream, from: a.start()}
		if back := a.filter.FromNow || a.filter.Last > 0; back || stream == subjects.SurplusStream {
			var err error
			s.state, err = a.archive.State(ctx, stream)
			if stream == subjects.SurplusStream && absent(err) {
				continue
			}
			if err != nil {
				return err
			}
			if back {
				s.goBack(0)
			}
		}
		a.sources = append(a.sources, s)
	}
	return nil
}

// absent reports whether err says that a bus has no stream SURPLUS, which builds before did not make, or that a
// dispatcher of these builds does not read it.
func absent(err error) bool {
	var refused denied
	return errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, nats.ErrNoResponders) ||
		errors.As(err, &refused) && refused.reason.Code == envelope.CodeUnavailable
}

// ahead is the largest time by which the timestamp of a record may be later than that of its message. Events of the
// call log are recorded after they are stored. Records of dispatchers have timestamps of their own measurement of bus
// time.
const ahead = time.Minute

func (a *auditReader) start() StartAt {
	from := StartAt{Tenant: a.filter.Tenant, Since: a.filter.Since}
	if !from.Since.IsZero() {
		from.Since = from.Since.Add(-ahead)
	}
	return from
}

// stood yields the records that the streams hold now, ordered by time.
func (a *auditReader) stood(ctx context.Context) error {
	held := order{most: maxHeld}
	more := true
	err := a.readTo(ctx, bus.ReadTimeout, func(l *Line) bool {
		if oldest := held.add(l); oldest != nil {
			more = a.yield(oldest)
		}
		return more
	})
	return a.drain(&held, more, err)
}

// drain yields the held records if more is true, and then returns err.
func (a *auditReader) drain(held *order, more bool, err error) error {
	for more {
		l := held.take()
		if l == nil {
			return err
		}
		more = a.yield(l)
	}
	return errEnough
}

// follow yields new records as they are stored.
func (a *auditReader) follow(ctx context.Context) error {
	more := true
	err := a.readTo(ctx, 0, func(l *Line) bool {
		more = a.yield(l)
		return more
	})
	if !more {
		return errEnough
	}
	return err
}

// readTo calls take with each matching record until take returns false.
func (a *auditReader) readTo(ctx context.Context, quiet time.Duration, take func(*Line) bool) error {
	a.quiet = quiet
	return a.read(ctx, a.sources, func(b batch) bool {
		b.goneOn()
		for _, l := range b.lines {
			if a.first(l.EventID) && !take(l) {
				return false
			}
		}
		return true
	})
}

// first reports whether a record has not been yielded before, as far as a.told remembers.
func (a *auditReader) first(id string) bool {
	if id == "" {
		return true
	}
	known := a.told.Has(id)
	a.told.Add(slices.Values([]string{id}))
	return !known
}

// recordTime limits the wait for the audit record at the end of followUntil. A dispatcher whose record is further
// behind admits no calls.
const recordTime = 10 * time.Second

// followUntil follows the streams until Filter.Until. Then it reads the records of events up to that time that were
// stored later.
func (a *auditReader) followUntil(ctx context.Context) error {
	now, err := a.archive.Now(ctx)
	if err != nil {
		return err
	}
	following, cancel := context.WithTimeout(ctx, a.filter.Until.Sub(now))
	defer cancel()
	if err := a.follow(following); err != nil && following.Err() == nil || errors.Is(err, errEnough) {
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	if err := a.archive.WaitRecorded(waiting); err != nil {
		return err
	}
	return a.stood(ctx)
}
