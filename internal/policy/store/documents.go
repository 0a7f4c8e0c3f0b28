package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// ErrIncomplete means that a document is not stored completely, or differs from its digest. It is wrapped.
var ErrIncomplete = errors.New("the document is not stored completely")

// PutPart stores part n, from 0, of the document with this digest. A part that is stored already stays.
func (s *Store) PutPart(ctx context.Context, digest string, n int, data []byte) error {
	_, err := s.bucket.Create(ctx, subjects.PolicyPart(digest, n), data)
	if errors.Is(err, jetstream.ErrKeyExists) {
		return nil
	}
	return err
}

// put stores a document.
func (s *Store) put(ctx context.Context, document []byte) error {
	digest, n := policy.Digest(document), 0
	for part := range slices.Chunk(document, envelope.PolicyPartBytes) {
		if err := s.PutPart(ctx, digest, n, part); err != nil {
			return err
		}
		n++
	}
	return nil
}

// Part returns part n of a document, or nil if it is not stored.
func (s *Store) Part(ctx context.Context, digest string, n int) ([]byte, error) {
	stored, err := s.bucket.Get(ctx, subjects.PolicyPart(digest, n))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return stored.Value(), nil
}

// Documents returns the documents with these digests. The error wraps [ErrIncomplete] if one of them is not stored.
func (s *Store) Documents(ctx context.Context, v envelope.PolicyVersions) (d policy.Documents, err error) {
	if d.Roles, err = s.document(ctx, v.Roles); err != nil {
		return d, err
	}
	if d.Lanes, err = s.document(ctx, v.Lanes); err != nil {
		return d, err
	}
	d.ToolRegistry, err = s.document(ctx, v.ToolRegistry)
	return d, err
}

// maxStored is the largest size of a stored document, in bytes: that of builds whose [policy.MaxSet] was larger.
const maxStored = 16 << 20

// document returns a document, and checks its digest.
func (s *Store) document(ctx context.Context, digest string) (data []byte, err error) {
	for n := 0; n <= maxStored/envelope.PolicyPartBytes; n++ {
		part, err := s.Part(ctx, digest, n)
		if err != nil {
			return nil, err
		}
		if data = append(data, part...); len(part) < envelope.PolicyPartBytes {
			break
		}
	}
	if policy.Digest(data) != digest {
		return nil, fmt.Errorf("document %.12s: %w", digest, ErrIncomplete)
	}
	return data, nil
}

// removeDamaged removes the parts of the documents that are incomplete.
func (s *Store) removeDamaged(ctx context.Context, v envelope.PolicyVersions) error {
	var damaged []string
	for _, digest := range v.All() {
		if _, err := s.document(ctx, digest); errors.Is(err, ErrIncomplete) {
			damaged = append(damaged, digest)
		}
	}
	return s.remove(ctx, func(digest string, _ uint64) bool { return slices.Contains(damaged, digest) })
}

// RemoveUnused removes the documents that no entry of the history names, such as those of pushes that were refused.
// It keeps only the parsed set of the entry in force. It keeps what is newer than that entry, too: a push may be about
// to put it in force, see [Store.hold].
func (s *Store) RemoveUnused(ctx context.Context) error {
	newest, err := s.Newest(ctx)
	if err != nil {
		return err
	}
	used, inForce, err := s.named(ctx, newest.Revision)
	if err != nil {
		return err
	}
	return s.remove(ctx, func(digest string, revision uint64) bool { return !used[digest] && revision < inForce })
}

// errBehind means that a server answered which does not have the newest version yet: any may answer for the history.
var errBehind = errors.New("the history of the policy comes from a server that is behind")

// named returns the digests of the documents that the history names, with the parsed set of its newest entry, and the
// revision of that entry. It returns errBehind if that is not at least the given one.
func (s *Store) named(ctx context.Context, revision uint64) (digests map[string]bool, newest uint64, err error) {
	history, err := s.history(ctx)
	if err != nil {
		return nil, 0, err
	}
	digests = map[string]bool{}
	for i, e := range history {
		if i == 0 {
			newest, digests[e.Value.Parsed] = e.Revision, true
		}
		for _, digest := range e.Value.Versions.All() {
			digests[digest] = true
		}
	}
	if newest < revision {
		return nil, 0, errBehind
	}
	return digests, newest, nil
}

// hold writes the parts of documents again that are older than the version with that revision, and that no version
// names. [Store.RemoveUnused] of another process would remove them, after they were checked for a push.
func (s *Store) hold(ctx context.Context, v envelope.PolicyVersions, revision uint64) error {
	used, _, err := s.named(ctx, revision)
	if err != nil && !errors.Is(err, errBehind) {
		return err
	}
	for _, digest := range v.All() {
		for n := 0; !used[digest]; n++ {
			part, err := s.bucket.Get(ctx, subjects.PolicyPart(digest, n))
			if errors.Is(err, jetstream.ErrKeyNotFound) && (n > 0 || digest == policy.Digest(nil)) {
				break
			}
			if err == nil && part.Revision() < revision {
				_, err = s.bucket.Update(ctx, part.Key(), part.Value(), part.Revision())
			}
			if errors.Is(err, jetstream.ErrKeyNotFound) || bus.HasErrorCode(err, bus.CodeWrongLast, bus.CodeUnderWay) {
				return fmt.Errorf("document %.12s: %w", digest, ErrIncomplete)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// remove removes the parts of documents for which doomed, with their digest and the revision of the part, is true. A
// part that was written again meanwhile stays.
func (s *Store) remove(ctx context.Context, doomed func(digest string, revision uint64) bool) error {
	parts, err := s.bucket.WatchAll(ctx, jetstream.MetaOnly(), jetstream.IgnoreDeletes())
	if err != nil {
		return err
	}
	defer func() { _ = parts.Stop() }() // it has ended, or ctx has
	for part := range parts.Updates() {
		if part == nil { // all were there
			return nil
		}
		if digest, ok := subjects.ParsePolicyPart(part.Key()); ok && doomed(digest, part.Revision()) {
			err := s.bucket.Purge(ctx, part.Key(), jetstream.LastRevision(part.Revision()))
			if err != nil && !bus.HasErrorCode(err, bus.CodeWrongLast, bus.CodeUnderWay) {
				return err
			}
		}
	}
	return ctx.Err()
}
