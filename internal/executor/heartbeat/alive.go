package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// LastAlive returns the newest heartbeat of a pool and the bus time at which it was stored. The time is zero if there
// is no heartbeat: none was sent within the last lease, or since the server restarted. The heartbeat is zero if it
// cannot be decoded.
func (p *Store) LastAlive(ctx context.Context, pool string) (last time.Time, said Heartbeat, err error) {
	msg, err := p.newest(ctx, subjects.PoolFilter(pool))
	if err != nil {
		return time.Time{}, said, fmt.Errorf("pool %s: %w", pool, err)
	}
	if msg == nil {
		return time.Time{}, said, nil
	}
	if b, err := decodeBeat(msg.Data); err == nil { // otherwise the executor runs, too
		said = b
	}
	return msg.Time, said, nil
}

// Alive returns the number of running executors of a pool, at most 10000. It reads one message for each.
func (p *Store) Alive(ctx context.Context, pool string) (int, error) {
	all, err := p.living(ctx, subjects.PoolFilter(pool))
	if err != nil {
		return 0, fmt.Errorf("pool %s: %w", pool, err)
	}
	return len(all), nil
}

// AllAlive returns the newest heartbeats of the running executors of all pools, at most 10000, in no order. A heartbeat
// that cannot be decoded has only Pool and Instance. AllAlive reads one message for each.
func (p *Store) AllAlive(ctx context.Context) ([]Heartbeat, error) {
	all, err := p.living(ctx, subjects.PoolsAll)
	if err != nil {
		return nil, fmt.Errorf("pools: %w", err)
	}
	return all, nil
}

// maxCounted limits how many heartbeats are read, because a process with permission to write heartbeats could fill the
// bucket.
const maxCounted = 10_000

func (p *Store) living(ctx context.Context, filter string) (all []Heartbeat, err error) {
	err = p.each(ctx, filter, maxCounted, func(subject string, now time.Time) error {
		msg, err := p.newest(ctx, subject)
		if err == nil && msg != nil && p.lives(msg, now) {
			b, _ := decodeBeat(msg.Data) // the executor runs in any case
			// The server has compared the subject with the executor's token, not the content.
			b.Pool, b.Instance, _ = subjects.ParsePool(subject)
			all = append(all, b)
		}
		return err
	})
	return all, err
}

// each calls do for each subject with a heartbeat, at most for most subjects, with the time of the server. It stops at
// the first error.
func (p *Store) each(ctx context.Context, filter string, most int, do func(string, time.Time) error) error {
	info, err := p.stream.Info(ctx, jetstream.WithSubjectFilter(filter))
	if err != nil {
		return err
	}
	for subject := range info.State.Subjects {
		if most--; most < 0 {
			break
		}
		if err := do(subject, info.TimeStamp); err != nil {
			return err
		}
	}
	return nil
}

// newest returns the newest heartbeat of the subject. It returns nil if there is none or if its headers cannot be
// decoded.
func (p *Store) newest(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	msg, err := p.stream.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, nats.ErrBadHeaderMsg) {
		return nil, nil
	}
	return msg, err
}

// lives reports whether a heartbeat has not expired by its own lifetime. One with a time in the future, which was
// stored before the clock of the server was set back, counts up to one lifetime ahead.
func (p *Store) lives(beat *jetstream.RawStreamMsg, now time.Time) bool {
	ttl := p.ttl
	if s, err := strconv.Atoi(beat.Header.Get(jetstream.MsgTTLHeader)); err == nil {
		ttl = time.Duration(s) * time.Second
	}
	return now.Sub(beat.Time).Abs() <= ttl
}
