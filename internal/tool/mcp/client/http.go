package client

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
)

// retries is how often a stream of an answer is taken up again that broke off, where the server can do that.
const retries = 3

// session is a server behind a URL. It stands between the SDK and the SDK's own transport.
type session struct {
	mcp.Connection
	router *pendingRequests
	guard  *httpGuard

	mu     sync.Mutex
	first  jsonrpc.ID // of the request that agrees on a version of the protocol
	reason string     // why the session is of no use any more
}

// reach opens a session with s, in which all is resolved.
func reach(ctx context.Context, s Server, r *pendingRequests) (*session, error) {
	g := &httpGuard{headers: s.Headers, router: r, inner: &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: dialPatience}).DialContext,
		TLSHandshakeTimeout:    dialPatience,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    idleConnections,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: maxHeader,
	}}
	over := &mcp.StreamableClientTransport{
		Endpoint: s.URL, MaxRetries: retries, MaxEventSize: -1, // the guard bounds events, by what is waited for
		DisableStandaloneSSE: true,
		HTTPClient: &http.Client{
			Transport: g,
			// Another address would be told the headers.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	conn, err := over.Connect(ctx)
	if err != nil {
		return nil, err
	}
	opened := &session{Connection: conn, router: r, guard: g}
	g.gone = opened.because
	return opened, nil
}

const (
	dialPatience    = 10 * time.Second
	idleConnections = 64
	maxHeader       = 64 << 10 // bytes
)

// Write implements mcp.Connection.
func (s *session) Write(ctx context.Context, msg jsonrpc.Message) error {
	if req, ok := msg.(*jsonrpc.Request); ok && req.Method == methodInitialize {
		s.mu.Lock()
		s.first = req.ID
		s.mu.Unlock()
	}
	return s.Connection.Write(context.WithValue(ctx, sendingKey{}, s.router.sending(ctx, msg)), msg)
}

// Read implements mcp.Connection: it returns what the SDK is told.
func (s *session) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		msg, err := s.Connection.Read(ctx)
		if err != nil {
			s.because(discreet(err).Error())
			return nil, err
		}
		s.agreed(msg)
		told, ok := s.router.received(msg)
		if !ok {
			s.because("it sent too many requests of its own")
			return nil, errors.New("too many requests")
		}
		if told != nil {
			return told, nil
		}
	}
}

// agreed notes the version of the protocol, which every later request names. The SDK tells it to its own transport
// alone.
func (s *session) agreed(msg jsonrpc.Message) {
	answer, ok := msg.(*jsonrpc.Response)
	if !ok {
		return
	}
	s.mu.Lock()
	is := s.first.IsValid() && answer.ID == s.first
	s.mu.Unlock()
	var said struct {
		Version string `json:"protocolVersion"`
	}
	if is && json.Unmarshal(answer.Result, &said) == nil {
		s.guard.version.Store(&said.Version)
	}
}

func (s *session) because(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reason = cmp.Or(s.reason, reason)
}

// Close implements mcp.Connection.
func (s *session) Close() error {
	err := s.Connection.Close()
	s.guard.inner.CloseIdleConnections()
	return err
}

func (s *session) end(reason string, _ supervisor.Command) {
	s.because(reason)
	_ = s.Close()
}

// usable reports whether requests may still be sent.
func (s *session) usable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason == ""
}

func (s *session) lost() *BrokenError {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &BrokenError{How: cmp.Or(s.reason, "the session was closed")}
}
