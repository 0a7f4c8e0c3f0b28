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

// ownerOf is whoever sent a request over HTTP; "" is everybody, where nobody is asked for a token.
func ownerOf(r *http.Request) string {
	if info := auth.TokenInfoFromContext(r.Context()); info != nil {
		return info.UserID
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

// full reports whether there are as many sessions as there may be, or half of them are of that owner.
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
	return len(all) >= d.o.MaxSessions || own >= max(1, d.o.MaxSessions/2)
}
