package runstore

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/policy/replica"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Times for which the server keeps records. Other records stay.
const (
	// implicitLife is how long an active implicit run is kept. Its next call starts it again.
	implicitLife = 24 * time.Hour
	// stoppedLife is how long an implicit run is kept that was paused or closed. It is longer than a token can be
	// renewed, so that the calls of the token stay stopped.
	stoppedLife = 91 * 24 * time.Hour
	// closedLife is how long any other closed run is kept. Later, its calls are denied as those of an unknown run.
	closedLife = 72 * time.Hour
)

// readTime is the time limit for finding a run. tryPause is the pause after a failed question.
const (
	readTime = 3 * time.Second
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
	Now     func() time.Time  // bus time; Open sets time.Now
	Revoked *auth.Revocations // with them runs of agents end; nil without tokens

	js    jetstream.JetStream
	runs  *replica.Replica[record]
	cache cache
}

// record is the content of the entry of a run.
type record struct {
	envelope.Run
	Request string `json:"request,omitzero"` // id of the last request
	Changed bool   `json:"changed,omitzero"` // it has changed the run
	// Starter is set if an agent has started the run. Builds before it leave it out, also of a run that they change.
	Starter *starter `json:"starter,omitzero"`
}

// run returns the run, or nil for a missing record.
func (r *record) run() *envelope.Run {
	if r == nil {
		return nil
	}
	return &r.Run
}

// request returns the id of the last request; "" without one.
func (r *record) request() string {
	if r == nil {
		return ""
	}
	return r.Request
}

// ends reports whether a run that is not implicit is closed. An implicit run needs its record to stay closed.
func (r *record) ends() bool { return r.State == string(policy.RunClosed) && !r.Implicit }

// Open returns a Store.
func Open(ctx context.Context, js jetstream.JetStream) (*Store, error) {
	s := &Store{Now: time.Now, js: js, cache: cache{known: map[name]version{}}}
	runs, err := replica.Open(ctx, js, subjects.RunsStream, "record of a run", s.life, nil)
	if err != nil {
		return nil, err
	}
	s.runs = runs
	return s, nil
}

// name names a run.
type name struct{ tenant, id string }

func (n name) subject() string { return subjects.Run(n.tenant, n.id) }

// version is a record as it was at a time.
type version struct {
	replica.Entry[record]
	facts *policy.Run // of the run; nil if it is missing
}

// versionOf returns the version with what a decision needs of the run.
func versionOf(e replica.Entry[record]) version {
	r := e.Value
	if r == nil {
		return version{e, nil}
	}
	return version{e, &policy.Run{
		Tenant: r.Tenant, Actors: r.Actors, Role: r.Role, Lanes: r.Lanes, State: policy.RunState(r.State), Pinned: r.Policies,
	}}
}

// Get returns the record of a run from the leader of the bucket, and its revision. The error can be [ErrNone].
func (s *Store) Get(ctx context.Context, tenant, id string) (r envelope.Run, revision uint64, err error) {
	e, err := s.runs.Read(ctx, subjects.Run(tenant, id))
	switch {
	case err != nil:
		return r, 0, err
	case e.Value == nil:
		return r, 0, ErrNone
	}
	return s.now(e.Value).Run, e.Revision, nil
}

// Create stores a new run. The error is [ErrExists] if there is a run with its id.
func (s *Store) Create(ctx context.Context, r envelope.Run) error {
	_, err := s.edit(ctx, name{r.Tenant, r.ID}, func(before replica.Entry[record]) (record, error) {
		if before.Value != nil {
			return record{}, ErrExists
		}
		return record{Run: r}, nil
	}, nil)
	return err
}

// Change replaces a run by what change returns, and returns that. It calls change again if another process has changed
// the run meanwhile. An error of change ends it. The error is [ErrNone] if there is no such run.
func (s *Store) Change(
	ctx context.Context, tenant, id string, change func(envelope.Run) (envelope.Run, error),
) (envelope.Run, error) {
	after, err := s.edit(ctx, name{tenant, id}, func(before replica.Entry[record]) (now record, err error) {
		if before.Value == nil {
			return now, ErrNone
		}
		now.Run, err = change(before.Value.Run)
		return now, err
	}, nil)
	if err != nil {
		return envelope.Run{}, err
	}
	return after.Value.Run, nil
}

// edit is [replica.Replica.Change] for a run. It keeps the run in the cache, so that this process decides by it at
// once.
func (s *Store) edit(
	ctx context.Context, n name, change func(replica.Entry[record]) (record, error),
	note func(before *record, after record) error,
) (replica.Entry[record], error) {
	e, _, err := s.runs.Change(ctx, n.subject(), change, note)
	if err != nil {
		s.cache.drop(n) // the change may be stored
		return e, err
	}
	s.cache.put(n, versionOf(e))
	return e, nil
}

// life returns how long the server keeps a run; 0 is until it is replaced.
func (s *Store) life(r record) time.Duration {
	active := r.State == string(policy.RunActive)
	switch {
	case !r.Expires.IsZero():
		return max(time.Second, r.Expires.Sub(s.Now()))
	case r.Implicit && active:
		return implicitLife
	case r.Implicit:
		return stoppedLife
	case r.State == string(policy.RunClosed):
		return closedLife
	}
	return 0
}
