package client

import (
	"cmp"
	"context"
	"errors"
	"io"
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

	announced *announcements
	arrived   chan arrival
	listen    func() // sends what the server announces to arrived, until stop is called
	stop      context.CancelFunc
	closed    <-chan struct{} // after stop
	work      sync.WaitGroup  // the goroutines that send to arrived

	mu     sync.Mutex
	first  jsonrpc.ID // id of the request "initialize"
	reason string     // why the session has ended; "" while it is usable
}

// reach opens a session with s, whose references are resolved.
func reach(ctx context.Context, s Server, tokens Tokens, r *pendingRequests) (*session, error) {
	g := &httpGuard{headers: s.Headers, tokens: tokens, router: r, inner: newTransport(s.URL)}
	over := &mcp.StreamableClientTransport{
		Endpoint: s.URL, MaxRetries: retries, MaxEventSize: -1, // httpGuard limits the size of events
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
	opened := &session{
		Connection: conn, router: r, guard: g, announced: newAnnouncements(g, s.URL), arrived: make(chan arrival),
	}
	g.gone = opened.because
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	opened.stop, opened.closed = stop, inner.Done()
	opened.listen = func() { opened.announces(inner) }
	opened.work.Go(func() { opened.receives(inner) })
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
	err := s.Connection.Write(context.WithValue(ctx, sendingKey{}, s.router.sending(ctx, msg)), msg)
	if req, ok := msg.(*jsonrpc.Request); ok && req.Method == methodInitialized && err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		select {
		case <-s.closed:
		default:
			s.work.Go(s.listen)
		}
	}
	return err
}

// arrival is a message of the server, or the end of the session.
type arrival struct {
	msg jsonrpc.Message
	err error
}

// receives passes on what arrives with the answers of the server.
func (s *session) receives(ctx context.Context) {
	for {
		msg, err := s.Connection.Read(ctx)
		if !s.pass(arrival{msg, err}) || err != nil {
			return
		}
	}
}

// announces passes on what the server announces.
func (s *session) announces(ctx context.Context) {
	s.announced.run(ctx, s.SessionID(), func(msg jsonrpc.Message) { s.pass(arrival{msg, nil}) })
}

func (s *session) pass(a arrival) bool {
	select {
	case s.arrived <- a:
		return true
	case <-s.closed:
		return false
	}
}

// Read implements mcp.Connection. It returns the next message for the SDK.
func (s *session) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		var next arrival
		select {
		case next = <-s.arrived:
		case <-s.closed:
			next.err = io.EOF
		case <-ctx.Done():
			next.err = context.Cause(ctx)
		}
		if next.err != nil {
			s.because(discreet(next.err).Error())
			return nil, next.err
		}
		s.agreed(next.msg)
		told, ok := s.router.received(next.msg)
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
	s.mu.Lock()
	s.stop()
	s.mu.Unlock()
	s.work.Wait()
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
