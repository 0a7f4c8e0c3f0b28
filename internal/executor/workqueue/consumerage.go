package workqueue

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// consumerAge is what is known of a consumer, so that its counts of deliveries can be trusted. One
// that was deleted and made anew, or forgot what it had not saved when its server crashed, counts
// from one again, and hands out as new what others have been running.
type consumerAge struct {
	born time.Time // it has counted every delivery of what is younger
	gone bool      // the server says something is wrong with it; not looked at since
	// delivered is how much it had handed out when it was looked at or heard of, and the time before that:
	// what comes now has been counted after it.
	delivered, before uint64
	at                time.Time // of delivered; zero: long ago
}

// meet is what is known after the first look. Nothing is believed of one that is not there.
func meet(c Consumer) consumerAge {
	return consumerAge{born: c.Created, delivered: c.Delivered, before: c.Delivered, gone: c.Created.IsZero()}
}

// seen is what is known after it was looked at again.
func (n consumerAge) seen(c Consumer) consumerAge {
	return consumerAge{born: c.Created, delivered: c.Delivered, before: n.delivered, gone: c.Created.IsZero()}
}

// heard is what is known after a message of it came whose count is believed: as much as after a look, but no more
// often than that is of use.
func (n consumerAge) heard(m *nats.MsgMetadata, now time.Time) consumerAge {
	if now.Sub(n.at) < lookAgain {
		return n
	}
	n.before, n.delivered, n.at = n.delivered, max(n.delivered, m.Sequence.Consumer), now
	return n
}

// rolledBack reports whether it has forgotten deliveries since the look before the last.
func (n consumerAge) rolledBack() bool { return n.delivered < n.before }

// counts reports whether the count in a message includes all its deliveries.
func (n consumerAge) counts(m *nats.MsgMetadata) bool {
	return !n.gone && !m.Timestamp.Before(n.born) && m.Sequence.Consumer > n.before
}

// The rhythm in which consumers are looked at. What comes from them says as much about them, and pulls say when
// something is wrong: then, and when the connection was made anew, they are looked at at once.
const (
	lookEvery = 15 * time.Second
	lookAgain = time.Second // where the last look found one behind, or missing, or nothing at all
	lookTime  = 2 * time.Second
)

// lookSoon has the consumers looked at, as soon as that can be.
func (w *Puller) lookSoon() { timer.Notify(w.lookNow) }

// look keeps what is known of the consumers up to date until ctx ends.
func (w *Puller) look(ctx context.Context) {
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
		if !w.lookAt(ctx) {
			pause = lookAgain
		}
		next.Reset(pause)
	}
}

// lookAt looks at the consumers and reports whether that will do for a while.
func (w *Puller) lookAt(ctx context.Context) (fine bool) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	all, err := w.consumers.Look(ctx)
	if err != nil {
		return false // the server, or a dispatcher, is not there: it is looked again
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	fine = true
	missing := ""
	for _, s := range w.sources {
		s.known = s.known.seen(of(all, s))
		s.known.at = time.Now()
		if s.known.gone {
			missing = s.stream + " > " + s.name
		}
		fine = fine && !s.known.rolledBack() && !s.known.gone
	}
	w.tell(missing)
	return fine
}

// tell says once that a consumer is missing. Callers hold w.mu.
func (w *Puller) tell(missing string) {
	if missing != "" && !w.missing && w.Log != nil {
		w.Log.Warn("waiting for a dispatcher that makes the consumers of this pool: start one whose tools name the pool",
			"consumer", missing)
	}
	w.missing = missing != ""
}

// of returns what is known of the consumer of a source; the zero Consumer is that it is not there.
func of(all []Consumer, s *source) Consumer {
	for _, c := range all {
		if c.Stream == s.stream && c.Name == s.name {
			return c
		}
	}
	return Consumer{}
}
