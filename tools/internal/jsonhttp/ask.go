package jsonhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/internal/tool/address"
	"github.com/seed-018f16cc/toolbus/program"
)

// Limits of what a service answers.
const (
	MaxAnswer     = 4 << 20 // bytes
	maxRetryAfter = time.Hour
	startTime     = 15 * time.Second // of a connection, and of TLS
)

// Service is an HTTP service.
type Service struct {
	Name string // for people, with an article
	URL  string // that paths are appended to; its host is reached whatever its addresses are
	Key  string // its bearer token; "" is none
}

// Failure is why there is no answer. It holds neither address nor key.
type Failure struct {
	Reason string // one word, such as status or malformed
	Status int    // that was answered, or 0
	Wait   time.Duration
	Text   string
}

// Error implements error.
func (f *Failure) Error() string { return f.Text }

// Named returns the failure as an error of a tool that has no effect.
func (f *Failure) Named(code string) *program.Error {
	e := program.NoEffect(code, f.Text)
	e.Details, e.RetryAfter = map[string]any{"reason": f.Reason}, f.Wait
	if f.Status != 0 {
		e.Details["upstream_status"] = f.Status
	}
	return e
}

// Post sends body to a path and decodes the answer. The error is a *[Failure], or that of ctx when it has ended.
func (s Service) Post(ctx context.Context, path string, body, into any) error {
	req, err := s.request(ctx, path, body)
	if err != nil {
		return err
	}
	transport := &http.Transport{
		DialContext:         address.Dialer{Hosts: []string{req.URL.Hostname()}, Timeout: startTime}.DialContext,
		TLSHandshakeTimeout: startTime, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
	}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	resp, err := client.Do(req)
	if err != nil {
		return s.lost(ctx)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return s.refused(resp)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswer+1))
	switch {
	case err != nil:
		return s.lost(ctx)
	case len(text) > MaxAnswer:
		return &Failure{Reason: "too_large", Text: fmt.Sprintf("%s answered with more than %d MiB", s.Name, MaxAnswer>>20)}
	case json.Unmarshal(text, into) != nil:
		return &Failure{Reason: "malformed", Text: s.Name + " answered something else than was asked for"}
	}
	return nil
}

func (s Service) request(ctx context.Context, path string, body any) (*http.Request, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(
		ctx, http.MethodPost, strings.TrimSuffix(s.URL, "/")+path, bytes.NewReader(text))
	if err != nil {
		return nil, &Failure{Reason: "configuration", Text: "the URL of " + s.Name + " is none"}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	if s.Key != "" {
		req.Header.Set("Authorization", "Bearer "+s.Key)
	}
	return req, nil
}

// lost is the error of a request without an answer.
func (s Service) lost(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &Failure{Reason: "connection", Text: s.Name + " could not be reached, or hung up"}
}

func (s Service) refused(resp *http.Response) error {
	f := &Failure{Reason: "status", Status: resp.StatusCode, Text: fmt.Sprintf("%s answered %d", s.Name, resp.StatusCode)}
	if seconds, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 31); err == nil {
		f.Wait = min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	return f
}

// Ended reports whether an error says that the time was up, here or at the service.
func Ended(err error) bool {
	if f, is := errors.AsType[*Failure](err); is {
		return f.Status == http.StatusRequestTimeout || f.Status == http.StatusGatewayTimeout
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
