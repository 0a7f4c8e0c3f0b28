package mcp

import (
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// sessions holds the owners of the sessions of the gateway, so that one caller cannot use all of them.
type sessions struct {
	server *sdk.Server
	most   int // largest number of sessions

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
		if c, ok := info.Extra[callerKey].(*caller); ok {
			return c.root()
		}
	}
	return ""
}

// setOwner records the owner of a session.
func (s *sessions) setOwner(owner, session string) {
	if session == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owners == nil {
		s.owners = map[string]string{}
	}
	s.owners[session] = owner
}

// owned is an answer that may begin a session. It records the owner before the client learns the session id.
type owned struct {
	http.ResponseWriter
	sessions *sessions
	owner    string
	begun    bool
}

func (o *owned) begin() {
	if !o.begun {
		o.begun = true
		o.sessions.setOwner(o.owner, o.Header().Get(headerSessions))
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
func (s *sessions) full(owner string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, own := map[string]string{}, 0
	for session := range s.server.Sessions() {
		id := session.ID()
		if id == "" {
			continue
		}
		holder, known := s.owners[id]
		all[id] = holder
		if known && holder == owner && owner != "" {
			own++
		}
	}
	s.owners = all // without sessions that have ended
	return own >= s.most-len(all)
}

// turnOf returns the key of a request of a session, or "" for any other request.
func turnOf(h http.Header) string {
	session, id := h.Get(headerSession), h.Get(headerID)
	if session == "" || id == "" {
		return ""
	}
	return session + " " + id
}

// begin records a request of a session. It returns false if the same request is running, or was answered within the
// last minute. Such a request joins the call of the first one, because its key is the same.
func (s *sessions) begin(r *http.Request) bool {
	name := turnOf(r.Header)
	if name == "" {
		return true
	}
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

// end records that the HTTP request has ended. The library may not have passed it on to receive.
func (s *sessions) end(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.asked[turnOf(r.Header)]; t != nil && !t.runs && t.ended.IsZero() {
		t.ended = time.Now()
	}
}

// run records that the gateway handles a request, until ended is called.
func (s *sessions) run(h http.Header) (ended func()) {
	set := func(runs bool, at time.Time) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if t := s.asked[turnOf(h)]; t != nil {
			t.runs, t.ended = runs, at
		}
	}
	set(true, time.Time{})
	return func() { set(false, time.Now()) }
}
