//go:build linux

package mcp_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/tooltest"
)

// load reads a manifest with an endpoint.
func load(endpoint, more string) (*tool.Manifest, error) {
	text := `
tool_id: test.it
semver: 1.0.0
owner: "@test"
description: a test
determinism: side_effectful
transport: mcp
endpoint: ` + endpoint + `
functions: {run: {request: any.json, response: any.json}}
errors:
  - {code: busy, class: R-CAP, http_status: 429, message: busy, fix: wait}
  - {code: not_found, class: P-PRECOND, http_status: 404, message: not found, fix: look}
` + more
	r, err := tool.LoadFS(fstest.MapFS{
		"test_2eit/tool.yaml": {Data: []byte(text)}, "test_2eit/any.json": {Data: []byte("true")},
	}, mcp.Describe())
	if err != nil {
		return nil, err
	}
	return r.List()[0], nil
}

func TestManifests(t *testing.T) {
	for endpoint, want := range map[string]string{
		`{server: a, tool: b}`: "",
		`{server: a, tool: b, output: whole, key_argument: key}`: "",
		`{server: a}`:                                              "endpoint.tool is required",
		`{server: a, methods: false}`:                              "endpoint.tool is required",
		`{server: a, methods: true}`:                               `the function "run" is not a method of MCP servers`,
		`{server: a, methods: true, tool: b}`:                      "methods of a server are not those of one tool",
		`{server: A, tool: b}`:                                     `"A" is not the name of a server`,
		`{server: a, tool: ""}`:                                    `"" is not the name of a tool`,
		`{server: a, tool: b, output: half}`:                       `"half" is not a value of endpoint.output`,
		`{server: a, tool: b, definition: x}`:                      `"x" is not a digest`,
		`{server: a, tool: b, errors: [{match: "(", code: busy}]}`: "missing closing )",
		`{server: a, tool: b, errors: [{match: x, code: y}]}`:      `no error "y" is declared`,
		`{server: a, tool: b, token: swordfish}`:                   `unknown field "token"`,
	} {
		m, err := load(endpoint, "")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", endpoint, err)
		}
		if e, ours := (mcp.Endpoint{}), false; err == nil {
			if e, ours = m.Endpoint.(mcp.Endpoint); !ours || e.Output == "" {
				t.Errorf("%s: %+v", endpoint, m.Endpoint)
			}
		}
	}
	if _, err := load(`{server: a, tool: b}`, "capabilities: {lookup: true}"); err == nil ||
		!strings.Contains(err.Error(), "no tool of the server is named that looks up") {
		t.Errorf("a lookup without a tool: %v", err)
	}
}

// TestErrors maps failed results to the errors that the manifest declares, also those of servers that know no such
// names.
func TestErrors(t *testing.T) {
	p := newPeer(t)
	for name, want := range map[string]struct {
		code    envelope.Code
		message string
	}{
		"coded":    {envelope.CodeToolUnknownState, "later"}, // its effect is unknown, so it is not retryable
		"worded":   {"P-PRECOND-TOOL_NOT_FOUND", "ENOENT: no such file"},
		"wordless": {"P-PRECOND-TOOL_ERROR", "the tool says that it failed"},
	} {
		m, err := load(fmt.Sprintf(`{server: test, tool: %s, errors: [{match: "^ENOENT", code: not_found}]}`, name), "")
		if err != nil {
			t.Fatal(err)
		}
		m.Dir = p.manifest.Dir
		_, err = p.adapter.Execute(t.Context(), m, invocationOf("{}"), &tooltest.Recorder{})
		got := p.adapter.ClassifyError(m, err)
		p.wants(got, want.code, envelope.EffectUnknown)
		if got.Message != want.message {
			t.Errorf("%s: %s", name, got.Message)
		}
	}
	if got := p.fails("wordless", "{}"); !strings.Contains(got.Fix, "check that before you call with a new key") {
		t.Error(got.Fix)
	}
	p.class = "pure"
	if got := p.fails("wordless", "{}"); !strings.Contains(got.Fix, "correct what its message names") {
		t.Error(got.Fix)
	}
}

// TestKeyArgument sends the key of the call in the argument that the manifest names.
func TestKeyArgument(t *testing.T) {
	p := newPeer(t)
	m := p.of("arguments")
	m.Endpoint = mcp.Endpoint{Server: "test", Tool: "arguments", KeyArgument: "request_id"}
	inv := invocationOf(`{"n":1,"request_id":"of the caller"}`)
	inv.IdempotencyKey = "id-of-the-call"
	res, err := p.adapter.Execute(t.Context(), m, inv, &tooltest.Recorder{})
	if want := `{"text":"{\"n\":1,\"request_id\":\"id-of-the-call\"}"}`; err != nil || string(res.Output) != want {
		t.Errorf("%s, %v; want %s", res.Output, err, want)
	}
}

// TestGivenUp checks that the server gets a cancellation for a call whose deadline has passed.
func TestGivenUp(t *testing.T) {
	p := newPeer(t)
	p.echoes("before")
	p.class = "pure"
	m := p.of("silent")
	m.Limits.TimeoutMaxMS = 50
	_, err := p.adapter.Execute(t.Context(), m, invocationOf("{}"), &tooltest.Recorder{})
	p.wants(p.adapter.ClassifyError(m, err), envelope.CodeTimeout, envelope.EffectNone)
	for deadline := time.Now().Add(30 * time.Second); p.said("gave_up") != "1"; {
		if time.Now().After(deadline) {
			t.Fatal("the server was not told")
		}
	}
}
