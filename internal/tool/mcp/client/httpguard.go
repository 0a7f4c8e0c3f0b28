package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// Names of headers.
const (
	headerVersion = "Mcp-Protocol-Version"
	headerSession = "Mcp-Session-Id"
	typeEvents    = "text/event-stream" // of an answer
)

// maxRefusal is the number of bytes that are read of an answer with an error status.
const maxRefusal = 64 << 10

// sendingKey is the context key of the flight whose request is being sent. The context of a message about a flight,
// such as a cancellation, lacks it.
type sendingKey struct{}

// httpGuard sends the HTTP requests to one server. It records whether a request has left this host, and limits the size
// of answers. It keeps the failure of one request from ending the session: the SDK ends a session on many errors of one
// request.
type httpGuard struct {
	inner   *http.Transport
	headers map[string]string
	tokens  Tokens // nil sends no access token
	router  *pendingRequests
	version atomic.Pointer[string]
	gone    func(reason string) // called when the session has ended
}

// RoundTrip implements http.RoundTripper.
func (g *httpGuard) RoundTrip(req *http.Request) (*http.Response, error) {
	f, _ := req.Context().Value(sendingKey{}).(*flight)
	if f == nil {
		f = &flight{limit: minFrame}
	}
	plain := req.Context() // for requests for tokens, which are not the trace's
	ctx := httptrace.WithClientTrace(plain, &httptrace.ClientTrace{WroteHeaders: func() { f.sent.Store(true) }})
	req = req.Clone(ctx)
	g.dress(req)
	resp, err := g.authorized(plain, req, f)
	if err != nil {
		if f.sent.Load() {
			f.fail(&BrokenError{How: err.Error()})
		} else {
			f.fail(&NotSentError{err})
		}
		return nil, err
	}
	return g.bounded(ctx, f, resp)
}

// dress sets the headers that each request has.
func (g *httpGuard) dress(req *http.Request) {
	for name, value := range g.headers {
		req.Header.Set(name, value)
	}
	if version := g.version.Load(); version != nil && req.Header.Get(headerVersion) == "" {
		req.Header.Set(headerVersion, *version)
	}
}

// bounded returns resp with a body that is limited to the size that the request allows.
func (g *httpGuard) bounded(ctx context.Context, f *flight, resp *http.Response) (*http.Response, error) {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		return g.refused(f, resp)
	case kind == typeEvents:
		resp.Body = newEvents(resp.Body, f, g.router)
	case kind == "application/json":
		return g.whole(f, resp)
	case f.end != nil && resp.StatusCode == http.StatusOK: // without this the SDK ends the session
		f.fail(&MalformedError{Reason: fmt.Sprintf("an answer of type %.80q", kind)})
		_ = resp.Body.Close()
		return nil, errors.New("unknown type of answer")
	}
	return resp, nil
}

// whole reads an answer that is one JSON text.
func (g *httpGuard) whole(f *flight, resp *http.Response) (*http.Response, error) {
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, f.bound()+1))
	switch {
	case err != nil:
		f.fail(&BrokenError{How: "its answer broke off: " + err.Error()})
		return nil, err
	case int64(len(text)) > f.bound():
		err := &TooLargeError{Limit: f.bound()}
		f.fail(err)
		return nil, err
	}
	_, mended, err := g.router.legible(text)
	if err != nil && (f.end != nil || errors.Is(err, errTooDeep)) {
		f.fail(&MalformedError{Reason: fmt.Sprintf("%.120q", text)})
		return nil, err
	}
	if mended != nil {
		text, resp.ContentLength = mended, int64(len(mended))
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	return resp, nil
}

// refused handles an error status. The SDK keeps the session only after a status that it regards as temporary. So
// refused replaces each status by such a one, except when the server has lost the session.
func (g *httpGuard) refused(f *flight, resp *http.Response) (*http.Response, error) {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	_ = resp.Body.Close()
	if resp.Request.Header.Get(headerSession) != "" && forgotten(resp.StatusCode, text) {
		f.sent.Store(false) // the server has not begun the request
		g.gone("the server does not know the session any more")
		resp.StatusCode, resp.Body = http.StatusNotFound, http.NoBody // with a body the SDK would keep the session
		return resp, nil
	}
	if f.end == nil && resp.StatusCode == http.StatusUnauthorized && resp.Request.Method == http.MethodPost {
		return nil, challenged(resp.Header)
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	msg, _ := decode(text)
	answer, ok := msg.(*jsonrpc.Response)
	if ok = ok && answer.Error != nil; ok && f.isListen() {
		f.fail(answer.Error) // the SDK does not wait for it
	}
	if ok || f.end == nil {
		return resp, nil
	}
	f.fail(&StatusError{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header)})
	resp.StatusCode = http.StatusServiceUnavailable
	return resp, nil
}

// challenged returns the error for a server that answers a greeting with status 401.
func challenged(h http.Header) *UnauthorizedError {
	e := &UnauthorizedError{}
	all, _ := oauthex.ParseWWWAuthenticate(h.Values("WWW-Authenticate")) // what cannot be parsed names nothing
	for _, c := range all {
		if strings.EqualFold(c.Scheme, "Bearer") {
			e.OAuth, e.Metadata = true, cmp.Or(e.Metadata, c.Params["resource_metadata"])
		}
	}
	return e
}

// forgotten reports whether the server has lost the session of a request. It must answer 404 then, whatever the body
// says (MCP 2025-11-25 §Session Management). Servers built from the examples of the TypeScript SDK answer 400 instead,
// with an error that belongs to no request.
func forgotten(status int, body []byte) bool {
	if status != http.StatusBadRequest {
		return status == http.StatusNotFound
	}
	var answer struct {
		ID    *jsontext.Value
		Error struct{ Message string }
	}
	return json.Unmarshal(body, &answer, json.MatchCaseInsensitiveNames(true)) == nil && answer.ID == nil &&
		strings.Contains(strings.ToLower(answer.Error.Message), "session")
}

// retryAfter returns the time in the header Retry-After, or 0.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
