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
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Store writes and reads the heartbeats of executors. An executor counts as running until its newest heartbeat expires.
// Heartbeats that the server should have removed do not count either: after a crash, a server may restore replaced
// heartbeats and keep them. Its methods are safe for concurrent use.
type Store struct {
	// Pulls returns the fields Overflow and Steps of each heartbeat that Beat sends. Nil means [PullsMainOnly].
	Pulls func() (overflow, steps OverflowSupport)
	// Definitions returns the field Definitions of each heartbeat that Beat sends. Nil means none.
	Definitions func() Definitions
	// Builds returns the field Builds of each heartbeat that Beat sends, which is bounded. Nil means nil.
	Builds func() Builds
	// Missing returns the field Missing of each heartbeat that Beat sends, of which it sends the first [MaxMissing]. Nil
	// means none.
	Missing func() []MissingBuild
	// Unrunnable returns the field Unrunnable of each heartbeat that Beat sends, which is bounded. Nil means none.
	Unrunnable func() []UnrunnableTool
	// RunsReach is the field RunsReach of each heartbeat that Beat sends.
	RunsReach supervisor.Reach
	// Load returns the field Load of each heartbeat that Beat sends. Nil means the zero value.
	Load func() Load

	js     jetstream.JetStream
	stream jetstream.Stream                                             // nil without permission to read it
	beat   func(ctx context.Context, pool, name string) (uint64, error) // see NewRemoteStore
	ttl    time.Duration

	mu         sync.Mutex
	seen       map[string]verdict
	since      time.Time // no interruption of the connection and no failed heartbeat since then
	reconnects uint64    // of the connection, as of since
}

type verdict struct {
	gone bool
	at   time.Time
	beat uint64    // sequence of the newest heartbeat; 0: none
	seen time.Time // when this process first read that heartbeat
}

// OpenStore returns a Store of the bucket "pools". Heartbeats that it sends expire after lease, rounded to seconds, at
// least 1 s.
func OpenStore(ctx context.Context, js jetstream.JetStream, lease time.Duration) (*Store, error) {
	stream, err := js.Stream(ctx, subjects.PoolsStream)
	if err != nil {
		return nil, fmt.Errorf("pools: %w", err)
	}
	p := NewRemoteStore(js, lease, nil)
	p.stream, p.beat = stream, p.Newest
	return p, nil
}

// NewRemoteStore is [OpenStore] for a process that has only the permission to write its own heartbeats. beat returns
// the sequence of the newest heartbeat of an executor, as [Store.Newest] does. Only Beat and Expired of the Store may
// be called.
func NewRemoteStore(js jetstream.JetStream, lease time.Duration,
	beat func(ctx context.Context, pool, name string) (uint64, error)) *Store {
	return &Store{
		js: js, beat: beat, ttl: max(time.Second, lease.Round(time.Second)), seen: map[string]verdict{},
		since: time.Now(), reconnects: js.Conn().Stats().Reconnects,
	}
}

// settled reports whether all running executors have had the time to send a heartbeat since the last interruption.
// During an interruption, heartbeats may expire although their executors run. It reads the counter of reconnects,
// because the callbacks of the connection come too late.
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

// uninterruptedSince returns when the last interruption ended, as settled has noticed it, or when p was made.
func (p *Store) uninterruptedSince() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.since
}

// Beat writes a heartbeat of an executor, instance, of a pool.
func (p *Store) Beat(ctx context.Context, pool, instance string) error {
	p.settled() // detects an interruption early
	b := Heartbeat{Form: format.Entry.Current(), Pool: pool, Instance: instance, RunsReach: p.RunsReach}
	if p.Pulls != nil {
		b.Overflow, b.Steps = p.Pulls()
	}
	if p.Definitions != nil {
		b.Definitions = p.Definitions().Bounded()
	}
	if p.Builds != nil {
		b.Builds, b.MoreBuilds = p.Builds().bounded()
	}
	if p.Missing != nil {
		missing := p.Missing()
		b.Missing = missing[:min(len(missing), MaxMissing)]
	}
	if p.Unrunnable != nil {
		b.Unrunnable = bound(p.Unrunnable())
	}
	if p.Load != nil {
		b.Load = p.Load()
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

// interrupted records that heartbeats may not have been stored: when the cluster has lost its quorum, it stores
// nothing, although connections stay open.
func (p *Store) interrupted() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Now()
	clear(p.seen)
}

// freshVerdict is how long a result of Expired is reused.
const freshVerdict = 250 * time.Millisecond

// Expired reports whether the newest heartbeat of an instance, named as by [subjects.Instance], has expired. It returns
// false if the bucket cannot be read, or shortly after an interruption: the claim of a running executor must not be
// taken over.
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

// judge reports whether an instance with this newest heartbeat has stopped: there is none, or this process has known
// the same one for longer than its lifetime. It measures with the clock of this host, so a change of the server's clock
// or of the leader makes no instance count as stopped.
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

// look returns the sequence of the newest heartbeat of an instance, 0 if there is none. ok is false if it cannot be
// read.
func (p *Store) look(ctx context.Context, instance string) (beat uint64, ok bool) {
	pool, name, ok := strings.Cut(instance, "/")
	if !ok {
		return 0, true // not a valid instance name, so there is no heartbeat
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	beat, err := p.beat(ctx, pool, name)
	return beat, err == nil
}

// Newest returns the sequence of the newest heartbeat of an executor of a pool. It returns 0 if there is none.
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
