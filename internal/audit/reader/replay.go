package reader

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Line is a record with the text that is stored of it, for which the root of its segment vouches.
type Line struct {
	audit.Record
	Text string // shares its memory with the strings of the record
}

// Replay yields the records that fit as they stood when it was called, in the order of time: it holds 65,536 records
// at the most, and one that came on record further behind a later one than that stays behind it. With Follow it goes
// on with all that come, as they come. What is no record, and was put into a stream by somebody else, is left out. A
// filter that no record can fit, and a record of a newer build, are errors; after an error nothing comes.
func Replay(ctx context.Context, from Source, f Filter) iter.Seq2[audit.Record, error] {
	return func(yield func(audit.Record, error) bool) {
		for l, err := range Lines(ctx, from, f) {
			if !yield(l.Record, err) {
				return
			}
		}
	}
}

// Lines is [Replay] with the text of each record.
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

// auditReader yields the records of the streams that fit.
type auditReader struct {
	readers
	yield   func(*Line) bool
	sources []*source
	told    flow.SeenSet // ids of records that more than one process may have written
}

// errEnough ends a reader whose consumer wants no more.
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

// open looks from where on the streams may hold records that fit.
func (a *auditReader) open(ctx context.Context) error {
	for _, s := range []*source{
		{stream: subjects.AuditStream, from: a.start()}, {stream: subjects.DeniedStream, from: a.start()},
	} {
		if a.filter.FromNow || a.filter.Last > 0 {
			var err error
			if s.state, err = a.archive.State(ctx, s.stream); err != nil {
				return err
			}
			s.goBack(0)
		}
		a.sources = append(a.sources, s)
	}
	return nil
}

// ahead is how far a record's time may be ahead of the time at which it came into the stream. Events
// of the log are recorded after they were written; what a dispatcher records of its own bears its
// measure of bus time.
const ahead = time.Minute

func (a *auditReader) start() StartAt {
	from := StartAt{Tenant: a.filter.Tenant, Since: a.filter.Since}
	if !from.Since.IsZero() {
		from.Since = from.Since.Add(-ahead)
	}
	return from
}

// stood yields what is on record by now, in the order of time.
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

// drain yields what is held, if more is wanted, and then err.
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

// follow yields what comes on record, as it comes.
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

// readTo calls take with the records that fit, until it returns false.
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

// first reports whether a record has not been yielded yet, as far as that is remembered.
func (a *auditReader) first(id string) bool {
	if id == "" {
		return true
	}
	known := a.told.Has(id)
	a.told.Add(slices.Values([]string{id}))
	return !known
}

// recordTime bounds the wait for the record at the end of followUntil: dispatchers that are further
// behind admit nothing.
const recordTime = 10 * time.Second

// followUntil follows the record until the filter's time has passed, and then reads what had happened
// by then and was not on record yet.
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
