package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"sync"
	"time"
)

// Revocations holds the revoked credentials and actors. Until the first [Revocations.Replace], all tokens are refused
// with [ErrNotReady]. It is safe for concurrent use.
type Revocations struct {
	// Lease is how long after [Revocations.MarkFresh] the revocations count as complete; 0 is forever. When the lease has
	// ended, tokens that are not revoked are refused with [ErrNotReady]. Set it before the first use.
	Lease time.Duration

	mu            sync.RWMutex
	known         bool
	families      map[string]bool
	revokedActors map[[2]string]time.Time
	proven        time.Time
	again         chan struct{} // closed by the next MarkFresh
}

// MarkFresh states that the revocations were complete at the given time, and renews the lease from then. A process that
// was suspended, or that receives no updates, so stops accepting tokens when the lease ends.
func (r *Revocations) MarkFresh(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.proven = at
	if r.again != nil {
		close(r.again)
	}
	r.again = make(chan struct{})
}

// MarkStale ends the lease: the revocations count as incomplete until the next MarkFresh.
func (r *Revocations) MarkStale() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.proven = time.Time{}
}

// unsure reports whether the revocations may be incomplete.
func (r *Revocations) unsure() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return !r.known || r.lapsed()
}

// lapsed reports whether the lease has ended by the monotonic clock or by the wall clock. The monotonic clock may stop
// while a machine sleeps.
func (r *Revocations) lapsed() bool {
	now := time.Now()
	return r.Lease > 0 && max(now.Sub(r.proven), now.Round(0).Sub(r.proven.Round(0))) > r.Lease
}

// moment is how long a verification waits for the next MarkFresh. Usually a lease ended because the process was
// delayed, and MarkFresh follows at once.
const moment = 300 * time.Millisecond

// await waits for the next MarkFresh, up to moment, if the lease has ended.
func (r *Revocations) await() {
	r.mu.RLock()
	lapsed, again := r.known && r.lapsed(), r.again
	r.mu.RUnlock()
	if !lapsed {
		return
	}
	late := time.NewTimer(moment)
	defer late.Stop()
	select {
	case <-again:
	case <-late.C:
	}
}

// Replace replaces all revocations: families whose value is true, and actors by tenant and name, whose tokens that were
// issued at or before the time are revoked. It keeps both maps, so the caller must not change them afterwards. It
// reports whether they differ from the previous ones.
func (r *Revocations) Replace(families map[string]bool, barred map[[2]string]time.Time) (changed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed = !maps.Equal(r.families, families) || !maps.Equal(r.revokedActors, barred)
	r.known, r.families, r.revokedActors = true, families, barred
	return changed
}

// Family reports whether a family of tokens is revoked.
func (r *Revocations) Family(family string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.families[family]
}

// ActorRevokedAt returns the latest time at which all tokens of the actor, or of an actor that it is a sub-actor of,
// were revoked. It is zero if there was none.
func (r *Revocations) ActorRevokedAt(tenant, actor string) (at time.Time) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.actorRevokedAt(tenant, actor)
}

// actorRevokedAt is [Revocations.ActorRevokedAt]. The caller holds r.mu.
func (r *Revocations) actorRevokedAt(tenant, actor string) (at time.Time) {
	if len(r.revokedActors) == 0 {
		return at
	}
	at = r.revokedActors[[2]string{tenant, actor}]
	for i := range len(actor) {
		if of := actor[:i]; IsSub(actor, of) {
			at = latest(at, r.revokedActors[[2]string{tenant, of}])
		}
	}
	return at
}

// ActorsRevokedSince returns the actors whose tokens were all revoked after the given time, by tenant and name, with
// the time of the revocation.
func (r *Revocations) ActorsRevokedSince(since time.Time) map[[2]string]time.Time {
	r.mu.RLock()
	defer r.mu.RUnlock()
	late := map[[2]string]time.Time{}
	for of, at := range r.revokedActors {
		if at.After(since) {
			late[of] = at
		}
	}
	return late
}

