package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

const (
	// confirmEvery is the pause between questions for the entry, confirmTime the time limit of one, and confirmPause the
	// first pause after a failed one.
	confirmEvery = 200 * time.Millisecond
	confirmTime  = 400 * time.Millisecond
	confirmPause = 10 * time.Millisecond
	// lease is how long after a confirmation the policy may be used. With the time that a decision takes, it is below 1 s.
	lease = 900 * time.Millisecond
	// loadTime is the time limit for reading and compiling a set of the largest size.
	loadTime = 30 * time.Second
)

// Store reads and writes the bucket "policy". Make one with [Open]. Its methods are safe for concurrent use, and
// several processes may use the same bucket.
type Store struct {
	bucket jetstream.KeyValue
	tools  []*tool.Manifest
	log    *slog.Logger
	asking sync.Mutex // held by confirm, so that an older answer does not replace a newer one
	loaded atomic.Pointer[loaded]
	// confirmed is when a question was sent whose answer named the loaded entry; nil before the first answer.
	confirmed atomic.Pointer[time.Time]
}

// loaded is the result of reading the set of one entry.
type loaded struct {
	revision uint64 // of the entry; 0 on a bus without a policy
	snapshot *policy.Snapshot
	err      error // policy.ErrNone, or one that wraps policy.ErrUnusable
}

// Open returns the store of a process that has these tools. A nil log discards. [Store.Run] must run before
// [Store.Current] returns a policy.
func Open(ctx context.Context, js jetstream.JetStream, tools []*tool.Manifest, log *slog.Logger) (*Store, error) {
	bucket, err := js.KeyValue(ctx, subjects.PolicyBucket)
	if err != nil {
		return nil, fmt.Errorf("bucket of the policy: %w", err)
	}
	return &Store{bucket: bucket, tools: tools, log: cmp.Or(log, slog.New(slog.DiscardHandler))}, nil
}

// Current returns the policy in force. It returns [policy.ErrStale] if that is not known for the last second,
// [policy.ErrNone] if no policy was pushed yet, and an error that wraps [policy.ErrUnusable] if this process cannot use
// it.
func (s *Store) Current() (*policy.Snapshot, error) {
	at := s.confirmed.Load() // before loaded, which is stored first
	if at == nil || age(*at) > lease {
		return nil, policy.ErrStale
	}
	l := s.loaded.Load()
	return l.snapshot, l.err
}

// age returns the time since at, by the monotonic clock or by the wall clock. The monotonic clock may stop while a
// machine sleeps.
func age(at time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(at), now.Round(0).Sub(at.Round(0)))
}

// Run follows the entry until ctx ends.
func (s *Store) Run(ctx context.Context) {
	for s.Confirm(ctx) == nil && timer.Sleep(ctx, confirmEvery) {
	}
}

// Confirm returns nil as soon as [Store.Current] returns a policy that was in force after the call of Confirm. It
// returns an error when ctx ends.
func (s *Store) Confirm(ctx context.Context) error {
	tries := timer.Backoff{Pause: confirmPause, MaxPause: confirmEvery}
	return tries.Until(ctx, func(ctx context.Context) (bool, error) {
		s.asking.Lock()
		defer s.asking.Unlock()
		err := s.confirm(ctx)
		return err == nil, err
	})
}

// confirm asks for the entry, and loads its set if it is another one.
func (s *Store) confirm(ctx context.Context) error {
	at := time.Now()
	asking, cancel := context.WithTimeout(ctx, confirmTime)
	v, err := s.Newest(asking)
	cancel()
	if err != nil {
		return err
	}
	if have := s.loaded.Load(); have == nil || have.revision != v.Revision {
		next, err := s.load(ctx, v)
		if err != nil {
			return err
		}
		s.loaded.Store(next)
		return s.confirm(ctx) // loading may have taken longer than the lease
	}
	s.confirmed.Store(&at)
	return nil
}

// load reads and compiles the set of a version. If the set cannot be used, the error is in the result: it stays so
// until the next push.
func (s *Store) load(ctx context.Context, v envelope.PolicyVersion) (*loaded, error) {
	if v.Revision == 0 {
		return &loaded{err: policy.ErrNone}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	d, err := s.Documents(ctx, v.Versions)
	if err != nil && !errors.Is(err, ErrIncomplete) {
		return nil, err // the bucket did not answer: ask again
	}
	l := &loaded{revision: v.Revision}
	if err == nil {
		l.snapshot, err = s.compile(d)
	}
	if err != nil {
		l.err = fmt.Errorf("%w: %w", policy.ErrUnusable, err)
		s.log.Error("the policy in force cannot be used", "revision", v.Revision, "err", err)
		return l, nil
	}
	s.log.Info("policy in force", "revision", v.Revision, "roles", v.Versions.Roles, "lanes", v.Versions.Lanes,
		"tool_registry", v.Versions.ToolRegistry)
	return l, nil
}

func (s *Store) compile(d policy.Documents) (*policy.Snapshot, error) {
	set, err := policy.Parse(d)
	if err != nil {
		return nil, err
	}
	return policy.Compile(set, s.tools)
}
