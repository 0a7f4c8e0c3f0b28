package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// The MCP headers that the gateway reads itself.
const (
	headerProtocol = "Mcp-Protocol-Version"
	headerSessions = "Mcp-Session-Id"
)

// Timeouts of HTTP clients, and of idle sessions.
const (
	bodyTime    = 30 * time.Second // to send a request
	writeTime   = 30 * time.Second // to read what was written to them
	sessionTime = time.Hour
)

// Handler returns the HTTP handler of the MCP endpoint. Register it for one path. Close the gateway when done.
func (s *Server) Handler() http.Handler {
	o := sdk.StreamableHTTPOptions{
		Logger: s.o.Logger, MaxRequestBodyBytes: s.o.MaxBody, SessionTimeout: sessionTime,
		EventStore: sdk.NewMemoryEventStore(nil), PropagateRequestCancellation: true,
	}
	server := func(*http.Request) *sdk.Server { return s.server }
	stateful := sdk.NewStreamableHTTPHandler(server, &o)
	o.Stateless, o.EventStore = true, nil
	stateless := sdk.NewStreamableHTTPHandler(server, &o)
	choose := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.sessionless(r):
			stateless.ServeHTTP(w, r)
		case r.Header.Get(headerSessions) == "" && s.sessions.full(ownerOf(r)):
			refuse(
				w,
				http.StatusServiceUnavailable,
				"too many sessions at once: try again later, or use a protocol without",
			)
		case !s.sessions.begin(r):
			stateless.ServeHTTP(w, r) // the library refuses an id that it answers already
		default:
			defer s.sessions.end(r)
			stateful.ServeHTTP(&owned{ResponseWriter: w, sessions: &s.sessions, owner: ownerOf(r)}, r)
		}
	})
	protected := http.NewCrossOriginProtection()
	return protected.Handler(s.bounded(s.admitted(s.read(choose))))
}

// sessionless reports whether a request is handled without a session: its protocol has no sessions, or its session
// belongs to another gateway, or to this one before a restart. Calls of such a session still work, because all state of
// a call is on the bus.
func (s *Server) sessionless(r *http.Request) bool {
	session := r.Header.Get(headerSessions)
	return r.Header.Get(headerProtocol) >= modern || session != "" && !strings.HasPrefix(session, s.instance+"-")
}

// bounded refuses requests above MaxRequests, and closes the connections of clients that do not read. A request whose
// connection the listener has closed for another one is not served.
func (s *Server) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		done, open := serving(r.Context())
		if !open {
			refuse(w, http.StatusServiceUnavailable, "too many connections at once") // which the client cannot read any more
			return
		}
		defer done()
		to := &reader{ResponseWriter: w, control: http.NewResponseController(w)}
		select {
		case s.requests <- struct{}{}:
			defer func() { <-s.requests }()
			next.ServeHTTP(to, r)
		default:
			w.Header().Set("Retry-After", "1")
			refuse(to, http.StatusServiceUnavailable, "too many requests at once: try again later")
		}
	})
}

// reader writes an answer with a deadline for each write, within which the client must read it.
type reader struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Write implements http.ResponseWriter.
func (r *reader) Write(p []byte) (int, error) {
	_ = r.control.SetWriteDeadline(time.Now().Add(writeTime)) // a connection without deadlines is used without one
	return r.ResponseWriter.Write(p)
}

// Flush implements http.Flusher.
func (r *reader) Flush() {
	_ = r.control.SetWriteDeadline(time.Now().Add(writeTime))
	_ = r.control.Flush()
}

// Unwrap is for http.ResponseController.
func (r *reader) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func refuse(w http.ResponseWriter, status int, why string) { http.Error(w, why, status) }

// noToken is the rejection of a request without a token.
const noToken = "send your Toolbus token with each request, in the header Authorization: Bearer TOKEN; " +
	"an operator issues one with `toolbus credentials issue --actor agent://NAME`"

// admitted returns a handler that authenticates the token of each request, if the gateway needs tokens.
func (s *Server) admitted(next http.Handler) http.Handler {
	if s.callers.client == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := s.callerOf(r)
		if err != nil {
			s.reject(w, r, err)
			return
		}
		defer s.callers.leave(c)
		if r.Method == http.MethodGet { // a stream of notifications ends when its token expires
			ctx, cancel := context.WithDeadline(r.Context(), c.principal.Expires)
			defer cancel()
			r = r.WithContext(ctx)
		}
		info := &auth.TokenInfo{
			UserID:     subjects.Token(c.principal.Tenant) + "." + subjects.Token(c.principal.Actor),
			Expiration: c.principal.Expires, Extra: map[string]any{callerKey: c},
		}
		known := func(context.Context, string, *http.Request) (*auth.TokenInfo, error) { return info, nil }
		auth.RequireBearerToken(known, nil)(next).ServeHTTP(w, r)
	})
}

