package reader

import (
	"context"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/flow"
)

// How the newest records are searched for: in so many of the newest messages of each stream at first, and in so many
// times more where that was not enough.
const (
	newestSpan   = 64
	newestGrowth = 8
)

// apart is how far the clocks may be apart that date records and messages, for what was not read to hold no newer
// record than what was.
const apart = time.Second

// goBack lets reading begin with the newest messages.
func (s *source) goBack(messages uint64) {
	s.from = StartAt{After: s.state.Last - min(messages, s.state.Last), Tenant: s.from.Tenant}
}

// whole reports whether nothing is in the stream before so many of the newest messages.
func (s *source) whole(messages uint64) bool {
	return s.state.Messages == 0 || messages > s.state.Last-s.state.First
}

// newest yields the newest records that fit, in the order of time. It reads no more of the streams than it has to.
func (a *auditReader) newest(ctx context.Context) error {
	for span := uint64(newestSpan); ; span *= newestGrowth {
		a.told = flow.SeenSet{} // what is read again is not told yet
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

// enough reports whether no record that was not read can be one of the newest.
func (a *auditReader) enough(held *order, span uint64) bool {
	for _, s := range a.sources {
		switch {
		case s.whole(span):
		case s.first.IsZero(): // nothing is known of what is before
			return false
		case !a.filter.Since.IsZero() && s.first.Before(a.filter.Since.Add(-ahead)):
		case len(held.turns) < held.most || held.turns[0].at.Before(s.first.Add(apart)):
			return false
		}
	}
	return true
}
