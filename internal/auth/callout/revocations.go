package callout

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokenstore"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// RevocationWatcher closes the connections of revoked tokens, and of tokens of distrusted keys, as soon as the store
// receives the revocation or the deletion of the key. It closes those of operators afterwards (see afterwards): the
// operator who distrusts the keys awaits a new token, and dispatchers refuse all else that these connections send. Each
// dispatcher has one; closing a connection twice does no harm. The user name of a connection contains only the family
// of its token, not the families that it was narrowed from. So if a family is revoked, a connection with a token
// narrowed from it is closed by the dispatcher that accepted it. If that dispatcher has stopped, the connection stays
// open until its token expires, and dispatchers refuse each of its messages.
type RevocationWatcher struct {
	store *tokenstore.Store
	kick  *Disconnector

	mu  sync.Mutex
	let map[string]auth.Principal // principals of accepted connections by family, until they expire
}

const (
	// afterwards is the delay of a second pass, for connections that were being accepted when the revocation arrived, and
	// for those of operators after a deletion. It is longer than a server waits for the answer to an auth callout request.
	// A pass that failed is also repeated after it.
	afterwards = 3 * time.Second
	// fresh is how long after the revocation of an actor the watcher closes all connections of that actor and its
	// sub-actors that another dispatcher accepted. Later, the token of such a connection may have been issued after the
	// revocation. For as long after the deletion of a key, it closes all connections that were opened before.
	fresh = 10 * time.Second
	// tidyTime is how often the principals of expired tokens are removed.
	tidyTime = time.Minute
)

// NewRevocationWatcher returns a watcher for the revocations of s. It must be the only reader of
// [tokenstore.Store.Changed]. nc is a connection to the account SYS.
func NewRevocationWatcher(s *tokenstore.Store, nc *nats.Conn) *RevocationWatcher {
	return &RevocationWatcher{store: s, kick: NewDisconnector(nc), let: map[string]auth.Principal{}}
}

// Note records the principal of an accepted connection. It is for [Options].Note.
func (e *RevocationWatcher) Note(p auth.Principal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.let[p.Family] = p
}

// Run closes the connections of revoked tokens until ctx ends.
func (e *RevocationWatcher) Run(ctx context.Context) {
	tidy := time.NewTicker(tidyTime)
	defer tidy.Stop()
	var again <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tidy.C:
			e.forget(e.store.Now())
			continue
		case <-e.store.Changed():
			again = time.After(afterwards)
		case <-again:
			again = nil
		}
		n, err := e.kick.Kick(ctx, e.invalid(e.store.Now(), again == nil))
		if n > 0 {
			e.store.Logger.Info("connections were closed, whose tokens are revoked or of a deleted key", "connections", n)
		}
		if err != nil && ctx.Err() == nil {
			e.store.Logger.Warn("connections with invalid tokens may be open: trying again", "err", err)
			again = time.After(afterwards)
		}
	}
}

func (e *RevocationWatcher) forget(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.let, func(_ string, p auth.Principal) bool { return p.Expires.Before(now) })
}

// invalid returns a function that reports whether a connection must be closed. It spares operators with tokens of
// distrusted keys unless late is true.
func (e *RevocationWatcher) invalid(now time.Time, late bool) func(auth.User, time.Time) bool {
	keys, all, since := e.store.Verifier().Keys, e.store.Verifier().Revoked, e.store.Distrusted()
	barred := all.ActorsRevokedSince(now.Add(-fresh))
	if now.Sub(since) > fresh {
		since = time.Time{}
	}
	return func(u auth.User, opened time.Time) bool {
		e.mu.Lock()
		p, known := e.let[u.Family]
		e.mu.Unlock()
		distrusted := opened.Before(since) || known && !keys.Has(p.KeyID)
		switch {
		case distrusted && (late || u.Role != auth.Operator):
			return true
		case known:
			return all.Revoked(&p)
		}
		return all.Family(u.Family) || covered(u, barred)
	}
}

// covered reports whether u is an actor of barred or one of its sub-actors.
func covered(u auth.User, barred map[[2]string]time.Time) bool {
	tenant, invalid := subjects.ParseToken(u.Tenant)
	actor, illegible := subjects.ParseToken(u.Actor)
	if invalid != nil || illegible != nil {
		return false // no token has such names, see auth.Principal.Check
	}
	for of := range barred {
		if of[0] == tenant && (of[1] == actor || auth.IsSub(actor, of[1])) {
			return true
		}
	}
	return false
}
