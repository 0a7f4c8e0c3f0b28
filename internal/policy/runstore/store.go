package runstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Times for which the server keeps records. Other records stay.
const (
	// implicitLife is how long an active implicit run is kept. Its next call starts it again.
	implicitLife = 24 * time.Hour
	// stoppedLife is how long an implicit run is kept that was paused or closed. It is longer than a token can be renewed,
	// so that the calls of the token stay stopped.
	stoppedLife = 91 * 24 * time.Hour
	// closedLife is how long any other closed run is kept. Later, its calls are denied as those of an unknown run.
	closedLife = 72 * time.Hour
)

// readTime is the time limit for finding a run, tryTime that of one try, and tryPause the first pause after a failed
// one.
const (
	readTime = time.Second
	tryTime  = 400 * time.Millisecond
	tryPause = 10 * time.Millisecond
)

// Errors of changes.
var (
	ErrExists = errors.New("the run exists already")
	ErrNone   = errors.New("the run does not exist")
)

// Store reads and writes the records of runs. Make one with [Open]. Its methods are safe for concurrent use, and
// several processes may use the same bucket.
type Store struct {
	js     jetstream.JetStream
	bucket jetstream.Stream
	cache  cache
}

// Open returns a Store.
func Open(ctx context.Context, js jetstream.JetStream) (*Store, error) {
	bucket, err := js.Stream(ctx, subjects.RunsStream)
	if err != nil {
		return nil, fmt.Errorf("bucket of the runs: %w", err)
	}
	return &Store{js: js, bucket: bucket, cache: newCache()}, nil
}

// name names a run.
type name struct{ tenant, id string }

func (n name) subject() string { return subjects.Run(n.tenant, n.id) }

// version is a record as it was at a time.
type version struct {
	run   *envelope.Run // nil if the run is missing
	facts *policy.Run   // of run
	seq   uint64        // of the last message of the subject
	at    time.Time     // when the question was sent whose answer it is
}

// read asks the leader of the bucket for a run.
func (s *Store) read(ctx context.Context, n name) (v version, err error) {
	v.at = time.Now()
	msg, err := s.bucket.GetLastMsgForSubject(ctx, n.subject())
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return v, nil
	case err != nil:
		return v, err
	}
	if v.seq = msg.Sequence; len(msg.Data) == 0 { // somebody has deleted it by hand
		return v, nil
	}
	run, err := decode(msg.Data)
	if err != nil {
		return v, fmt.Errorf("record of the run %.100q: %w", n.id, err)
	}
	v.run, v.facts = run, facts(run)
	return v, nil
}

func decode(data []byte) (*envelope.Run, error) {
	r := &envelope.Run{}
	return r, format.Unmarshal(format.Entry, data, r)
}

// facts returns what a decision needs of a run.
func facts(r *envelope.Run) *policy.Run {
	return &policy.Run{
		Tenant: r.Tenant, Actors: r.Actors, Role: r.Role, Lanes: r.Lanes, State: policy.RunState(r.State), Pinned: r.Policies,
	}
}

// Get returns the record of a run from the leader of the bucket. The error can be [ErrNone].
func (s *Store) Get(ctx context.Context, tenant, id string) (r envelope.Run, err error) {
	v, err := s.read(ctx, name{tenant, id})
	switch {
	case err != nil:
		return r, err
	case v.run == nil:
		return r, ErrNone
	}
	return *v.run, nil
}

// Create stores a new run. The error is [ErrExists] if there is a run with its id.
func (s *Store) Create(ctx context.Context, r envelope.Run) error {
	_, err := s.edit(ctx, name{r.Tenant, r.ID}, func(before *envelope.Run) (envelope.Run, error) {
		if before != nil {
			return r, ErrExists
		}
		return r, nil
	})
	return err
}

// Change replaces a run by what edit returns, and returns that. It calls edit again if another process has changed the
// run meanwhile. An error of edit ends it. The error is [ErrNone] if there is no such run.
func (s *Store) Change(
	ctx context.Context, tenant, id string, edit func(envelope.Run) (envelope.Run, error),
) (envelope.Run, error) {
	return s.edit(ctx, name{tenant, id}, func(before *envelope.Run) (envelope.Run, error) {
		if before == nil {
			return envelope.Run{}, ErrNone
		}
		return edit(*before)
	})
}

// edit stores what change returns for the stored run, or for nil.
func (s *Store) edit(
	ctx context.Context, n name, change func(*envelope.Run) (envelope.Run, error),
) (after envelope.Run, err error) {
	err = timer.Backoff{Pause: tryPause, MaxPause: tryTime}.Until(ctx, func(ctx context.Context) (bool, error) {
		before, err := s.read(ctx, n)
		if err != nil {
			return true, err
		}
		if after, err = change(before.run); err != nil {
			return true, err
		}
		err = s.write(ctx, n, after, before.seq)
		return !bus.HasErrorCode(err, bus.CodeWrongLast, bus.CodeUnderWay), err
	})
	return after, err
}

// write stores a run if the last message of its subject is seq. It keeps the run in the cache, so that this process
// decides by it at once.
func (s *Store) write(ctx context.Context, n name, r envelope.Run, seq uint64) error {
	data, err := format.Marshal(format.Entry, r)
	if err != nil {
		return err
	}
	msg := &nats.Msg{Subject: n.subject(), Data: data, Header: nats.Header{}}
	if life := life(r); life > 0 {
		msg.Header.Set(jetstream.MsgTTLHeader, strconv.Itoa(int(life/time.Second)))
	}
	v := version{run: &r, facts: facts(&r), at: time.Now()}
	ack, err := s.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(seq))
	if err != nil {
		s.cache.drop(n) // it may be stored
		return err
	}
	v.seq = ack.Sequence
	s.cache.put(n, v)
	return nil
}

// life returns how long the server keeps a run; 0 is for good.
func life(r envelope.Run) time.Duration {
	active := r.State == string(policy.RunActive)
	switch {
	case r.Implicit && active:
		return implicitLife
	case r.Implicit:
		return stoppedLife
	case r.State == string(policy.RunClosed):
		return closedLife
	}
	return 0
}
