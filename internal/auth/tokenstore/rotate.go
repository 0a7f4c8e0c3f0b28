package tokenstore

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Rotate creates a new signing key, which is used after settle. The previous keys stay valid for [auth.MaxLife], the
// longest lifetime of a token. Tokens that they signed can then still be renewed, up to [MaxRenewal]. With distrust,
// which is for a key that was leaked, Rotate deletes the previous keys at once, so every credential must be issued
// again. If a new key is not in use yet, Rotate without distrust creates none and returns that one. A copy of a request
// creates no other key.
func (s *Store) Rotate(ctx context.Context, distrust bool) (r envelope.RotateResponse, err error) {
	return s.rotateAfter(ctx, distrust, func(string) error { return nil })
}

// rotateAfter is Rotate that calls record with the id of the new key before it changes anything, and changes nothing if
// record fails. It may call record again for the same key.
func (s *Store) rotateAfter(
	ctx context.Context, distrust bool, record func(keyID string) error,
) (r envelope.RotateResponse, err error) {
	private := ed25519.NewKeyFromSeed(s.word(ctx, "key"))
	err = tries().Until(ctx, func(ctx context.Context) (bool, error) {
		r, err = s.rotate(ctx, private, distrust, record)
		return !bus.HasErrorCode(err, bus.CodeWrongLast, bus.CodeUnderWay), err // or a copy of the request stored the key
	})
	return r, err
}

func (s *Store) rotate(
	ctx context.Context, private ed25519.PrivateKey, distrust bool, record func(keyID string) error,
) (r envelope.RotateResponse, err error) {
	if err := s.Prove(ctx); err != nil {
		return r, err
	}
	now, former := s.Now(), s.snapshot()
	for kid, k := range former {
		if k.Since.After(now) && !distrust {
			r = envelope.RotateResponse{KeyID: kid, Since: k.Since, Until: k.Since.Add(auth.MaxLife + slack)}
			return r, record(kid)
		}
	}
	since := now
	if !distrust {
		since = now.Add(settle)
	}
	kid, key, err := s.seal(private, since)
	if err != nil {
		return r, err
	}
	if err := record(kid); err != nil {
		return r, err
	}
	if stored, copied := former[kid]; copied {
		key = stored
		maps.DeleteFunc(former, func(_ string, k signingKey) bool { return !k.Since.Before(key.Since) })
	} else {
		err = s.put(ctx, subjects.SigningKey(kid), key, 0, true)
	}
	if err != nil {
		return r, fmt.Errorf("new key: %w", err)
	}
	r = envelope.RotateResponse{KeyID: kid, Since: key.Since, Until: key.Since}
	if !distrust {
		r.Until = r.Since.Add(auth.MaxLife + slack)
	}
	return r, s.retire(ctx, former, r.Until, distrust)
}

// retire ends the use of keys, after the new one is stored: at once, or to verify from until on.
func (s *Store) retire(ctx context.Context, keys map[string]signingKey, until time.Time, distrust bool) (err error) {
	for kid, k := range keys {
		switch {
		case distrust:
			err = errors.Join(err, s.forget(ctx, subjects.SigningKey(kid)))
		case k.Until.IsZero():
			k.Until = until
			err = errors.Join(err, s.put(ctx, subjects.SigningKey(kid), k, until.Sub(s.Now())+MaxRenewal+slack, false))
		}
	}
	return err
}

// oldestKey returns the second in which the oldest key was made. No key that is trusted has signed the first token of a
// credential that was issued before. It is zero if no key is known.
func (s *Store) oldestKey() (since time.Time) {
	for _, k := range s.snapshot() {
		if since.IsZero() || k.Since.Before(since) {
			since = k.Since
		}
	}
	return since.Truncate(time.Second) // as the times of issue
}

// relist lists an issued family as issued now. The operator who distrusts all keys keeps the family.
func (s *Store) relist(ctx context.Context, family string) error {
	c, ok, err := s.listed(ctx, family)
	if !ok || err != nil {
		return err
	}
	c.Issued = s.Now().UTC()
	msg, err := message(subjects.Issued(family), c, c.Until.Sub(c.Issued)+slack)
	if err != nil {
		return err
	}
	_, err = s.js.PublishMsg(ctx, msg)
	return err
}

func (s *Store) snapshot() map[string]signingKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.known)
}
