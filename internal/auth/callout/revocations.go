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

// RevocationWatcher closes the connections of revoked tokens as soon as the store receives the revocation. Each
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
	// afterwards is the delay of a second pass, for connections that were being accepted when the revocation arrived. It
	// is longer than a server waits for the answer to an auth callout request. A pass that failed is also repeated after
	// it.
	afterwards = 3 * time.Second
	// fresh is how long after the revocation of an actor the watcher closes all connections of that actor and its
	// sub-actors that another dispatcher accepted. Later, the token of such a connection may have been issued after the
	// revocation.
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
		n, err := e.kick.Kick(ctx, e.revoked(e.store.Now()))
		if n > 0 {
			e.store.Logger.Info("connections were closed, whose tokens were revoked", "connections", n)
		}
		if err != nil && ctx.Err() == nil {
			e.store.Logger.Warn("connections with revoked tokens may be open: trying again", "err", err)
			again = time.After(afterwards)
		}
	}
}

func (e *RevocationWatcher) forget(now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.let, func(_ string, p auth.Principal) bool { return p.Expires.Before(now) })
}

// revoked returns a function that reports whether the connections of a user must be closed.
func (e *RevocationWatcher) revoked(now time.Time) func(auth.User) bool {
	all := e.store.Verifier().Revoked
	barred := all.ActorsRevokedSince(now.Add(-fresh))
	return func(u auth.User) bool {
		e.mu.Lock()
		p, known := e.let[u.Family]
		e.mu.Unlock()
		if known {
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
