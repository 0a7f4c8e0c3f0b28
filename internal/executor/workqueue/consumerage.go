package workqueue

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// consumerAge tells which delivery counts of a consumer can be trusted. A consumer that was deleted and created again,
// or that lost unsaved state in a crash of its server, restarts its counts, and delivers as new what other executors
// are running.
type consumerAge struct {
	born time.Time // its counts include all deliveries of messages stored later
	gone bool      // the server reported an error of the consumer, and its info was not read since
	// delivered is the number of deliveries at the last read of its info or trusted message, and before the one at the
	// time before that. A message with a greater number was counted after it.
	delivered, before uint64
	at                time.Time // the time of delivered; zero: long ago
}

// meet returns the state after the first read of the info of a consumer. A consumer that does not exist is not trusted.
func meet(c Consumer) consumerAge {
	return consumerAge{born: c.Created, delivered: c.Delivered, before: c.Delivered, gone: c.Created.IsZero()}
}

// seen returns the state after another read of the info.
func (n consumerAge) seen(c Consumer) consumerAge {
	return consumerAge{born: c.Created, delivered: c.Delivered, before: n.delivered, gone: c.Created.IsZero()}
}

// heard returns the state after a message with a trusted count. It changes at most once per lookAgain.
func (n consumerAge) heard(m *nats.MsgMetadata, now time.Time) consumerAge {
	if now.Sub(n.at) < lookAgain {
		return n
	}
	n.before, n.delivered, n.at = n.delivered, max(n.delivered, m.Sequence.Consumer), now
	return n
}

// rolledBack reports whether the consumer has lost deliveries between the last two reads.
func (n consumerAge) rolledBack() bool { return n.delivered < n.before }

// counts reports whether the delivery count in a message includes all deliveries of the message.
func (n consumerAge) counts(m *nats.MsgMetadata) bool {
	return !n.gone && !m.Timestamp.Before(n.born) && m.Sequence.Consumer > n.before
}

// How often the infos of consumers are read. They are also read at once after an error of a pull request and after a
// reconnect. Reads are rare, because messages contain the same numbers.
const (
	lookEvery = 15 * time.Second
	lookAgain = time.Second // after a failed read, or one that found a consumer missing or rolled back
	lookTime  = 2 * time.Second
)

// lookSoon makes look read the infos of the consumers at once.
func (w *Puller) lookSoon() { timer.Notify(w.lookNow) }

// look reads the infos of the consumers regularly until ctx ends.
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

// lookAt reads the infos of the consumers. It reports whether it could, and none is missing or rolled back.
func (w *Puller) lookAt(ctx context.Context) (fine bool) {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	all, err := w.consumers.Look(ctx)
	if err != nil {
		return false // the server or all dispatchers are unreachable: look tries again
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

// tell logs once that a consumer is missing. The caller holds w.mu.
func (w *Puller) tell(missing string) {
	if missing != "" && !w.missing && w.Log != nil {
		w.Log.Warn("waiting for a dispatcher that makes the consumers of this pool: start one whose tools name the pool",
			"consumer", missing)
	}
	w.missing = missing != ""
}

// of returns the info of the consumer of a source. It returns the zero Consumer if the consumer does not exist.
func of(all []Consumer, s *source) Consumer {
	for _, c := range all {
		if c.Stream == s.stream && c.Name == s.name {
			return c
		}
	}
	return Consumer{}
}
