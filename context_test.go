package toolbus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/subjects"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

const (
	traceID = "2f1a9c1e-55e0-4a57-8f0d-0c9f6f0f6a11"
	session = "session-of-the-request"
)

// serverMeta is the member of _meta, and serverInput that of inputResponses, that only servers of MCP tools get.
const (
	serverMeta  = `"secret-meta":1`
	serverInput = `"secret-response":{"action":"decline"}`
)

// everything is a request with each member set. Each text that a tool must not get begins with secret-.
func everything(tool string) *envelope.Request {
	confidence := 0.375
	return &envelope.Request{
		CallID: uuid.NewString(), ToolID: tool, ToolVersion: "^1.0.0", Fn: "run", Input: []byte(`{"a":[1]}`), DryRun: true,
		Provenance: []byte(`{"secret-provenance":1}`),
		Context: envelope.RequestContext{
			ActorID: "agent://local", Scopes: []string{"secret-scope"}, TraceID: traceID, ParentSpanID: "5ec2e75ec2e75ec2",
			Locale: "secret-locale", Timezone: "secret-zone", Clock: "wall", Env: "staging", SessionID: session,
			RoleID: "secret-role", RunID: "secret-run", LaneID: "secret-lane",
			Scope: map[string]string{"secret-name": "secret-value"}, Confidence: &confidence,
			Evidence: []string{"secret-evidence"}, MCPMeta: []byte("{" + serverMeta + "}"),
			MCPInput: &envelope.MCPInput{
				Responses: []byte("{" + serverInput + "}"), Capabilities: []byte(`{"roots":{}}`), Elicits: true,
				Extra: map[string]jsontext.Value{"x": []byte(`"secret-input"`)},
			},
			Extra: map[string]jsontext.Value{"whatever": []byte(`"secret-extra"`)},
		},
		Constraints: envelope.Constraints{
			TimeoutMS: 30_000, DeadlineUnixMS: time.Now().Add(time.Minute).UnixMilli(), IdempotencyKey: "secret-key-0123456789",
			IdempotencyScope: envelope.ScopeSession, Priority: envelope.PriorityHigh, PreferStreaming: true,
			CacheKey: "secret-cache", Budget: []byte(`{"secret-budget":1}`), MemoryMBLimit: 64,
			NetAllowlist: []string{"secret-host"}, RetryPolicy: &envelope.RetryPolicy{
				MaxAttempts: 1, BaseMS: 1, CapMS: 1, Jitter: "full", BackoffMultiplier: 1, JitterPercent: 1,
				RetryableErrors: []string{"secret-error"}, Extra: map[string]jsontext.Value{"x": []byte(`"secret-policy"`)},
			},
		},
	}
}

// listed are the members of the context that the second tool of each adapter lists, as the request has them.
const (
	listed      = `[actor_id, session_id, run_id, scope, confidence]`
	listedValue = `{"actor_id":"agent://local","session_id":"` + session + `","run_id":"secret-run",` +
		`"scope":{"secret-name":"secret-value"},"confidence":0.375}`
)

// A tool gets what it needs for its run, and of the request's context only what its manifest lists.
func TestToolsGetWhatTheyList(t *testing.T) {
	full := everything("x")
	full.Context.MCPInput.State = "only a call that answers another one has a state"
	allSet(t, "request", reflect.ValueOf(*full))
	dir, seen := t.TempDir(), make(chan []byte, 10)
	tools := toolbus.NewToolset()
	for name, list := range map[string]string{"none": "", "some": listed} {
		recorder(t, tools, name, list, seen)
		programFolder(t, dir, name, list, "pure")
		serverFolder(t, dir, name, list, "pure")
	}
	write(t, filepath.Join(dir, "servers.json"), fmt.Sprintf(`{"servers":{"seen":{"url":%q}}}`, listening(t, seen)))
	if err := tools.AddFolder(dir); err != nil {
		t.Fatal(err)
	}
	b := toolbustest.Start(t, tools)
	allowAs(t, b, "secret-role", "secret-lane")
	begin(t, b, "secret-run")
	for _, adapter := range []string{"native", "process", "mcp"} {
		for name, value := range map[string]string{"none": "", "some": listedValue} {
			id := adapter + "." + name
			t.Run(id, func(t *testing.T) {
				req := everything(id)
				if r := sendRaw(t, b, req); r.Status != envelope.Success {
					t.Fatalf("%+v", r.Error)
				}
				var raw []byte
				switch adapter {
				case "process":
					var err error
					if raw, err = os.ReadFile(filepath.Join(dir, subjects.Token(id), "seen")); err != nil {
						t.Fatal(err)
					}
					matches(t, members(t, raw), expected(req, value))
				case "mcp":
					raw = <-seen
					matches(t, fromServer(t, members(t, raw), req), expected(req, value))
					for _, own := range []string{serverMeta, serverInput} {
						raw = bytes.Replace(raw, []byte(own), nil, 1)
					}
				default:
					raw = <-seen
					fromRun(t, raw, expected(req, value), value)
				}
				leaks(t, raw, value)
			})
		}
	}
}

