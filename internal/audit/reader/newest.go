package reader

import (
	"context"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/flow"
)

// The search for the newest records reads the newest newestSpan messages of each stream first. It multiplies the number
// by newestGrowth until it has found enough.
const (
	newestSpan   = 64
	newestGrowth = 8
)

// apart is the assumed largest difference between the clocks that date records and messages. A message that was not
// read may hold a record that is newer than the message by that much.
const apart = time.Second

// goBack makes reading start at the newest messages.
func (s *source) goBack(messages uint64) {
	s.from = StartAt{After: s.state.Last - min(messages, s.state.Last), Tenant: s.from.Tenant}
}

// whole reports whether the stream holds no more than the newest messages.
func (s *source) whole(messages uint64) bool {
	return s.state.Messages == 0 || messages > s.state.Last-s.state.First
}

// newest yields the newest matching records, ordered by time. It reads no more of the streams than necessary.
func (a *auditReader) newest(ctx context.Context) error {
	for span := uint64(newestSpan); ; span *= newestGrowth {
		a.told = flow.SeenSet{} // the next span contains the records of this one again
		for _, s := range a.sources {
			s.goBack(span)
			s.first = time.Time{}
		}
		held := order{most: a.filter.Last}
		err := a.readTo(ctx, bus.ReadTimeout, func(l *Line) bool {
			held.add(l)
			return true
		})
		if err != nil || a.enough(&held, span) {
			return a.drain(&held, true, err)
		}
	}
}

// enough reports whether no unread record can be one of the newest.
func (a *auditReader) enough(held *order, span uint64) bool {
	for _, s := range a.sources {
		switch {
		case s.whole(span):
		case s.first.IsZero(): // nothing was read: the newest records may be in earlier messages
			return false
		case !a.filter.Since.IsZero() && s.first.Before(a.filter.Since.Add(-ahead)):
		case len(held.turns) < held.most || held.turns[0].at.Before(s.first.Add(apart)):
			return false
		}
	}
	return true
}
