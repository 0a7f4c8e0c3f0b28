package client_test

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	diff "github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// What cannot be sent is refused by the client, with its place, and without a record. test/blackbox has the refusals
// that dispatchers put on record.
func TestNotSent(t *testing.T) {
	f := setup(t)
	c := f.serve(bustest.Describing("echo"))
	sent := f.answering(envelope.Response{})
	large := jsontext.Value(`"` + strings.Repeat("x", envelope.MaxPayload) + `"`)
	for name, test := range map[string]struct {
		call client.Call
		code envelope.Code
		at   []string
	}{
		"no JSON": {client.Call{Input: jsontext.Value(`{"n":`)}, envelope.CodeMalformed, []string{"/input/n"}},
		"input UTF-8": {client.Call{Input: jsontext.Value("[\"a\", \"\xff\"]")}, envelope.CodeMalformed,
			[]string{"/input/1"}},
		"large": {client.Call{Input: large}, envelope.CodeLimit, nil},
		"key UTF-8": {client.Call{Key: "0123456789abcdef\xff"}, envelope.CodeMalformed,
			[]string{"/constraints/idempotency_key"}},
		"scope UTF-8": {client.Call{Context: envelope.RequestContext{Scopes: []string{"a", "\xff"}}}, envelope.CodeMalformed,
			[]string{"/context/scopes/1"}},
		"function": {client.Call{Function: "\xff"}, envelope.CodeMalformed, []string{"/fn"}},
		"tool":     {client.Call{Tool: "echo\xff"}, envelope.CodeMalformed, []string{"/tool_id"}},
		"message": {client.Call{Context: envelope.RequestContext{Evidence: []string{strings.Repeat("x", 2<<20)}}},
			envelope.CodeLimit, nil},
	} {
		t.Run(name, func(t *testing.T) {
			test.call.Tool = cmp.Or(test.call.Tool, "echo")
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			r, err := c.Call(ctx, test.call)
			if err != nil {
				t.Fatal(err)
			}
			p := r.Provenance
			if r.Status != envelope.InvalidRequest || r.Error.Code != test.code || p.AuditEventID != "" ||
				r.Error.Details.Effect != envelope.EffectNone || !slices.Equal(p.PolicyApplied, []string{"client-preflight"}) {
				t.Fatalf("%s %+v (cause %q) %+v", r.Status, r.Error, r.Error.Cause, p)
			}
			var at []string
			for _, v := range r.Error.Details.Violations {
				at = append(at, v.Pointer)
			}
			if !slices.Equal(at, test.at) {
				t.Errorf("violations at %q, want %q (cause %q)", at, test.at, r.Error.Cause)
			}
		})
	}
	if sent.Load() != 0 {
		t.Errorf("%d requests were sent", sent.Load())
	}
}

// A call that names none of several functions is refused by a dispatcher, and told which functions there are.
func TestNoFunctionNamed(t *testing.T) {
	f := setup(t)
	fn := envelope.FunctionInfo{Request: jsontext.Value(`{}`), Response: jsontext.Value(`{}`)}
	c := f.serve(rpc.Endpoint{Op: subjects.OpDescribe,
		Handle: func(context.Context, call.Sender, []byte) (any, *envelope.Error) {
			return envelope.DescribeResponse{NowUnixMS: time.Now().UnixMilli(), Tools: []envelope.ToolInfo{{
				ToolID: "box", Version: "1.0.0", TimeoutDefaultMS: 30_000,
				Functions: map[string]envelope.FunctionInfo{"fill": fn, "empty": fn},
			}}}, nil
		}})
	refusal := envelope.NewError(envelope.CodeSchema, "").
		WithViolations(jsonschema.Violation{Pointer: "/fn", Rule: "minLength", Message: "must have at least 1 characters"})
	final := envelope.Provenance{Final: true}
	sent := f.answering(*envelope.Failure(envelope.NoCallID, refusal, final, envelope.Metrics{}))
	r, err := c.Call(t.Context(), client.Call{Tool: "box"})
	if err != nil || sent.Load() != 1 ||
		!strings.Contains(r.Error.Fix, "empty, fill; for example `toolbus call box empty`") ||
		r.Error.Details.Violations[0].Message != `the request names no function, and tool "box" has 2` {
		t.Errorf("%+v, %v", r, err)
	}
}

// A name that a subject can only hold a digest of proves nothing, so no client has one.
func TestClientNames(t *testing.T) {
	f := setup(t)
	for name, wrong := range map[string]bool{
		strings.Repeat("a", 100): false, strings.Repeat("a", 101): true, strings.Repeat("é", 16): false,
		strings.Repeat("é", 17): true, "a\xff": true,
	} {
		for what, o := range map[string]client.Options{"actor": {Actor: name}, "tenant": {Tenant: name}} {
			c, err := client.New(f.NC, o)
			if (err != nil) != wrong || wrong && !strings.Contains(err.Error(), what) {
				t.Errorf("%s %.20q…: %v", what, name, err)
			}
			if err == nil {
				_ = c.Close()
			}
		}
	}
}

// What a call says is in the request that is sent.
func TestRequestSaysWhatTheCallDoes(t *testing.T) {
	f := setup(t)
	c := f.serve(bustest.Describing("echo"))
	sent := make(chan *nats.Msg, 8)
	sub, err := f.NC.ChanSubscribe(subjects.CallWildcard, sent)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	f.answering(envelope.Response{Status: envelope.Success, Output: jsontext.Value("{}"),
		Provenance: envelope.Provenance{Final: true}})
	retry := &envelope.RetryPolicy{MaxAttempts: 2, BaseMS: 1, CapMS: 2, Jitter: "none", BackoffMultiplier: 3,
		JitterPercent: 4}
	_, err = c.Call(t.Context(), client.Call{
		Tool: "echo", Version: "^1", Input: jsontext.Value(`{"n":1}`), Timeout: 3 * time.Second, Key: "0123456789abcdef",
		KeyScope: envelope.ScopeGlobal, Priority: envelope.PriorityHigh, DryRun: true, Retry: retry,
		Provenance: jsontext.Value(`{"by":"me"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	got, refusal := envelope.DecodeRequest(envelope.ContentJSON, (<-sent).Data)
	if refusal != nil {
		t.Fatal(refusal)
	}
	want := envelope.Request{
		CallID: got.CallID, ToolID: "echo", ToolVersion: "^1", Fn: "run", Input: jsontext.Value(`{"n":1}`), DryRun: true,
		Context: got.Context, Provenance: jsontext.Value(`{"by":"me"}`),
		Constraints: envelope.Constraints{
			TimeoutMS: 3000, DeadlineUnixMS: got.Constraints.DeadlineUnixMS, IdempotencyKey: "0123456789abcdef",
			IdempotencyScope: envelope.ScopeGlobal,
			Priority:         envelope.PriorityHigh, RetryPolicy: retry,
		},
	}
	if d := diff.Diff(want, *got); d != "" {
		t.Error(d)
	}
}