// callerKey is the key in TokenInfo.Extra under which the library passes the caller with each request.
const callerKey = "guest"

func (s *Server) callerOf(r *http.Request) (*caller, error) {
	credentials := r.Header.Values("Authorization")
	if len(credentials) == 0 {
		return nil, &rejection{http.StatusUnauthorized, noToken}
	}
	scheme, token, _ := strings.Cut(credentials[0], " ")
	if len(credentials) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return nil, &rejection{http.StatusUnauthorized, noToken}
	}
	return s.callers.admit(r.Context(), strings.TrimSpace(token))
}

// reject answers a request whose token was not accepted.
func (s *Server) reject(w http.ResponseWriter, r *http.Request, err error) {
	why := &rejection{http.StatusInternalServerError, err.Error()}
	_ = errors.As(err, &why)
	switch why.status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", s.o.challenge(r, why.why))
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
	}
	refuse(w, why.status, why.why)
}

// single lists the headers of which a request may have only one: with two, a proxy may have used the other one.
var single = []string{headerProtocol, headerSessions, "Authorization", "Content-Type", "Content-Length", "Mcp-Method",
	"Mcp-Name", HeaderKey, headerRole, headerLane, headerSearchOnly}

// read reads the whole body of a request, and sets the internal headers with its id and session. It removes internal
// headers that a client has sent.
func (s *Server) read(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range single {
			if len(r.Header.Values(name)) > 1 {
				refuse(w, http.StatusBadRequest, "more than one header "+name)
				return
			}
		}
		for name := range r.Header {
			if strings.HasPrefix(name, headerOwn) {
				delete(r.Header, name)
			}
		}
		body, status, why := s.body(w, r)
		if status != 0 {
			refuse(w, status, why)
			return
		}
		if refused := refutedPost(body, r.Header); refused != nil {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write(refused) // an error means that the client has gone
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		raw, method := about(body)
		id := typed(raw)
		if id != "" {
			r.Header.Set(headerID, id)
		}
		if session := r.Header.Get(headerSessions); session != "" && r.Header.Get(headerProtocol) < modern {
			r.Header.Set(headerSession, session)
		}
		r.Header.Set(headerWeb, "1")
		if id != "" && method != "subscriptions/listen" {
			select {
			case s.answers <- struct{}{}:
				defer func() { <-s.answers }()
			default: // Drain has taken the places; otherwise there is one for every request
				refuse(w, http.StatusServiceUnavailable,
					"the gateway closes: send the request again, here or to another gateway")
				return
			}
		}
		to := hold(w, s.holding(r, raw, method))
		defer to.release()
		next.ServeHTTP(to, r.WithContext(r.Context())) // a copy: the library changes it while held writes the headers
	})
}

// holding returns how the answer to a request is held. The library sends a new session in the headers of the answer to
// initialize, so these are not sent without the answer.
func (s *Server) holding(r *http.Request, id jsontext.Value, method string) holding {
	a := holding{
		id: id, method: method,
		whole: id != nil && method != "subscriptions/listen", links: r.Header.Get(headerProtocol) >= linked,
		wait: s.o.HTTPHold, every: s.o.HTTPComment,
	}
	if method == "initialize" {
		a.wait = bodyTime
	}
	return a
}

// refutedPost returns the error for a body that is not a message of MCP. It returns none for an empty body, which the
// library refuses.
func refutedPost(body []byte, h http.Header) []byte {
	text := bytes.TrimSpace(body)
	if len(text) == 0 {
		return nil
	}
	if text[0] == '[' && len(h.Values(HeaderKey)) > 0 {
		why := "the header " + HeaderKey + " is of one call, and a batch is of several"
		return (&fault{code: jsonrpc.CodeInvalidRequest, why: why, ids: idsIn(text), batch: true}).body()
	}
	if wrong := faultOf(text); wrong != nil {
		return wrong.body()
	}
	return nil
}

// body returns the body of a request, or the status and text of a refusal.
func (s *Server) body(w http.ResponseWriter, r *http.Request) (body []byte, status int, why string) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTime)) // a connection without deadlines is used without one
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.o.MaxBody))
	switch {
	case err == nil:
		return body, 0, ""
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, http.StatusRequestEntityTooLarge, fmt.Sprintf("a request is at most %d bytes", s.o.MaxBody)
	}
	return nil, http.StatusBadRequest, "the request could not be read"
}
