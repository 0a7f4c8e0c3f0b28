package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// site is a server with a URL, of which a test decides how requests for subscriptions are answered.
type site struct {
	*mcp.Server
	conn   *Conn
	answer atomic.Pointer[http.HandlerFunc] // to subscriptions/listen for a resource; nil for that of the server
	cut    func()                           // ends the streams
}

func newSite(t *testing.T) *site {
	t.Helper()
	none := func(context.Context, *mcp.SubscribeRequest) error { return nil }
	s := &site{Server: mcp.NewServer(&mcp.Implementation{Name: "site", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   none,
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})}
	s.AddResource(&mcp.Resource{URI: "far://1", Name: "1"}, nil)
	inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.Server },
		&mcp.StreamableHTTPOptions{Stateless: true})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // the answer says what was missing
		r.Body = io.NopCloser(bytes.NewReader(body))
		if answer := s.answer.Load(); answer != nil && bytes.Contains(body, []byte("resourceSubscriptions")) {
			(*answer)(w, r)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	s.cut = web.CloseClientConnections
	conn, err := Dial(t.Context(), Server{URL: web.URL}, Options{Client: "test"})
	if err != nil {
		t.Fatal(err)
	}
	s.conn = conn
	t.Cleanup(func() {
		conn.Close()
		web.CloseClientConnections()
		web.Close()
	})
	return s
}

// hears subscribes, and returns what the listener hears.
func (s *site) hears(t *testing.T, uri string) (heard chan string, end func()) {
	t.Helper()
	heard = make(chan string, 100)
	end, err := s.conn.Subscribe(t.Context(), uri, &Listener{
		Updated: func(uri string) { heard <- uri }, Ended: func() { heard <- "" },
	})
	if err != nil {
		t.Fatal(err)
	}
	return heard, end
}

func (s *site) updates(t *testing.T, uri string) {
	t.Helper()
	if err := s.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: uri}); err != nil {
		t.Fatal(err)
	}
}

// Listeners of a resource share a subscription. If its stream ends, they are notified, and the next listener gets a new
// subscription.
func TestSubscribeOverHTTP(t *testing.T) {
	s := newSite(t)
	first, endFirst := s.hears(t, "far://1")
	second, endSecond := s.hears(t, "far://1")
	s.updates(t, "far://1")
	for _, heard := range []chan string{first, second} {
		if got := <-heard; got != "far://1" {
			t.Errorf("heard %q", got)
		}
	}
	endSecond()
	s.cut()
	if got := <-first; got != "" {
		t.Errorf("heard %q", got)
	}
	third, endThird := s.hears(t, "far://1") // before the first one has ended
	s.updates(t, "far://1")
	if got := <-third; got != "far://1" {
		t.Errorf("heard %q", got)
	}
	endFirst()
	s.updates(t, "far://1")
	if got := <-third; got != "far://1" || len(second) > 0 {
		t.Errorf("heard %q", got)
	}
	endThird()
	if n := len(s.conn.router.ids); n > 0 {
		t.Errorf("%d requests are left", n)
	}
}

// The end of a subscription over HTTP does not wait for an answer, which the server does not send.
func TestUnsubscribeOverHTTP(t *testing.T) {
	s := newSite(t)
	var ends []func()
	for i := range 10 {
		_, end := s.hears(t, fmt.Sprint("far://", i))
		ends = append(ends, end)
	}
	begun := time.Now()
	for _, end := range ends {
		end()
	}
	if took := time.Since(begun); took > 10*politeness*3/4 {
		t.Errorf("it took %v", took)
	}
}

// An answer that refuses a subscription is known at once, whatever its form.
func TestSubscribeRefusedOverHTTP(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   func(error) bool
	}{
		"status":       {http.StatusForbidden, "no", is[*StatusError]},
		"unauthorized": {http.StatusUnauthorized, "", is[*StatusError]},
		"error": {http.StatusBadRequest, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"no"}}`,
			isCode(-32602)},
		"answer": {http.StatusOK, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32002,"message":"no"}}`, isCode(-32002)},
		"result": {http.StatusOK, `{"jsonrpc":"2.0","id":ID,"result":{}}`, isCode(-32601)},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			refuse := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body) // as above
				req, err := jsonrpc.DecodeMessage(body)
				if err != nil {
					t.Error(err)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(c.status)
				id := fmt.Sprint(req.(*jsonrpc.Request).ID.Raw())
				_, _ = io.WriteString(w, strings.Replace(c.body, "ID", id, 1)) // the client says that it got none
			})
			s.answer.Store(&refuse)
			begun := time.Now()
			_, err := s.conn.Subscribe(t.Context(), "far://1", &Listener{})
			if !c.want(err) || time.Since(begun) > subscribeTime/2 {
				t.Errorf("%T %v after %v", err, err, time.Since(begun))
			}
			s.answer.Store(nil)
			heard, end := s.hears(t, "far://1") // the connection goes on
			s.updates(t, "far://1")
			if got := <-heard; got != "far://1" {
				t.Errorf("heard %q", got)
			}
			end()
		})
	}
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

func isCode(code int64) func(error) bool {
	return func(err error) bool {
		said, ok := errors.AsType[*jsonrpc.Error](err)
		return ok && said.Code == code
	}
}

// A subscription ends while the server leaves the request for another one without an answer.
func TestUnsubscribeMeanwhile(t *testing.T) {
	s := newSite(t)
	_, end := s.hears(t, "far://1")
	arrived := make(chan struct{})
	silent := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
	})
	s.answer.Store(&silent)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.conn.Subscribe(ctx, "far://2", &Listener{})
		ended <- err
	}()
	<-arrived
	begun := time.Now()
	end()
	if took := time.Since(begun); took > subscribeTime/2 {
		t.Errorf("it took %v", took)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
