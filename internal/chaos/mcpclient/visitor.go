package mcpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// Visitor calls tools over MCP. It is safe for concurrent use.
type Visitor struct {
	doors []string // URLs
	http  http.Client
}

// New returns a Visitor for gateways with the given URLs. Close it when no calls are in progress.
func New(doors []string) *Visitor {
	return &Visitor{doors: doors, http: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}}
}

// Close closes idle connections.
func (v *Visitor) Close() { v.http.CloseIdleConnections() }

// Call is one call of a tool.
type Call struct {
	Tool, Key string
	Input     jsontext.Value
	Token     func() string // returns the current token of the caller; nil without tokens
	First     int           // index of the gateway to try first, from 0
	// Cut is the time after which the visitor leaves the first gateway for the next one. 0 is never.
	Cut time.Duration
	Due time.Time // deadline of the call
}

// pause is the time between two attempts.
const pause = 50 * time.Millisecond

// Call tries each gateway in turn until one answers or ctx ends. The error is that of the last attempt.
func (v *Visitor) Call(ctx context.Context, c Call) (*envelope.Response, error) {
	var last error
	for n := 0; ; n++ {
		once, cancel := ctx, context.CancelFunc(func() {})
		if n == 0 && c.Cut > 0 {
			once, cancel = context.WithTimeout(ctx, c.Cut)
		}
		r, err := v.ask(once, v.doors[(c.First+n)%len(v.doors)], c)
		cancel()
		if err == nil {
			return r, nil
		}
		last = err
		if !timer.Sleep(ctx, pause) {
			return nil, last
		}
	}
}

// ask sends one request to a gateway.
func (v *Visitor) ask(ctx context.Context, door string, c Call) (*envelope.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, door, bytes.NewReader(c.body()))
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": protocol, "Mcp-Method": method, "Mcp-Name": c.Tool,
	} {
		req.Header.Set(name, value)
	}
	if c.Token != nil {
		req.Header.Set("Authorization", "Bearer "+c.Token())
	}
	resp, err := v.http.Do(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	err = errors.Join(err, resp.Body.Close())
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.200s", resp.Status, body)
	}
	if err != nil {
		return nil, err
	}
	return read(body)
}

// MCP version and method. This version has no sessions.
const (
	protocol = "2026-07-28"
	method   = "tools/call"
)

// body returns the request of a call, with the remaining time until its deadline.
func (c Call) body() []byte {
	text, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": 1, "method": method, "params": map[string]any{
			"name": c.Tool, "arguments": c.Input, "_meta": map[string]any{
				"io.modelcontextprotocol/protocolVersion":    protocol,
				"io.modelcontextprotocol/clientCapabilities": map[string]any{},
				envelope.MetaIdempotencyKey:                  c.Key,
				envelope.MetaReport:                          true,
				envelope.MetaDeadlineMS:                      max(1, time.Until(c.Due).Milliseconds()),
			},
		},
	})
	if err != nil {
		panic("unreachable: " + err.Error()) // it contains only strings, numbers and JSON
	}
	return text
}

// answer is the JSON-RPC response of a gateway.
type answer struct {
	Result *struct {
		Meta struct {
			CallID  string          `json:"io.toolbus/call_id"`
			Audit   string          `json:"io.toolbus/audit_event_id"`
			Attempt int             `json:"io.toolbus/attempt"`
			Version string          `json:"io.toolbus/tool_version"`
			Outcome envelope.Status `json:"io.toolbus/outcome"`
			Code    envelope.Code   `json:"io.toolbus/code"`
			Effect  envelope.Effect `json:"io.toolbus/effect"`
			Final   *bool           `json:"io.toolbus/final"` // nil means true
		} `json:"_meta"`
		Structured jsontext.Value `json:"structuredContent"`
		IsError    bool           `json:"isError"`
	} `json:"result"`
	Error *struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// read returns the response that an answer describes.
func read(body []byte) (*envelope.Response, error) {
	for line := range bytes.Lines(body) { // in an event stream, the last event is the answer
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			body = data
		}
	}
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("the answer is no JSON: %.200s: %w", body, err)
	}
	switch {
	case a.Error != nil:
		return nil, fmt.Errorf("error %d: %s", a.Error.Code, a.Error.Message)
	case a.Result == nil || a.Result.Meta.Outcome == "":
		return nil, fmt.Errorf("the answer has no outcome: %.200s", body)
	}
	m := a.Result.Meta
	r := &envelope.Response{CallID: m.CallID, Status: m.Outcome, Output: a.Result.Structured}
	r.Provenance.Attempt, r.Provenance.ToolVersion, r.Provenance.AuditEventID = m.Attempt, m.Version, m.Audit
	r.Provenance.Final = m.Final == nil || *m.Final
	if m.Outcome != envelope.Success {
		r.Error = envelope.NewError(m.Code, "").WithEffect(m.Effect)
	}
	if a.Result.IsError != (m.Outcome != envelope.Success) {
		return nil, fmt.Errorf("isError is %t, and the outcome %s", a.Result.IsError, m.Outcome)
	}
	return r, nil
}
