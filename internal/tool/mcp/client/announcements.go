package client

import (
	"context"
	"io"
	"mime"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const (
	headerLastEvent = "Last-Event-Id"

	listenAgain     = time.Second // before the stream is opened again; doubled up to listenAgainMost
	listenAgainMost = time.Minute
	listenSettles   = 2 * time.Second // for the answer to the first request for the stream
	listenGap       = 5 * time.Second // without a stream; after that, lists count as changed
)

// announcements is the stream of what a server of a protocol before 2026-07-28 sends without a request, such as changes
// of its lists and updates of resources (MCP 2025-11-25 §Listening for Messages from the Server). The stream of the SDK
// ends the session when it fails; this one is opened again. Only the goroutine of run uses it, except for hears.
type announcements struct {
	guard  *httpGuard
	server string // URL
	stream *events
	heard  bool   // a stream was open before
	last   string // id of the last event, from which a server may resume the stream
	pause  time.Duration
	opened time.Time
	ended  time.Time

	settled chan struct{} // closed at the first answer of the server
	settles sync.Once
	mu      sync.Mutex
	refused bool // the server has no such stream
}

func newAnnouncements(g *httpGuard, server string) *announcements {
	return &announcements{guard: g, server: server, settled: make(chan struct{})}
}

// hears reports whether the server sends announcements. Some servers do not answer before the first one, so after
// listenSettles a server without an answer counts as one that does.
func (a *announcements) hears(ctx context.Context) bool {
	wait := time.NewTimer(listenSettles)
	defer wait.Stop()
	select {
	case <-a.settled:
	case <-wait.C:
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.refused
}

// run passes on messages until ctx ends, or the server says that it has no such stream.
func (a *announcements) run(ctx context.Context, session string, pass func(jsonrpc.Message)) {
	for a.hasNext(ctx) {
		status, err := a.open(ctx, session)
		if err == nil {
			a.answered(status)
		}
		for a.stream != nil {
			msg, err := a.stream.message()
			if err != nil {
				a.lost()
				break
			}
			pass(msg)
		}
	}
}

// hasNext waits before the next attempt. It returns false if it was the last one.
func (a *announcements) hasNext(ctx context.Context) bool {
	wait := time.NewTimer(a.pause)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
		return false
	}
	a.pause = min(max(2*a.pause, listenAgain), listenAgainMost)
	return !a.refused
}

// open asks for the stream once. It returns the status of the answer.
func (a *announcements) open(ctx context.Context, session string) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.server, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Accept", typeEvents)
	for name, value := range map[string]string{headerSession: session, headerLastEvent: a.last} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	a.guard.dress(req)
	f := &flight{limit: minFrame}
	resp, err := a.guard.authorized(ctx, req, f)
	if err != nil {
		return 0, err
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusOK && kind == typeEvents {
		a.stream, a.opened = newEvents(resp.Body, f, a.guard.router), time.Now()
		return resp.StatusCode, nil
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxRefusal) // so that the connection can be used again
	return resp.StatusCode, resp.Body.Close()
}

// answered handles the answer to a request for the stream. Announcements since the last stream are lost, unless the
// server resumes it. Proxies end idle streams every minute, and clients read all lists again when lists have changed,
// so these do not count as changed after a short gap.
func (a *announcements) answered(status int) {
	switch {
	case a.stream != nil:
		if a.heard && a.last == "" {
			a.guard.router.missed(time.Since(a.ended) > listenGap)
		}
		a.heard = true
		a.settle(false)
	case passing(status):
	case a.last != "":
		a.last = "" // the server may not know the event any more
	default:
		a.settle(true)
		if a.heard { // the server may have lost the session, which the next request to it finds out
			a.guard.router.missed(true)
			a.guard.router.subscriptions.endAll()
		}
	}
}

// passing reports whether the server may have the stream later. Servers without it answer 405, or what they like.
func passing(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	}
	return status >= 500 && status != http.StatusNotImplemented
}

// settle records whether the server has the stream.
func (a *announcements) settle(refused bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused = refused
	a.settles.Do(func() { close(a.settled) })
}

// lost handles the end of the stream.
func (a *announcements) lost() {
	_ = a.stream.Close() // the error of the stream is known
	a.ended = time.Now()
	if a.stream.id != "" {
		a.last = a.stream.id
	}
	asked, err := strconv.ParseUint(a.stream.retry, 10, 31)
	switch {
	case err == nil:
		a.pause = min(max(time.Duration(asked)*time.Millisecond, listenAgain), listenAgainMost)
	case time.Since(a.opened) > a.pause:
		a.pause = listenAgain
	}
	a.stream = nil
}
