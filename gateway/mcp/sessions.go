package mcp

import (
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/auth"
)

// sessions says whose the sessions of a door are, so that nobody has all that there may be.
type sessions struct {
	mu     sync.Mutex
	owners map[string]string // by session
}

// ownerOf names the token that a request over HTTP came with, or what that comes from; "" is everybody, where nobody is
// asked for one.
func ownerOf(r *http.Request) string {
	if info := auth.TokenInfoFromContext(r.Context()); info != nil {
		if at, ok := info.Extra[guestKey].(*guest); ok {
			return at.root()
		}
	}
	return ""
}

// owns notes whose a session is.
func (d *Door) owns(owner, session string) {
	if session == "" {
		return
	}
	d.sessions.mu.Lock()
	defer d.sessions.mu.Unlock()
	if d.sessions.owners == nil {
		d.sessions.owners = map[string]string{}
	}
	d.sessions.owners[session] = owner
}

// full reports whether there are as many sessions as there may be, or as many as are left are of that owner.
func (d *Door) full(owner string) bool {
	d.sessions.mu.Lock()
	defer d.sessions.mu.Unlock()
	all, own := map[string]string{}, 0
	for s := range d.server.Sessions() {
		if s.ID() == "" {
			continue
		}
		of, known := d.sessions.owners[s.ID()]
		all[s.ID()] = of
		if known && of == owner && owner != "" {
			own++
		}
	}
	d.sessions.owners = all // those that have ended are forgotten
	return own >= d.o.MaxSessions-len(all)
}
