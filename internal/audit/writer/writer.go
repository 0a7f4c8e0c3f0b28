package writer

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// writer appends the records of its own process to a chain of its own. Records that come during a flush are written by
// the next one.
type writer struct {
	chain *chain
	as    audit.Segment // source and process of its segments
	log   *slog.Logger

	mu      sync.Mutex
	waiting []*entry
	more    chan struct{}
}

// entry holds records for whose storage a caller waits.
type entry struct {
	ctx     context.Context // of the caller
	records []audit.Record
	err     error
	done    chan struct{} // closed when err is set
}

// append adds records and waits until they are stored. It returns [audit.ErrRefused] if the server has rejected them.
// If ctx ends before, they may still be stored later.
func (w *writer) append(ctx context.Context, records ...audit.Record) error {
	if len(records) == 0 {
		return nil
	}
	e := &entry{ctx: ctx, records: records, done: make(chan struct{})}
	w.mu.Lock()
	w.waiting = append(w.waiting, e)
	w.mu.Unlock()
	timer.Notify(w.more)
	select {
	case <-e.done:
		return e.err
	case <-ctx.Done():
		return fmt.Errorf("audit record: %w", context.Cause(ctx))
	}
}

// run writes records until ctx ends.
func (w *writer) run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-w.more:
			for all := w.take(); len(all) > 0; all = w.take() {
				w.flush(ctx, all)
			}
		}
	}
}

// take returns the entries of the next flush.
func (w *writer) take() (all []*entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, records := 0, 0
	for ; n < len(w.waiting) && records < maxFlush; n++ {
		records += len(w.waiting[n].records)
	}
	all, w.waiting = w.waiting[:n:n], w.waiting[n:]
	return all
}

// flush stores the records of entries, and retries while a caller waits for one of them.
func (w *writer) flush(ctx context.Context, all []*entry) {
	var records []audit.Record
	for _, e := range all {
		records = append(records, e.records...)
	}
	lines, err := audit.SplitSegments(records, audit.MaxSegment)
	if err == nil {
		err = w.store(ctx, lines, all)
	}
	for _, e := range all {
		e.err = err
		close(e.done)
	}
}

// store appends a flush to the chain. After an error it reads the end of the chain to find out which segments are
// stored.
func (w *writer) store(ctx context.Context, lines []*audit.SegmentBody, all []*entry) error {
	stored := 0
	pace := timer.Backoff{Pause: waitAsStandby / 10, MaxPause: waitAsStandby}
	return pace.Until(ctx, func(ctx context.Context) (done bool, err error) {
		s := w.as
		s.K = stored + 1
		msgs, err := w.chain.seal(lines[stored:], s)
		if err != nil {
			return true, err
		}
		n, err := w.chain.append(ctx, msgs)
		if err == nil {
			return true, nil
		}
		if bus.IsAnswered(err) && !bus.HasErrorCode(err, bus.CodeWrongLast, bus.CodeUnderWay, bus.CodeInProcess) {
			return true, fmt.Errorf("%w: %w", audit.ErrRefused, err)
		}
		if _, lost := w.chain.resume(ctx); lost == nil {
			n = max(n, 1+slices.IndexFunc(msgs, func(m sealed) bool { return m.hash == w.chain.hash }))
		}
		if stored += n; stored == len(lines) {
			return true, nil
		}
		w.log.Warn("audit record not written yet", "err", err)
		return abandoned(all), fmt.Errorf("audit record: %w", err)
	})
}

// abandoned reports whether no caller waits for the entries any more.
func abandoned(all []*entry) bool {
	for _, e := range all {
		if e.ctx.Err() == nil {
			return false
		}
	}
	return true
}