// expected are the members that a tool gets, each with a pattern of its value.
func expected(req *envelope.Request, listed string) map[string]string {
	want := map[string]string{
		"op": `"execute"`, "call_id": regexp.QuoteMeta(`"` + req.CallID + `"`), "tool_id": `"` + req.ToolID + `"`,
		"tool_version": `"1\.0\.0"`, "digest": `"sha256:[0-9a-f]{64}"`, "fn": `"run"`, "input": `\{"a":\[1\]\}`,
		"idempotency_key": `"[a-z0-9]{32}"`, "attempt": "1", "fence": `[1-9][0-9]*`, "deadline_unix_ms": `[0-9]{13}`,
		"dry_run": "true", "traceparent": `"00-` + strings.ReplaceAll(traceID, "-", "") + `-[0-9a-f]{16}-01"`,
	}
	if listed != "" {
		want["context"] = regexp.QuoteMeta(listed)
	}
	return want
}

// fromServer returns the invocation that an MCP server got in _meta, with its input, which are the arguments, and
// checks the other members of params and _meta.
func fromServer(t *testing.T, params map[string]json.RawMessage, req *envelope.Request) map[string]json.RawMessage {
	t.Helper()
	meta := members(t, params["_meta"])
	inv := members(t, meta[envelope.MetaInvocation])
	inv["input"] = params["arguments"]
	inv["fence"] = json.RawMessage(strings.Trim(string(inv["fence"]), `"`))
	delete(params, "_meta")
	matches(t, params, map[string]string{
		"name": `"tool"`, "arguments": ".*", "inputResponses": regexp.QuoteMeta("{" + serverInput + "}"),
	})
	want := expected(req, "")
	matches(t, meta, map[string]string{
		envelope.MetaCallID: want["call_id"], envelope.MetaAttempt: "1", envelope.MetaToolVersion: want["tool_version"],
		envelope.MetaIdempotencyKey: want["idempotency_key"], envelope.MetaDigest: want["digest"],
		envelope.MetaDeadlineMS: "[0-9]+", envelope.MetaTraceparent: want["traceparent"], envelope.MetaInvocation: ".*",
		"secret-meta": "1", sdk.MetaKeyProtocolVersion: ".*",
		sdk.MetaKeyClientInfo: ".*", sdk.MetaKeyClientCapabilities: ".*",
	})
	return inv
}

// leaks fails if raw has a text of the request that the tool must not get.
func leaks(t *testing.T, raw []byte, listed string) {
	t.Helper()
	rest := raw
	for _, member := range strings.Split(strings.Trim(listed, "{}"), ",") {
		rest = bytes.ReplaceAll(rest, []byte(member), nil)
	}
	for _, no := range []string{"secret-", session, "agent://", "5ec2e75ec2e75ec2", "staging", traceID, "wall", "^1.0.0"} {
		if bytes.Contains(rest, []byte(no)) {
			t.Errorf("the tool got %q: %s", no, raw)
		}
	}
}

