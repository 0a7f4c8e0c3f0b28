package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// crier is a server of protocol 2025-11-25, written as bytes. A test decides what it answers to each request for the
// stream of announcements.
type crier struct {
	*httptest.Server
	streams chan crierAnswer // one element for each request; a request waits for it
	asked   chan http.Header // of each request for the stream
	over    chan struct{}    // of a stream that stays open
	lists   atomic.Int64     // announcements of changed lists
}

// crierAnswer is the answer to a request for the stream. Text is sent before the stream ends when over is closed.
type crierAnswer struct {
	status int
	kind   string
	text   string
	over   <-chan struct{}
}

func newCrier(t *testing.T) *crier {
	t.Helper()
	s := &crier{streams: make(chan crierAnswer, 10), asked: make(chan http.Header, 100),
		over: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

func (s *crier) serve(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		s.announce(w, r)
	case http.MethodPost:
		s.reply(w, r)
	}
}

func (s *crier) announce(w http.ResponseWriter, r *http.Request) {
	s.asked <- r.Header
	var a crierAnswer
	select {
	case a = <-s.streams:
	case <-r.Context().Done():
		return
	}
	w.Header().Set("Content-Type", a.kind)
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, a.text) // the client says what it got
	if a.over != nil {
		_ = http.NewResponseController(w).Flush() // as above
		select {
		case <-a.over:
		case <-r.Context().Done():
		}
	}
}

func (s *crier) reply(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	result := map[string]string{
		"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},` +
			`"resources":{"subscribe":true,"listChanged":true}},"serverInfo":{"name":"crier","version":"1"}}`,
		"tools/list": `{"tools":[]}`, "resources/subscribe": `{}`, "resources/unsubscribe": `{}`,
	}[m.Method]
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Mcp-Session-Id", "s1")
	if result == "" {
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}`, m.ID)
		return
	}
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

func (s *crier) dial(t *testing.T) *Conn {
	t.Helper()
	c, err := Dial(t.Context(), Server{URL: s.URL}, Options{
		Client: "test", ListsChanged: func() { s.lists.Add(1) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// hears subscribes to a resource.
func hears(t *testing.T, c *Conn, uri string) chan string {
	t.Helper()
	heard := make(chan string, 100)
	end, err := c.Subscribe(t.Context(), uri, &Listener{
		Updated: func(uri string) { heard <- uri }, Ended: func() { heard <- "" },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	return heard
}

// comes waits for an event of another goroutine.
func comes[T any](t *testing.T, what string, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s does not come", what)
	}
	return got
}

func updated(uri string) string {
	return `data: {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"` + uri + `"}}` + "\n\n"
}

const toolsChanged = `data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n\n"

// answers calls the server, which shows that the session goes on.
func answers(t *testing.T, c *Conn) {
	t.Helper()
	if _, err := c.List(t.Context()); err != nil {
		t.Errorf("the session has ended: %v", err)
	}
}

// A stream that ends, or breaks the protocol, is opened again in the same session. What the server may have announced
// in between counts as announced, unless it resumes the stream.
func TestAnnouncements(t *testing.T) {
	stream := func(text string) crierAnswer { return crierAnswer{http.StatusOK, typeEvents, text, nil} }
	for name, c := range map[string]struct {
		first  crierAnswer
		missed bool
		resume string
	}{
		"ends":         {stream(toolsChanged), true, ""},
		"resumed":      {stream("id: 7\nretry: 10\n" + toolsChanged), false, "7"},
		"not JSON":     {stream("data: {\"jsonrpc\":\n\n"), true, ""},
		"deep":         {stream("data: " + strings.Repeat("[", 20_000) + "\n\n"), true, ""},
		"large":        {stream("data: " + strings.Repeat("x", 5<<20) + "\n\n"), true, ""},
		"down":         {crierAnswer{status: http.StatusBadGateway}, false, ""},
		"unauthorized": {crierAnswer{status: http.StatusUnauthorized}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newCrier(t)
			s.streams <- c.first
			conn := s.dial(t)
			heard := hears(t, conn, "far://1")
			s.streams <- crierAnswer{http.StatusOK, typeEvents, updated("far://2") + updated("far://1/x"), s.over}
			_ = comes(t, "a request for the stream", s.asked)
			if got := comes(t, "another one", s.asked).Get(headerLastEvent); got != c.resume {
				t.Errorf("resumed from %q", got)
			}
			if got := comes(t, "an update", heard); c.missed && got != "far://1" {
				t.Errorf("heard %q", got)
			} else if c.missed {
				heard <- comes(t, "another update", heard)
			} else {
				heard <- got
			}
			if got := <-heard; got != "far://1/x" {
				t.Errorf("heard %q", got)
			}
			if changed := conn.Changed(); changed != (c.missed || c.resume != "") {
				t.Errorf("changed is %t", changed)
			}
			answers(t, conn)
		})
	}
}

// A server without announcements has no subscriptions. It is asked once.
func TestNoAnnouncements(t *testing.T) {
	for _, refusal := range []crierAnswer{
		{status: http.StatusMethodNotAllowed}, {status: http.StatusNotFound}, {status: http.StatusBadRequest},
		{status: http.StatusNotImplemented}, {http.StatusOK, "text/html", "<p>hello", nil}, {status: http.StatusNoContent},
	} {
		t.Run(fmt.Sprint(refusal.status), func(t *testing.T) {
			t.Parallel()
			s := newCrier(t)
			s.streams <- refusal
			c := s.dial(t)
			if _, err := c.Subscribe(t.Context(), "far://1", &Listener{}); !errors.Is(err, errNoSubscriptions) {
				t.Errorf("got %v", err)
			}
			if all := c.Methods(t.Context()); slices.Contains(all, ResourcesSubscribe) {
				t.Errorf("the methods are %v", all)
			}
			answers(t, c)
			if n := len(s.asked); n != 1 || c.Changed() {
				t.Errorf("%d requests for the stream", n)
			}
		})
	}
}

// A subscription ends when the server has lost the stream for good, as after a restart, and its lists count as changed.
func TestAnnouncementsEnd(t *testing.T) {
	s := newCrier(t)
	over := make(chan struct{})
	s.streams <- crierAnswer{http.StatusOK, typeEvents, "", over}
	c := s.dial(t)
	heard := hears(t, c, "far://1")
	s.streams <- crierAnswer{status: http.StatusNotFound}
	close(over)
	for got := "far://1"; got != ""; {
		if got = comes(t, "the end", heard); got != "" && got != "far://1" {
			t.Errorf("heard %q", got)
		}
	}
	if s.lists.Load() == 0 || !c.Changed() {
		t.Error("no list has changed")
	}
	answers(t, c)
}

// A server that does not answer before it has something to say is heard, and does not delay the end.
func TestMuteAnnouncements(t *testing.T) {
	s := newCrier(t)
	c := s.dial(t)
	heard := hears(t, c, "far://1")
	s.streams <- crierAnswer{http.StatusOK, typeEvents, updated("far://1"), s.over}
	if got := comes(t, "an update", heard); got != "far://1" {
		t.Errorf("heard %q", got)
	}
	mute := newCrier(t).dial(t)
	begun := time.Now()
	mute.Close()
	if took := time.Since(begun); took > subscribeTime {
		t.Errorf("it ended after %v", took)
	}
}
