package client

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/internal/tool/address"
	"github.com/seed-018f16cc/toolbus/internal/tool/supervisor"
)

// retries is the number of times that a broken stream of an answer is resumed, if the server supports that.
const retries = 3

// session is the connection to a server with a URL. It lies between the SDK and the SDK's HTTP transport.
type session struct {
	mcp.Connection
	router *pendingRequests
	guard  *httpGuard

	mu     sync.Mutex
	first  jsonrpc.ID // id of the request "initialize"
	reason string     // why the session has ended; "" while it is usable
}

// reach opens a session with s, whose references are resolved.
func reach(ctx context.Context, s Server, tokens Tokens, r *pendingRequests) (*session, error) {
	g := &httpGuard{headers: s.Headers, tokens: tokens, router: r, inner: newTransport(s.URL)}
	over := &mcp.StreamableClientTransport{
		Endpoint: s.URL, MaxRetries: retries, MaxEventSize: -1, // httpGuard limits the size of events
		DisableStandaloneSSE: true,
		HTTPClient: &http.Client{
			Transport: g,
			// Follow no redirect: it would send the headers to another address.
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

// newTransport returns a transport to the host of a server, and to hosts with public addresses.
func newTransport(server string) *http.Transport {
	hosts := configured(server, http.ProxyFromEnvironment)
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            address.Dialer{Hosts: hosts, Timeout: dialPatience}.DialContext,
		TLSHandshakeTimeout:    dialPatience,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    idleConnections,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: maxHeader,
	}
}

// configured returns the hosts that the operator of the executor has configured: that of the URL of a server, and that
// of its proxy.
func configured(server string, proxyFor func(*http.Request) (*url.URL, error)) (hosts []string) {
	to, err := url.Parse(server)
	if err != nil {
		return nil
	}
	proxy, err := proxyFor(&http.Request{URL: to})
	if err == nil && proxy != nil {
		hosts = append(hosts, proxy.Hostname())
	}
	return append(hosts, to.Hostname())
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

// Read implements mcp.Connection. It returns the next message for the SDK.
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

// agreed stores the negotiated version of the protocol, which every later request names in a header. The SDK passes the
// version only to its own transport.
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

// usable reports whether the session accepts requests.
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
