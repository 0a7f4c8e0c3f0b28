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

// LastAlive returns when an executor of pool beat last, in bus time, and what it said; the zero time when there is no
// beat: nobody has beaten for a lease then, or since the server came again.
func (p *Store) LastAlive(ctx context.Context, pool string) (last time.Time, said Heartbeat, err error) {
	msg, err := p.newest(ctx, subjects.PoolFilter(pool))
	if err != nil {
		return time.Time{}, said, fmt.Errorf("pool %s: %w", pool, err)
	}
	if msg == nil {
		return time.Time{}, said, nil
	}
	if b, err := decodeBeat(msg.Subject, msg.Data); err == nil { // it lives, whatever it said
		said = b
	}
	return msg.Time, said, nil
}

// Alive returns how many executors of pool beat. It costs a read for each.
func (p *Store) Alive(ctx context.Context, pool string) (int, error) {
	n, err := p.count(ctx, subjects.PoolFilter(pool))
	if err != nil {
		return 0, fmt.Errorf("pool %s: %w", pool, err)
	}
	return n, nil
}

// AllAlive returns how many executors beat, whatever their pool. It costs a read for each.
func (p *Store) AllAlive(ctx context.Context) (int, error) {
	n, err := p.count(ctx, subjects.PoolsAll)
	if err != nil {
		return 0, fmt.Errorf("pools: %w", err)
	}
	return n, nil
}

// maxCounted is how many beats are looked at; whoever may write to the bucket may fill it.
const maxCounted = 10_000

func (p *Store) count(ctx context.Context, filter string) (n int, err error) {
	err = p.each(ctx, filter, maxCounted, func(subject string, now time.Time) error {
		msg, err := p.newest(ctx, subject)
		if err == nil && msg != nil && p.lives(msg, now) {
			n++
		}
		return err
	})
	return n, err
}

// each calls do for each subject that has a beat, but no more than most, with what time it is on the bus.
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

// newest returns the newest beat of the subject; nil when there is none, or none that can be read.
func (p *Store) newest(ctx context.Context, subject string) (*jetstream.RawStreamMsg, error) {
	msg, err := p.stream.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) || errors.Is(err, nats.ErrBadHeaderMsg) {
		return nil, nil
	}
	return msg, err
}

// lives reports whether a beat is no older than it says that it lives. One from the future is of a time before the
// clock was set back, and counts for as long before.
func (p *Store) lives(beat *jetstream.RawStreamMsg, now time.Time) bool {
	ttl := p.ttl
	if s, err := strconv.Atoi(beat.Header.Get(jetstream.MsgTTLHeader)); err == nil {
		ttl = time.Duration(s) * time.Second
	}
	return now.Sub(beat.Time).Abs() <= ttl
}
