package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Store knows which executors live. Every executor beats; a beat that is not renewed expires, and counts for no more
// than that where it does not: a server that crashed may bring back beats that had been replaced, and keeps
// them. Its methods are safe for concurrent use.
type Store struct {
	// PullsOverflow is asked at every beat whether whoever beats pulls what goes behind; nil does not.
	PullsOverflow func() OverflowSupport
	// Definitions is asked at every beat what the beating executor has found out about tools; nil says nothing.
	Definitions func() Definitions

	js     jetstream.JetStream
	stream jetstream.Stream                                             // nil of those who may not read it
	beat   func(ctx context.Context, pool, name string) (uint64, error) // newest of an executor, 0 when there is none
	ttl    time.Duration

	mu         sync.Mutex
	seen       map[string]verdict
	since      time.Time // connected, and able to beat if it tried, without interruption since then
	reconnects uint64    // of the connection, until then
}

type verdict struct {
	gone bool
	at   time.Time
	beat uint64    // sequence of the newest beat; 0 when there is none
	seen time.Time // when that one was first seen here
}

// OpenStore binds to the pools bucket. A beat lives for lease, in whole seconds, at least one.
func OpenStore(ctx context.Context, js jetstream.JetStream, lease time.Duration) (*Store, error) {
	stream, err := js.Stream(ctx, subjects.PoolsStream)
	if err != nil {
		return nil, fmt.Errorf("pools: %w", err)
	}
	p := NewRemoteStore(js, lease, nil)
	p.stream, p.beat = stream, p.Newest
	return p, nil
}

// NewRemoteStore is [OpenStore] for a process that may only write its own heartbeats: beat returns the
// sequence of the newest heartbeat of an executor, as [Store.Newest] does. Only Beat and Expired may be called.
func NewRemoteStore(js jetstream.JetStream, lease time.Duration,
	beat func(ctx context.Context, pool, name string) (uint64, error)) *Store {
	return &Store{
		js: js, beat: beat, ttl: max(time.Second, lease.Round(time.Second)), seen: map[string]verdict{},
		since: time.Now(), reconnects: js.Conn().Stats().Reconnects,
	}
}

// settled reports whether all who live have had the time to beat: when the connection was interrupted,
// beats may have expired unrenewed. The connection itself is asked, since its status is told too late.
func (p *Store) settled() bool {
	n := p.js.Conn().Stats().Reconnects
	p.mu.Lock()
	defer p.mu.Unlock()
	if n != p.reconnects {
		p.reconnects, p.since = n, time.Now()
		clear(p.seen)
	}
	return time.Since(p.since) > p.ttl
}

// Beat says that the executor instance of pool lives.
func (p *Store) Beat(ctx context.Context, pool, instance string) error {
	p.settled() // notices an interruption early
	b := Heartbeat{Form: format.Entry.Current(), Pool: pool, Instance: instance}
	if p.PullsOverflow != nil {
		b.Overflow = p.PullsOverflow()
	}
	if p.Definitions != nil {
		b.Definitions = p.Definitions().Bounded()
	}
	body, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	_, err = p.js.PublishMsg(ctx, &nats.Msg{
		Subject: subjects.PoolSubject(pool, instance),
		Data:    body,
		Header:  nats.Header{jetstream.MsgTTLHeader: {strconv.Itoa(int(p.ttl / time.Second))}},
	})
	if err != nil {
		p.interrupted()
		return fmt.Errorf("heartbeat: %w", err)
	}
	return nil
}

// interrupted notes that nobody may have been able to beat: where the servers that are left are too few to
// store anything, no connection is interrupted.
func (p *Store) interrupted() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Now()
	clear(p.seen)
}

// freshVerdict is how long an answer about an instance is used again.
const freshVerdict = 250 * time.Millisecond

// Expired reports whether the instance (as subjects.Instance names it) has stopped beating. When the
// bucket cannot be read it says no: a live claim must not be taken over.
func (p *Store) Expired(ctx context.Context, instance string) bool {
	if !p.settled() {
		return false
	}
	p.mu.Lock()
	v, ok := p.seen[instance]
	p.mu.Unlock()
	if ok && time.Since(v.at) < freshVerdict {
		return v.gone
	}
	beat, ok := p.look(ctx, instance)
	if !ok || !p.settled() { // it may be the answer of a server that has just come back
		return false
	}
	return p.judge(instance, beat)
}

// judge says whether an instance with this newest beat is gone. One that the server has kept for longer than it lives,
// while others could beat, is not that of an instance which does. Going by this host's clock, nobody is
// taken for dead because the clock of a server was set, or another one leads.
func (p *Store) judge(instance string, beat uint64) bool {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.seen[instance]
	if v.beat != beat || v.seen.IsZero() {
		v.beat, v.seen = beat, now
	}
	v.at, v.gone = now, beat == 0 || now.Sub(v.seen) > p.ttl
	if len(p.seen) > 10_000 {
		clear(p.seen)
	}
	p.seen[instance] = v
	return v.gone
}

// look returns the sequence of the newest beat of an instance, 0 when there is none; not ok when that cannot be told.
func (p *Store) look(ctx context.Context, instance string) (beat uint64, ok bool) {
	pool, name, ok := strings.Cut(instance, "/")
	if !ok {
		return 0, true // not a name of ours: nobody beats under it
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	beat, err := p.beat(ctx, pool, name)
	return beat, err == nil
}

// Newest returns the sequence of the newest heartbeat of an executor of a pool, 0 when there is none.
func (p *Store) Newest(ctx context.Context, pool, name string) (beat uint64, err error) {
	msg, err := p.stream.GetLastMsgForSubject(ctx, subjects.PoolSubject(pool, name))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("heartbeat: %w", err)
	}
	return msg.Sequence, nil
}
