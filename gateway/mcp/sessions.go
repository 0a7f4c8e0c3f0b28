package mcp

import (
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
)

// sessions says whose the sessions of a door are, so that nobody has all that there may be.
type sessions struct {
	mu     sync.Mutex
	owners map[string]string // by session
	asked  map[string]*turn  // the requests of sessions of this door, by session and id
	swept  time.Time
}

// turn is a request of a session, from when it comes until resentTime after its answer.
type turn struct {
	runs  bool      // the door answers it
	ended time.Time // zero before
}

// resentTime is the time for which the door knows that the id of a request was used, after the answer: the library
// gives the id free only when it has handed the answer on.
const resentTime = time.Minute

// ownerOf names the token that a request over HTTP came with, or what that comes from; "" is everybody, where nobody is
// asked for one.
func ownerOf(r *http.Request) string {
	if info := auth.TokenInfoFromContext(r.Context()); info != nil {
		if at, ok := info.Extra[callerKey].(*caller); ok {
			return at.root()
		}
	}
	return ""
}

// owns notes whose a session is.
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

// owned is an answer that may begin a session. It notes the owner before the client can use the session.
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

// full reports whether there are as many sessions as there may be, or as many as are left are of that owner.
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
	d.sessions.owners = all // those that have ended are forgotten
	return own >= d.o.MaxSessions-len(all)
}

// turnOf names a request of a session; "" is any other one.
func turnOf(h http.Header) string {
	session, id := h.Get(headerSession), h.Get(headerID)
	if session == "" || id == "" {
		return ""
	}
	return session + " " + id
}

// began notes a request of a session. It returns false if the request has come before, and is answered just now or was
// in the last minute. Such a request joins the call of the first one by its key.
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

// passed notes that the connection of a request is done. The library may not have handed the request on.
func (d *Server) passed(r *http.Request) {
	d.sessions.mu.Lock()
	defer d.sessions.mu.Unlock()
	if t := d.sessions.asked[turnOf(r.Header)]; t != nil && !t.runs && t.ended.IsZero() {
		t.ended = time.Now()
	}
}

// runs notes that the door answers a request, until ended is called.
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
