package mcp

import (
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
)

// sessions holds the owners of the sessions of the gateway, so that one caller cannot use all of them.
type sessions struct {
	mu     sync.Mutex
	owners map[string]string // by session
	asked  map[string]*turn  // requests of sessions, by session and id
	swept  time.Time
}

// turn is a request of a session, from its arrival until resentTime after its answer.
type turn struct {
	runs  bool      // the gateway is handling it
	ended time.Time // zero until its answer
}

// resentTime is the time after the answer for which the id of a request counts as used. The library releases an id only
// after it has passed on the answer.
const resentTime = time.Minute

// ownerOf returns the root of the token of an HTTP request, or "" if the gateway needs no tokens.
func ownerOf(r *http.Request) string {
	if info := auth.TokenInfoFromContext(r.Context()); info != nil {
		if at, ok := info.Extra[callerKey].(*caller); ok {
			return at.root()
		}
	}
	return ""
}

// owns records the owner of a session.
func (d *Server) owns(owner, session string) {
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

// owned is an answer that may begin a session. It records the owner before the client learns the session id.
type owned struct {
	http.ResponseWriter
	server *Server
	owner  string
	begun  bool
}

func (o *owned) begin() {
	if !o.begun {
		o.begun = true
		o.server.owns(o.owner, o.Header().Get(headerSessions))
	}
}

// WriteHeader implements http.ResponseWriter.
func (o *owned) WriteHeader(status int) {
	o.begin()
	o.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (o *owned) Write(p []byte) (int, error) {
	o.begin()
	return o.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (o *owned) Flush() {
	o.begin()
	_ = http.NewResponseController(o.ResponseWriter).Flush() // as reader does
}

// Unwrap is for http.ResponseController.
func (o *owned) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// full reports whether the owner holds as many sessions as are free, or none are free.
func (d *Server) full(owner string) bool {
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
	d.sessions.owners = all // without sessions that have ended
	return own >= d.o.MaxSessions-len(all)
}

// turnOf returns the key of a request of a session, or "" for any other request.
func turnOf(h http.Header) string {
	session, id := h.Get(headerSession), h.Get(headerID)
	if session == "" || id == "" {
		return ""
	}
	return session + " " + id
}

// began records a request of a session. It returns false if the same request is running, or was answered within the
// last minute. Such a request joins the call of the first one, because its key is the same.
func (d *Server) began(r *http.Request) bool {
	name := turnOf(r.Header)
	if name == "" {
		return true
	}
	s := &d.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.swept) > resentTime {
		for other, t := range s.asked {
			if !t.ended.IsZero() && now.Sub(t.ended) > resentTime {
				delete(s.asked, other)
			}
		}
		s.swept = now
	}
	if s.asked[name] != nil {
		return false
	}
	if s.asked == nil {
		s.asked = map[string]*turn{}
	}
	s.asked[name] = &turn{}
	return true
}

// passed records that the HTTP request has ended. The library may not have passed it on to receive.
func (d *Server) passed(r *http.Request) {
	d.sessions.mu.Lock()
	defer d.sessions.mu.Unlock()
	if t := d.sessions.asked[turnOf(r.Header)]; t != nil && !t.runs && t.ended.IsZero() {
		t.ended = time.Now()
	}
}

// runs records that the gateway handles a request, until ended is called.
func (d *Server) runs(h http.Header) (ended func()) {
	set := func(runs bool, at time.Time) {
		d.sessions.mu.Lock()
		defer d.sessions.mu.Unlock()
		if t := d.sessions.asked[turnOf(h)]; t != nil {
			t.runs, t.ended = runs, at
		}
	}
	set(true, time.Time{})
	return func() { set(false, time.Now()) }
}
