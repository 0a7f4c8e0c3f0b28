package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"sync"
	"time"
)

// Revocations are the tokens that are not to be believed any more. They have to be [Revocations.Replace]d once before
// any token is. It is safe for concurrent use.
type Revocations struct {
	// Lease is for how long it counts that they were proven to be all; 0 is for ever. What is not known to be all is
	// believed of no token. It is set before anything else is done.
	Lease time.Duration

	mu            sync.RWMutex
	known         bool
	families      map[string]bool
	revokedActors map[[2]string]time.Time
	proven        time.Time
	again         chan struct{} // closed by the next proof
}

// MarkFresh says that at a time these were all that there were: a process that was stopped, or that nobody tells
// anything, must not go on for longer than the lease with what it knew.
func (r *Revocations) MarkFresh(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.proven = at
	if r.again != nil {
		close(r.again)
	}
	r.again = make(chan struct{})
}

// MarkStale takes back what was proven: nothing of late is sure until the next proof.
func (r *Revocations) MarkStale() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.proven = time.Time{}
}

// unsure reports whether there may be more than is known here.
func (r *Revocations) unsure() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return !r.known || r.lapsed()
}

// lapsed reports whether the lease is over, by either clock: one of them stands still while a machine sleeps.
func (r *Revocations) lapsed() bool {
	now := time.Now()
	return r.Lease > 0 && max(now.Sub(r.proven), now.Round(0).Sub(r.proven.Round(0))) > r.Lease
}

// moment is how long a token waits for the next proof: most leases that are over are those of a process that was held
// up, and is told at once.
const moment = 300 * time.Millisecond

// await waits for the next proof, for a moment, where the last one does not count any more.
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

// Replace makes these all that there are: families, and actors by tenant and name, whose tokens from before a time are
// revoked. It reports whether they are others than before.
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

// ActorRevokedAt returns when an actor, or one that it is a sub-actor of, was barred last; zero if none was.
func (r *Revocations) ActorRevokedAt(tenant, actor string) (at time.Time) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.actorRevokedAt(tenant, actor)
}

// actorRevokedAt is [Revocations.ActorRevokedAt] under r.mu.
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

// ActorsRevokedSince returns the actors that were barred after a time, by tenant and name, and when.
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

// Revoked reports whether a token of p is revoked, or one that it was made from. It also reports true if the actor, or
// one that it is a sub-actor of, was barred after p was issued.
func (r *Revocations) Revoked(p *Principal) bool { return errors.Is(r.check(p), ErrRevoked) }

// check returns [ErrRevoked], [ErrNotReady], or nil.
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

// maxCached is how many tokens are remembered at the least, if there were so many, and twice as many at the most.
const maxCached = 4096

// Verifier makes an identity of a credential. It is safe for concurrent use, and remembers the tokens that it has
// verified by their hash.
type Verifier struct {
	Keys    *Keyring     // all of them, whenever these were proven to be all that were revoked
	Revoked *Revocations // what is not believed, although a key has signed it

	mu         sync.RWMutex
	young, old map[[sha256.Size]byte]*Principal
}

// Verify returns whose a token is. Beside [ErrExpired] it says whose it was, unless it was revoked since.
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

// verify is [Keyring.Verify], where a key that is unknown may be a new one, of which this process has not heard yet.
func (c *Verifier) verify(token string, now time.Time) (Principal, error) {
	p, err := c.Keys.Verify(token, now)
	if !errors.Is(err, ErrUnknownKey) {
		return p, err
	}
	c.Revoked.await()
	sure := !c.Revoked.unsure() // before it is looked for, or a key might come in between
	if p, err = c.Keys.Verify(token, now); errors.Is(err, ErrUnknownKey) && !sure {
		err = ErrNotReady
	}
	return p, err
}

// cached returns what is remembered of a token, if its key is still good.
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

// principalKey is the key of a principal in a context.
type principalKey struct{}

// NewContext returns ctx for what p asks for.
func NewContext(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// FromContext returns who asks for what ctx is for; nil where tokens are not asked for.
func FromContext(ctx context.Context) *Principal {
	p, _ := ctx.Value(principalKey{}).(*Principal)
	return p
}
