package store

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/policy/replica"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Errors of a push.
var (
	ErrMoved   = errors.New("another policy was pushed meanwhile")
	ErrInvalid = errors.New("the policy is invalid") // wrapped
)

// entry is a version of the policy in the bucket. The server adds its revision and time.
type entry struct {
	Versions envelope.PolicyVersions `json:"versions"`
	By       string                  `json:"by"`
	Reason   string                  `json:"reason,omitzero"`
	Request  string                  `json:"request,omitzero"` // id of the request that pushed it
	Parsed   string                  `json:"parsed,omitzero"`  // SHA-256 of [policy.Set.Parsed], stored as a document
}

// Newest asks the leader of the bucket for the version in force. Its revision is 0 before the first push.
func (s *Store) Newest(ctx context.Context) (envelope.PolicyVersion, error) {
	e, err := s.versions.Read(ctx, subjects.PolicySubject)
	return version(e), err
}

func version(e replica.Entry[entry]) (v envelope.PolicyVersion) {
	if e.Value == nil { // deleted by hand, or unknown
		return envelope.PolicyVersion{Revision: e.Revision}
	}
	return envelope.PolicyVersion{
		Revision: e.Revision, At: e.Created, By: e.Value.By, Reason: e.Value.Reason, Versions: e.Value.Versions,
	}
}

// History returns the newest versions, at most 64, the one in force first.
func (s *Store) History(ctx context.Context) (all []envelope.PolicyVersion, err error) {
	history, err := s.history(ctx)
	for _, e := range history {
		all = append(all, version(e))
	}
	return all, err
}

func (s *Store) history(ctx context.Context) (all []replica.Entry[entry], err error) {
	stored, err := s.bucket.History(ctx, subjects.PolicyEntry)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	for _, one := range slices.Backward(stored) {
		e := replica.Entry[entry]{Value: &entry{}, Revision: one.Revision(), Created: one.Created()}
		if err := format.Unmarshal(format.Entry, one.Value(), e.Value); err != nil {
			return all, fmt.Errorf("version %d of the policy: %w", e.Revision, err)
		}
		all = append(all, e)
	}
	return all, err
}

// Check returns an error that wraps [ErrInvalid] and lists all problems of the set of q. If documents are missing or
// damaged, it removes what is stored of them, so that they can be stored again, and returns an error that wraps
// [ErrIncomplete]. Until another version than q.Expected is in force, no process removes what Check has accepted.
func (s *Store) Check(ctx context.Context, q envelope.PolicyPushRequest) error {
	d, err := s.Documents(ctx, q.Versions)
	if errors.Is(err, ErrIncomplete) {
		return errors.Join(err, s.removeDamaged(ctx, q.Versions))
	}
	if err != nil {
		return err
	}
	if err := s.fits(ctx, d); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return s.hold(ctx, q.Versions, q.Expected)
}

// fits checks a set before it is in force, and keeps it for load. For other dispatchers, it stores what was parsed.
func (s *Store) fits(ctx context.Context, d policy.Documents) error {
	set, snapshot, err := s.compile(d, policy.ParseParts)
	if err != nil { // Parse knows the places of the problems
		set, snapshot, err = s.compile(d, policy.Parse)
	}
	if err != nil {
		return s.allProblems(d, err)
	}
	s.checked.Store(&checked{snapshot, s.putParsed(ctx, set)})
	giveBack(set)
	return nil
}

// allProblems returns the problems of the documents and of their fit to the tools, of which err has those found first.
func (s *Store) allProblems(d policy.Documents, err error) error {
	all, failed := policy.Lint(d, *s.tools.Load())
	all = slices.DeleteFunc(all, func(p tool.Problem) bool { return p.Severity == tool.Warning })
	if failed != nil || len(all) == 0 {
		return err
	}
	return all
}

// compile returns the set of the documents as parse reads it, and compiled.
func (s *Store) compile(d policy.Documents, parse func(policy.Documents) (*policy.Set, error)) (
	set *policy.Set, snapshot *policy.Snapshot, err error,
) {
	if set, err = parse(d); err != nil {
		return nil, nil, err
	}
	tools := *s.tools.Load()
	if snapshot, err = policy.Compile(set, tools); err != nil {
		return nil, nil, err
	}
	return set, snapshot, policy.Sanitized(set, tools)
}

// manyEntries is the number of entries from which on a set is large.
const manyEntries = 500

// giveBack returns memory to the operating system that reading a large set has left as garbage. That is several times
// what the process has in use, and without calls it would keep it for long.
func giveBack(set *policy.Set) {
	if len(set.Entries) >= manyEntries {
		debug.FreeOSMemory()
	}
}

// putParsed stores a parsed set, and returns its digest. If it is not stored, the digest is "", and other dispatchers
// parse the documents.
func (s *Store) putParsed(ctx context.Context, set *policy.Set) string {
	raw, err := set.Parsed()
	if err == nil {
		err = s.put(ctx, raw)
	}
	if err != nil {
		s.log.Warn("the parsed policy could not be stored: each dispatcher parses it", "err", err)
		return ""
	}
	return policy.Digest(raw)
}

// Push puts a set of documents that [Store.Check] has accepted in force if the version in force has the revision
// expected, and returns the new revision. It returns [ErrMoved] if another version is in force. record is called
// before. If the request with this id has pushed the version in force, Push returns its revision; id may be "".
func (s *Store) Push(
	ctx context.Context, q envelope.PolicyPushRequest, by, id string, record func() error,
) (revision uint64, err error) {
	e, _, err := s.versions.Change(ctx, subjects.PolicySubject, func(before replica.Entry[entry]) (entry, error) {
		switch {
		case id != "" && before.Value != nil && before.Value.Request == id:
			return entry{}, replica.ErrUnchanged
		case before.Revision != q.Expected:
			return entry{}, fmt.Errorf("%w: revision %d was expected, and revision %d is in force", ErrMoved, q.Expected,
				before.Revision)
		}
		return entry{q.Versions, by, q.Reason, id, s.checkedFor(q.Versions).parsed}, nil
	}, func(*entry, entry) error { return record() })
	return e.Revision, err
}