// Revoked reports whether the family of p, or one that it was narrowed from, is revoked, or whether all tokens of its
// actor, or of an actor that this is a sub-actor of, were revoked when or after p was issued.
func (r *Revocations) Revoked(p *Principal) bool { return errors.Is(r.check(p), ErrRevoked) }

// check returns [ErrRevoked], [ErrNotReady] or nil.
func (r *Revocations) check(p *Principal) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !r.known {
		return ErrNotReady
	}
	bad := r.families[p.Family]
	for _, f := range p.Chain {
		bad = bad || r.families[f]
	}
	if at := r.actorRevokedAt(p.Tenant, p.Actor); bad || !at.IsZero() && !p.Issued.After(at) {
		return ErrRevoked
	}
	if r.lapsed() {
		return ErrNotReady
	}
	return nil
}

// maxCached is the size of each of the two generations of the cache. The cache holds at most twice as many tokens.
const maxCached = 4096

// Verifier verifies tokens and returns their principals. It caches verified tokens by their hash. It is safe for
// concurrent use.
type Verifier struct {
	Keys    *Keyring     // complete while Revoked counts as complete
	Revoked *Revocations // the revoked credentials and actors

	mu         sync.RWMutex
	young, old map[[sha256.Size]byte]*Principal
}

// Verify returns the principal of a token. Together with [ErrExpired] it returns the principal, too, unless the token
// is revoked: then it returns only [ErrRevoked]. It may wait up to 300 ms if the lease of Revoked has ended. It returns
// [ErrNotReady] if it cannot know whether the token is accepted. The caller must not change the principal.
func (c *Verifier) Verify(token string, now time.Time) (*Principal, error) {
	if len(token) > MaxToken {
		return nil, ErrMalformed
	}
	hash := sha256.Sum256([]byte(token))
	p, err := c.cached(hash, now)
	if p == nil {
		verified, invalid := c.verify(token, now)
		if invalid != nil && !errors.Is(invalid, ErrExpired) {
			return nil, invalid
		}
		if p, err = &verified, invalid; err == nil {
			c.remember(hash, p)
		}
	}
	c.Revoked.await()
	if revoked := c.Revoked.check(p); revoked != nil {
		return nil, revoked
	}
	if errors.Is(err, ErrNotYet) {
		return nil, err
	}
	return p, err
}

// verify is [Keyring.Verify], but returns [ErrNotReady] for an unknown key if this process may not have received the
// key yet.
func (c *Verifier) verify(token string, now time.Time) (Principal, error) {
	p, err := c.Keys.Verify(token, now)
	if !errors.Is(err, ErrUnknownKey) {
		return p, err
	}
	c.Revoked.await()
	sure := !c.Revoked.unsure() // before the second look-up: otherwise the key could arrive between the two
	if p, err = c.Keys.Verify(token, now); errors.Is(err, ErrUnknownKey) && !sure {
		err = ErrNotReady
	}
	return p, err
}

// cached returns the principal of a cached token if its key is still in the keyring, and what timely returns for it
// now.
func (c *Verifier) cached(hash [sha256.Size]byte, now time.Time) (*Principal, error) {
	c.mu.RLock()
	p := c.young[hash]
	if p == nil {
		p = c.old[hash]
	}
	c.mu.RUnlock()
	if p == nil {
		return nil, nil
	}
	key, known := c.Keys.key(p.KeyID)
	if !known {
		return nil, nil
	}
	return p, p.timely(now, key)
}

func (c *Verifier) remember(hash [sha256.Size]byte, p *Principal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.young == nil || len(c.young) >= maxCached {
		c.young, c.old = map[[sha256.Size]byte]*Principal{}, c.young
	}
	c.young[hash] = p
}

// principalKey is the context key of the principal.
type principalKey struct{}

// NewContext returns a copy of ctx that carries the principal of a request.
func NewContext(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// FromContext returns the principal that [NewContext] stored, or nil.
func FromContext(ctx context.Context) *Principal {
	p, _ := ctx.Value(principalKey{}).(*Principal)
	return p
}
