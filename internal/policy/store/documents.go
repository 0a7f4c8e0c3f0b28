package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

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
	return s.remove(ctx, func(digest string) bool { return slices.Contains(damaged, digest) })
}

// RemoveUnused removes the documents that no entry of the history names, such as those of pushes that were refused.
// It keeps only the parsed set of the entry in force.
func (s *Store) RemoveUnused(ctx context.Context) error {
	history, err := s.history(ctx)
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for i, e := range history {
		if i == 0 {
			used[e.Value.Parsed] = true
		}
		for _, digest := range e.Value.Versions.All() {
			used[digest] = true
		}
	}
	return s.remove(ctx, func(digest string) bool { return !used[digest] })
}

// remove removes the parts of the documents whose digest is in doomed.
func (s *Store) remove(ctx context.Context, doomed func(digest string) bool) error {
	keys, err := s.bucket.ListKeys(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = keys.Stop() }() // it has ended, or ctx has
	for key := range keys.Keys() {
		if digest, ok := subjects.ParsePolicyPart(key); ok && doomed(digest) {
			if err := s.bucket.Purge(ctx, key); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}
