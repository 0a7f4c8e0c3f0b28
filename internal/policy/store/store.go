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
	"github.com/seed-018f16cc/toolbus/internal/policy/replica"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// loadTime is the time limit for reading and compiling a set of the largest size.
const loadTime = 30 * time.Second

// Store reads and writes the bucket "policy". Make one with [Open]. Its methods are safe for concurrent use, and
// several processes may use the same bucket.
type Store struct {
	bucket   jetstream.KeyValue // of the documents, and of the history of the entry
	versions *replica.Replica[entry]
	tools    atomic.Pointer[[]*tool.Manifest]
	log      *slog.Logger
	loading  sync.Mutex              // held by confirm, so that a set is loaded once; Current does not wait for it
	checked  atomic.Pointer[checked] // the last set that Check has accepted
	known    timer.Lease[loaded]
}

// checked is a set that this process has accepted for a push.
type checked struct {
	snapshot *policy.Snapshot
	parsed   string // see entry
}

// loaded is the result of reading the set of one entry.
type loaded struct {
	revision uint64 // of the entry; 0 on a bus without a policy
	snapshot *policy.Snapshot
	err      error // policy.ErrNone, or one that wraps policy.ErrUnusable
}

// Open returns the store of a process that has these tools. A nil log discards; copies may be nil. [Store.Run] must run
// before [Store.Current] returns a policy.
func Open(ctx context.Context, js jetstream.JetStream, tools []*tool.Manifest, copies *replica.Copies,
	log *slog.Logger) (*Store, error) {
	bucket, err := js.KeyValue(ctx, subjects.PolicyBucket)
	if err != nil {
		return nil, fmt.Errorf("bucket of the policy: %w", err)
	}
	versions, err := replica.Open[entry](ctx, js, subjects.PolicyStream, "version of the policy", nil, copies)
	if err != nil {
		return nil, err
	}
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	s := &Store{bucket: bucket, versions: versions, log: log}
	s.tools.Store(&tools)
	return s, nil
}

// Use lets the store check and compile policies for other tools from now on. The policy in force stays as it was
// compiled until [Store.Refit], or the next push.
func (s *Store) Use(tools []*tool.Manifest) {
	s.loading.Lock()
	defer s.loading.Unlock()
	s.tools.Store(&tools)
	s.checked.Store(nil) // it is of the tools before
}

// Refit compiles the policy in force for the tools of the store. If the policy does not fit them, Refit returns the
// problems, and the policy stays as it was compiled before.
func (s *Store) Refit(ctx context.Context) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	e, err := s.versions.Ask(ctx, subjects.PolicySubject)
	var next loaded
	if err == nil {
		next, err = s.load(ctx, e)
	}
	if err = cmp.Or(err, next.err); err != nil && !errors.Is(err, policy.ErrNone) {
		return err
	}
	s.known.Learn(next, e.At)
	return nil
}

// Current returns the policy in force. It returns [policy.ErrStale] if that is not known for the last second,
// [policy.ErrNone] if no policy was pushed yet, and an error that wraps [policy.ErrUnusable] if this process cannot use
// it.
func (s *Store) Current() (*policy.Snapshot, error) {
	l, _, ok := s.known.Known()
	if !ok {
		return nil, policy.ErrStale
	}
	return l.snapshot, l.err
}

// Revision returns the revision of the policy in force, which is 0 on a bus without one. ok is false if this process
// does not know it at present.
func (s *Store) Revision() (revision uint64, ok bool) {
	l, _, ok := s.known.Known()
	return l.revision, ok
}

// Run follows the entry until ctx ends.
func (s *Store) Run(ctx context.Context) { replica.Follow(ctx, s.Confirm) }

// Confirm returns nil as soon as [Store.Current] returns a policy that was in force after the call of Confirm. It
// returns an error when ctx ends.
func (s *Store) Confirm(ctx context.Context) error { return replica.Confirm(ctx, s.confirm) }

// confirm asks for the entry, and loads its set if it is another one, or was incomplete: a server that was behind may
// have answered. It asks again after that, because loading may have taken longer than the lease.
func (s *Store) confirm(ctx context.Context) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	for read := false; ; read = true {
		e, err := s.versions.Ask(ctx, subjects.PolicySubject)
		if err != nil {
			return err
		}
		have, at := s.known.Last()
		if !at.IsZero() && have.revision == version(e).Revision && (read || !errors.Is(have.err, ErrIncomplete)) {
			s.known.Learn(have, e.At)
			return nil
		}
		next, err := s.load(ctx, e)
		if err != nil {
			return err
		}
		s.known.Learn(next, e.At)
	}
}

// load reads and compiles the set of a version. If the set cannot be used, the error is in the result: it stays so
// until the next push.
func (s *Store) load(ctx context.Context, e replica.Entry[entry]) (l loaded, err error) {
	switch {
	case e.Unknown():
		return loaded{revision: e.Revision, err: fmt.Errorf("%w: the entry that names it cannot be read: push it again with "+
			"`toolbus policy push`", policy.ErrUnusable)}, nil
	case e.Value == nil:
		return loaded{revision: e.Revision, err: policy.ErrNone}, nil
	}
	l.snapshot, err = s.snapshot(ctx, *e.Value)
	if err != nil && !errors.Is(err, policy.ErrUnusable) {
		return l, err // the bucket did not answer: ask again
	}
	l.revision = e.Revision
	if err != nil {
		l.err = err
		if have, _ := s.known.Last(); have.revision != l.revision || have.err == nil {
			s.log.Error("the policy in force cannot be used", "revision", e.Revision, "err", err)
		}
		return l, nil
	}
	v := e.Value.Versions
	s.log.Info("policy in force", "revision", e.Revision, "roles", v.Roles, "lanes", v.Lanes,
		"tool_registry", v.ToolRegistry)
	return l, nil
}

// snapshot returns the set of an entry. That which this process has checked for a push is compiled already, so that
// applying it takes no time.
func (s *Store) snapshot(ctx context.Context, e entry) (*policy.Snapshot, error) {
	if c := s.checkedFor(e.Versions); c.snapshot != nil {
		return c.snapshot, nil
	}
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	set, err := s.read(ctx, e)
	if err != nil {
		return nil, err
	}
	snapshot, err := policy.Compile(set, *s.tools.Load())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", policy.ErrUnusable, err)
	}
	giveBack(set)
	return snapshot, nil
}

// checkedFor returns the set with these versions that this process has checked last, or nothing.
func (s *Store) checkedFor(v envelope.PolicyVersions) (c checked) {
	if last := s.checked.Load(); last != nil && last.snapshot.Versions() == v {
		return *last
	}
	return c
}

// read returns the set of an entry as another dispatcher has parsed it, because parsing a large set takes longer than
// calls may be stopped. If that is not stored, or not for this build, read parses the documents.
func (s *Store) read(ctx context.Context, e entry) (*policy.Set, error) {
	if e.Parsed != "" {
		raw, err := s.document(ctx, e.Parsed)
		if err == nil {
			if set, err := policy.ReadParsed(raw, e.Versions); err == nil {
				return set, nil
			}
		}
	}
	d, err := s.Documents(ctx, e.Versions)
	if err != nil && !errors.Is(err, ErrIncomplete) {
		return nil, err
	}
	var set *policy.Set
	if err == nil {
		if set, err = policy.ParseParts(d); err != nil {
			set, err = policy.Parse(d)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", policy.ErrUnusable, err)
	}
	return set, nil
}
