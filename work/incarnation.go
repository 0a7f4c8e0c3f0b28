package work

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/wait"
)

// incarnation is what is known of a consumer, so that its counts of deliveries can be trusted. One
// that was deleted and made anew, or forgot what it had not saved when its server crashed, counts
// from one again, and hands out as new what others have been running.
type incarnation struct {
	born time.Time // it has counted every delivery of what is younger
	gone bool      // the server says something is wrong with it; not looked at since
	// delivered is how much it had handed out when it was looked at or heard of, and the time before that:
	// what comes now has been counted after it.
	delivered, before uint64
	at                time.Time // of delivered; zero: long ago
}

func meet(i *jetstream.ConsumerInfo) incarnation {
	return incarnation{born: i.Created, delivered: i.Delivered.Consumer, before: i.Delivered.Consumer}
}

// seen is what is known after it was looked at again.
func (n incarnation) seen(i *jetstream.ConsumerInfo) incarnation {
	return incarnation{born: i.Created, delivered: i.Delivered.Consumer, before: n.delivered}
}

// heard is what is known after a message of it came whose count is believed: as much as after a look, but no more
// often than that is of use.
func (n incarnation) heard(m *nats.MsgMetadata, now time.Time) incarnation {
	if now.Sub(n.at) < lookAgain {
		return n
	}
	n.before, n.delivered, n.at = n.delivered, max(n.delivered, m.Sequence.Consumer), now
	return n
}

// behind reports whether it has forgotten deliveries since the look before the last.
func (n incarnation) behind() bool { return n.delivered < n.before }

// counts reports whether the count in a message includes all its deliveries.
func (n incarnation) counts(m *nats.MsgMetadata) bool {
	return !n.gone && !m.Timestamp.Before(n.born) && m.Sequence.Consumer > n.before
}

// The rhythm in which consumers are looked at. What comes from them says as much about them, and pulls say when
// something is wrong: then, and when the connection was made anew, they are looked at at once.
const (
	lookEvery = 15 * time.Second
	lookAgain = time.Second // where the last look found one behind, or nothing at all
)

// lookSoon has the consumers looked at, as soon as that can be.
func (w *Workers) lookSoon() { wait.Signal(w.lookNow) }

// look keeps what is known of the consumers up to date until ctx ends, and makes those anew that
// somebody has deleted.
func (w *Workers) look(ctx context.Context) {
	next := time.NewTimer(lookEvery)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		case <-w.lookNow:
		}
		pause := lookEvery
		for _, s := range w.sources {
			if !w.lookAt(ctx, s) {
				pause = lookAgain
			}
		}
		next.Reset(pause)
	}
}

// lookAt looks at the consumer of s and reports whether that will do for a while.
func (w *Workers) lookAt(ctx context.Context, s *source) bool {
	ctx, cancel := context.WithTimeout(ctx, lookAgain)
	defer cancel()
	cons, err := w.js.Consumer(ctx, s.stream, s.name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		cons, err = w.ensure(ctx, s)
	}
	if err != nil {
		return false // the server is not there: it is looked at again
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.known = s.known.seen(cons.CachedInfo())
	s.known.at = time.Now()
	return !s.known.behind()
}
