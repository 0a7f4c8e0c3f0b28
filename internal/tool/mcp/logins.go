package mcp

import (
	"errors"
	"sync"

	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/oauth"
)

// logins are the logins at servers. They have a lock of their own: connections that open need them, and Rest waits for
// those while it holds the adapter's.
type logins struct {
	mu      sync.Mutex
	store   oauth.Store
	keepers map[string]*oauth.Keeper // by the id of the grant
}

// UseLogins sets the store of the entries of logins, which executors share. Servers with a login cannot be reached
// without it.
func (a *Adapter) UseLogins(s oauth.Store) {
	a.logins.mu.Lock()
	defer a.logins.mu.Unlock()
	a.logins.store = s
}

// tokens returns the source of access tokens for a server, whose file is read again: an operator may have logged in
// again. It is nil for a server without a login.
func (l *logins) tokens(name string, s client.Server) (client.Tokens, error) {
	if s.OAuth == "" {
		return nil, nil
	}
	g, err := oauth.ReadGrant(s.OAuth)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store == nil {
		return nil, errors.New("this process has no bus on which the tokens of logins could lie")
	}
	id := g.ID()
	if l.keepers[id] == nil {
		l.keepers[id] = oauth.NewKeeper(name, g, l.store, client.NewTokenClient(s.URL))
	}
	return l.keepers[id], nil
}

// wait returns when no renewal is under way.
func (l *logins) wait() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range l.keepers {
		k.Wait()
	}
}
