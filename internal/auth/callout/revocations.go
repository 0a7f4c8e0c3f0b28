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

// RevocationWatcher closes connections as soon as it is heard that what let them in was revoked. Each dispatcher has
// one: two that do it at once do it once. The server knows a connection by one family, so that of a token that was
// narrowed from a revoked one is closed by the dispatcher that has let it in; where that one is gone, its messages are
// refused one by one until its token expires.
type RevocationWatcher struct {
	store *tokenstore.Store
	kick  *Disconnector

	mu  sync.Mutex
	let map[string]auth.Principal // by family, until it expires
}

const (
	// afterwards is when it is looked again for connections that were let in just before it was heard of: longer than
	// the server waits for the answer about one. A server that does not answer is asked again then, too.
	afterwards = 3 * time.Second
	// fresh is how long after the revocation of an actor the evictor closes all connections of that actor and its
	// sub-actors whose tokens are not known here. Later ones may have been issued since.
	fresh = 10 * time.Second
	// tidyTime is how often what is known of expired tokens is dropped.
	tidyTime = time.Minute
)

// NewRevocationWatcher returns one for what s hears of, over a connection to the account SYS.
func NewRevocationWatcher(s *tokenstore.Store, nc *nats.Conn) *RevocationWatcher {
	return &RevocationWatcher{store: s, kick: NewDisconnector(nc), let: map[string]auth.Principal{}}
}

// Note remembers whom a connection belongs to that was let in.
func (e *RevocationWatcher) Note(p auth.Principal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.let[p.Family] = p
}

// Run closes connections until ctx ends.
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

// revoked returns what finds the connections to be closed.
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

// covered reports whether an actor of barred, or one of its sub-actors, has the connection of u.
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
