package webpage

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/tool/address"
	"github.com/seed-018f16cc/toolbus/program"
)

// Limits, and what servers are told of who asks.
const (
	MaxBody       = 10 << 20 // bytes of a page, decompressed
	UserAgent     = "toolbus-web-fetch/1.0 (+https://github.com/seed-018f16cc/toolbus)"
	maxRedirects  = 10
	maxRetryAfter = 24 * time.Hour
	startTime     = 15 * time.Second // of a connection, and of TLS
)

// answer is what a server sent for a page.
type answer struct {
	url         *url.URL // after redirects
	contentType string
	language    string // Content-Language
	body        []byte
}

// fetcher fetches pages over connections of its dialer.
type fetcher struct{ dialer address.Dialer }

// fetch gets one page.
func (f fetcher) fetch(ctx context.Context, from *url.URL) (answer, error) {
	transport := f.newTransport()
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: checkRedirect}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return answer{}, invalidURL("syntax", "the URL is not valid")
	}
	req.Header.Set("User-Agent", UserAgent)
	req.Header.Set("Accept", "text/html,application/xhtml+xml,text/*;q=0.8,*/*;q=0.1")
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, classify(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return answer{}, statusFailed(resp)
	}
	body, err := readBody(ctx, resp)
	if err != nil {
		return answer{}, err
	}
	return answer{
		url: resp.Request.URL, contentType: resp.Header.Get("Content-Type"), language: resp.Header.Get("Content-Language"),
		body: body,
	}, nil
}

// transport goes without a proxy: the environment says nothing to this tool.
type transport struct{ *http.Transport }

func (f fetcher) newTransport() transport {
	return transport{&http.Transport{
		DialContext:            f.dialer.DialContext,
		TLSHandshakeTimeout:    startTime,
		MaxResponseHeaderBytes: 256 << 10,
		ForceAttemptHTTP2:      true,
	}}
}

// RoundTrip finds redirects to what is no URL, which the client would tell like a lost connection.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.Transport.RoundTrip(req)
	if err != nil || resp.StatusCode < 300 || resp.StatusCode > 399 {
		return resp, err
	}
	if _, err := resp.Location(); err != nil && !errors.Is(err, http.ErrNoLocation) {
		_ = resp.Body.Close()
		return nil, &redirectError{"redirect_syntax", "the server redirects to what is no URL"}
	}
	return resp, nil
}

// readBody reads a body that is not larger than allowed. The transport has decompressed gzip; it
// asks for nothing else.
func readBody(ctx context.Context, resp *http.Response) ([]byte, error) {
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, parseFailed("content_encoding", "the server compressed the page in a way that was not asked for")
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxBody+1))
	switch {
	case err != nil:
		return nil, classify(ctx, err)
	case len(body) > MaxBody:
		return nil, parseFailed("body_too_large", fmt.Sprintf("the page is larger than %d MiB", MaxBody>>20))
	}
	return body, nil
}

// redirectError is a redirect that is not followed.
type redirectError struct{ reason, message string }

func (e *redirectError) Error() string { return e.message }

func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return &redirectError{"too_many_redirects", fmt.Sprintf("the server redirects more than %d times", maxRedirects)}
	}
	if reason, message := refuse(req.URL); reason != "" {
		return &redirectError{"redirect_" + reason, "the server redirects to a page that is not fetched: " + message}
	}
	req.URL.RawQuery = escapeQuery(req.URL.RawQuery)
	return nil
}

// statusFailed is the error of an answer that is no page.
func statusFailed(resp *http.Response) error {
	message := fmt.Sprintf("the server answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	failure := notFetchable("status", message)
	if passing(resp.StatusCode) {
		failure = fetchFailed("status", message)
		failure.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	}
	failure.Details["upstream_status"] = resp.StatusCode
	return failure
}

// passing says whether the server may answer otherwise next time.
func passing(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

// retryAfter reads a Retry-After header: seconds or a date.
func retryAfter(header string, now time.Time) time.Duration {
	var wait time.Duration
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		wait = time.Duration(seconds) * time.Second
	} else if date, err := http.ParseTime(header); err == nil {
		wait = date.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}

// classify turns an error of the HTTP client into one that the manifest declares.
func classify(ctx context.Context, err error) error {
	var redirect *redirectError
	var refused *address.NotPublicError
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var authority x509.UnknownAuthorityError
	switch {
	case ctx.Err() != nil:
		return program.NoEffect("timeout", "the time was up before the page was there")
	case errors.As(err, &redirect):
		return notFetchable(redirect.reason, redirect.message)
	case errors.As(err, &refused):
		return notFetchable("address", "the host has no public address, and the operator of web.fetch has not allowed "+
			"its network (--"+address.Flag+")")
	case errors.As(err, &dns):
		return fetchFailed("dns", "the host name cannot be resolved")
	case errors.As(err, &certificate), errors.As(err, &authority), errors.As(err, &record):
		return fetchFailed("tls", "no secure connection to the server: its certificate or protocol is not valid")
	case errors.Is(err, syscall.ECONNREFUSED):
		return fetchFailed("refused", "the server refuses the connection")
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return fetchFailed("connection_lost", "the server closed the connection before the page was complete")
	}
	return fetchFailed("transport", "the page could not be fetched")
}