// recorder adds a Go function that reports its Run and the context that it has got.
func recorder(t *testing.T, tools *toolbus.Toolset, name, list string, seen chan<- []byte) {
	t.Helper()
	about := toolbus.Tool{ID: "native." + name, Version: "1.0.0", Class: toolbus.Pure, DryRun: true,
		Request: []byte(`{}`), Response: []byte(`{}`)}
	if list != "" {
		about.Context = strings.Split(strings.Trim(list, "[]"), ", ")
	}
	err := toolbus.Add(tools, about, func(_ context.Context, run *toolbus.Run, in jsontext.Value) (any, error) {
		caller, err := run.Caller()
		raw, failed := jsonv2.Marshal(struct {
			Run    *toolbus.Run
			Caller toolbus.RequestContext
			Input  jsontext.Value
		}{run, caller, in})
		seen <- raw
		return true, errors.Join(err, failed)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// fromRun checks what a Go function got.
func fromRun(t *testing.T, raw []byte, want map[string]string, listed string) {
	t.Helper()
	got := members(t, raw)
	caller := `{"actor_id":"","trace_id":"","timezone":"","env":""}`
	if listed != "" {
		caller = strings.Replace(listed, `",`, `","trace_id":"","timezone":"","env":"",`, 1)
	}
	matches(t, members(t, got["Run"]), map[string]string{
		"CallID": want["call_id"], "IdempotencyKey": want["idempotency_key"], "Attempt": "1", "Fence": want["fence"],
		"Deadline": `"20.*"`, "DryRun": "true", "Digest": want["digest"], "Traceparent": want["traceparent"],
	})
	matches(t, got, map[string]string{"Run": ".*", "Caller": regexp.QuoteMeta(caller), "Input": want["input"]})
}

// programFolder makes a tool whose program keeps the bytes that it reads.
func programFolder(t *testing.T, dir, name, list, effect string) {
	t.Helper()
	folder(t, dir, "process."+name, "process", "{command: [/bin/sh, ./run.sh]}", list, effect)
	write(t, filepath.Join(dir, subjects.Token("process."+name), "run.sh"),
		`cat > seen && printf '{"type":"output","output":true}\n'`)
}

// serverFolder makes a tool of an MCP server that wants the invocation.
func serverFolder(t *testing.T, dir, name, list, effect string) {
	t.Helper()
	folder(t, dir, "mcp."+name, "mcp", "{server: seen, tool: tool, output: whole, invocation: true}", list, effect)
}

func folder(t *testing.T, dir, id, transport, endpoint, list, effect string) {
	t.Helper()
	in := filepath.Join(dir, subjects.Token(id))
	if err := os.Mkdir(in, 0o755); err != nil {
		t.Fatal(err)
	}
	manifest := fmt.Sprintf("tool_id: %s\nsemver: 1.0.0\nowner: o\ndescription: d\ndeterminism: %s\ntransport: %s\n"+
		"endpoint: %s\ncapabilities: {dry_run: true}\nfunctions:\n  run: {request: any.json, response: any.json}\n",
		id, effect, transport, endpoint)
	if list != "" {
		manifest += "context: " + list + "\n"
	}
	write(t, filepath.Join(in, "tool.yaml"), manifest)
	write(t, filepath.Join(in, "any.json"), "{}")
}

// listening serves an MCP server with one tool, reports the params of each call as they came, and returns its URL.
func listening(t *testing.T, seen chan<- []byte) string {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "seen", Version: "1"}, nil)
	server.AddTool(&sdk.Tool{Name: "tool", InputSchema: map[string]string{"type": "object"}},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{}, nil
		})
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server },
		&sdk.StreamableHTTPOptions{Stateless: true})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m struct {
			Method string
			Params json.RawMessage
		}
		if err == nil && json.Unmarshal(body, &m) == nil && m.Method == "tools/call" {
			seen <- m.Params
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// sendRaw sends a request as a client in another language does, and returns the outcome.
func sendRaw(t *testing.T, b *toolbustest.Bus, req *envelope.Request) *envelope.Response {
	t.Helper()
	in, err := rpc.NewInbox(b.Conn.NATS(), "default", req.Context.ActorID)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }() // gone with the connection otherwise
	msg, outcomes := nats.NewMsg(subjects.Call("default", req.Context.ActorID, req.ToolID)), make(chan *nats.Msg, 1)
	msg.Reply = in.Open(func(m *nats.Msg) {
		if m.Header.Get(subjects.HeaderKind) == envelope.KindOutcome {
			outcomes <- m
		}
	})
	in.Vouch(msg.Header)
	if msg.Data, err = envelope.EncodeRequest(envelope.ContentJSON, req); err == nil {
		err = b.Conn.NATS().PublishMsg(msg)
	}
	if err != nil {
		t.Fatal(err)
	}
	select {
	case m := <-outcomes:
		r, bad := envelope.DecodeResponse(m.Header.Get(subjects.HeaderContentType), m.Data)
		if bad != nil {
			t.Fatal(bad)
		}
		return r
	case <-t.Context().Done():
	case <-time.After(time.Minute):
	}
	t.Fatal("no outcome")
	return nil
}

// allSet fails if a member of the request is zero.
func allSet(t *testing.T, at string, v reflect.Value) {
	t.Helper()
	if v.IsZero() {
		t.Errorf("%s is not set", at)
	}
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() == reflect.Struct {
		for f, v := range v.Fields() {
			allSet(t, at+"."+f.Name, v)
		}
	}
}

func members(t *testing.T, raw []byte) (all map[string]json.RawMessage) {
	t.Helper()
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatalf("%q: %v", raw, err)
	}
	return all
}

// matches fails unless got has exactly the members of want, with values that match.
func matches(t *testing.T, got map[string]json.RawMessage, want map[string]string) {
	t.Helper()
	if g, w := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(g, w) {
		t.Errorf("members %q, want %q", g, w)
	}
	for name, pattern := range want {
		if !regexp.MustCompile("^(?s:" + pattern + ")$").Match(got[name]) {
			t.Errorf("%s is %s, want %s", name, got[name], pattern)
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
