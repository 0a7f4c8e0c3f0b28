package bus

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// incarnation is what is known of a consumer, so that its counts of deliveries can be trusted. One
// that was deleted and made anew, or forgot what it had not saved when its server crashed, counts
// from one again, and hands out as new what others have been running.
type incarnation struct {
	born time.Time // it has counted every delivery of what is younger
	gone bool      // the server says something is wrong with it; not looked at since
	// delivered is how much it had handed out when it was looked at, and the time before that:
	// what comes now has been counted after it.
	delivered, before uint64
}

func meet(i *jetstream.ConsumerInfo) incarnation {
	return incarnation{born: i.Created, delivered: i.Delivered.Consumer, before: i.Delivered.Consumer}
}

// seen is what is known after it was looked at again.
func (n incarnation) seen(i *jetstream.ConsumerInfo) incarnation {
	return incarnation{born: i.Created, delivered: i.Delivered.Consumer, before: n.delivered}
}

// counts reports whether the count in a message includes all its deliveries.
func (n incarnation) counts(m *nats.MsgMetadata) bool {
	return !n.gone && !m.Timestamp.Before(n.born) && m.Sequence.Consumer > n.before
}

// lookEvery is the rhythm in which consumers are looked at.
const lookEvery = time.Second

// look keeps what is known of the consumers up to date until ctx ends, and makes those anew that
// somebody has deleted.
func (w *Workers) look(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-w.lookNow:
		}
		for _, s := range w.sources {
			w.lookAt(ctx, s)
		}
	}
}

func (w *Workers) lookAt(ctx context.Context, s *source) {
	ctx, cancel := context.WithTimeout(ctx, lookEvery)
	defer cancel()
	cons, err := w.js.Consumer(ctx, s.stream, s.name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		cons, err = s.ensure(ctx)
	}
	if err != nil {
		return // the server is not there: it is looked at again
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.known = s.known.seen(cons.CachedInfo())
}
