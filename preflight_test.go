package toolbus_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/bustest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// The whole request is checked before it is sent: nobody listens here who would refuse it.
func TestPreflight(t *testing.T) {
	f := setup(t)
	c := f.serve(bustest.Describing("echo"))
	sent := f.answering(envelope.Response{})
	scopes := slices.Repeat([]string{"s"}, envelope.MaxScopes+1)
	for name, test := range map[string]struct {
		call toolbus.Call
		code envelope.Code
		at   []string
	}{
		"short key":    {toolbus.Call{Key: "short"}, envelope.CodeSchema, []string{"/constraints/idempotency_key"}},
		"long timeout": {toolbus.Call{Timeout: time.Hour}, envelope.CodeSchema, []string{"/constraints/timeout_ms"}},
		"unknown key scope": {toolbus.Call{KeyScope: "tribe"}, envelope.CodeSchema,
			[]string{"/constraints/idempotency_scope"}},
		"all at once": {
			toolbus.Call{Key: "short", Priority: "urgent", Input: jsontext.Value(`[]`),
				Context: envelope.Context{Scopes: scopes}},
			envelope.CodeSchema, []string{"/constraints/idempotency_key", "/constraints/priority", "/context/scopes", "/input"},
		},
		"call id": {toolbus.Call{CallID: "mine"}, envelope.CodeSchema, []string{"/call_id"}},
		"large head": {toolbus.Call{Context: envelope.Context{Evidence: slices.Repeat([]string{strings.Repeat("é", 2000)},
			65)}}, envelope.CodeSchema, []string{"/context/evidence"}},
		"key UTF-8": {toolbus.Call{Key: "0123456789abcdef\xff"}, envelope.CodeMalformed,
			[]string{"/constraints/idempotency_key"}},
		"scope UTF-8": {toolbus.Call{Context: envelope.Context{Scopes: []string{"a", "\xff"}}}, envelope.CodeMalformed,
			[]string{"/context/scopes/1"}},
		"function":   {toolbus.Call{Fn: "\xff"}, envelope.CodeFnUnknown, nil},
		"tool UTF-8": {toolbus.Call{Tool: "echo\xff"}, envelope.CodeToolUnknown, nil},
		"retry policy": {toolbus.Call{Retry: &envelope.RetryPolicy{MaxAttempts: -1}}, envelope.CodeSchema,
			[]string{"/constraints/retry_policy/max_attempts"}},
	} {
		t.Run(name, func(t *testing.T) {
			if test.call.Tool == "" {
				test.call.Tool = "echo"
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			r, err := c.Call(ctx, test.call)
			if err != nil {
				t.Fatal(err)
			}
			if r.Status != envelope.InvalidRequest || r.Error.Code != test.code ||
				r.Error.Details.Effect != envelope.EffectNone ||
				!slices.Equal(r.Provenance.PolicyApplied, []string{"client-preflight"}) {
				t.Fatalf("%s %+v (cause %q) %+v", r.Status, r.Error, r.Error.Cause, r.Provenance)
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

// A name that a subject can only hold a digest of proves nothing, so no client has one.
func TestClientNames(t *testing.T) {
	f := setup(t)
	for name, wrong := range map[string]bool{
		strings.Repeat("a", 100): false, strings.Repeat("a", 101): true, strings.Repeat("é", 16): false,
		strings.Repeat("é", 17): true, "a\xff": true,
	} {
		for what, o := range map[string]toolbus.ClientOptions{"actor": {Actor: name}, "tenant": {Tenant: name}} {
			c, err := toolbus.NewClient(f.NC, o)
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
	_, err = c.Call(t.Context(), toolbus.Call{
		Tool: "echo", Version: "^1", Input: jsontext.Value(`{"n":1}`), Timeout: 3 * time.Second, Key: "0123456789abcdef",
		KeyScope: envelope.ScopeGlobal, Priority: envelope.PriorityHigh, DryRun: true, Retry: retry, CacheKey: "c",
		Budget: jsontext.Value(`{"eur":1}`), MemoryMBLimit: 64, NetAllowlist: []string{"example.org"},
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
			Priority:         envelope.PriorityHigh, CacheKey: "c", Budget: jsontext.Value(`{"eur":1}`), MemoryMBLimit: 64,
			NetAllowlist: []string{"example.org"}, RetryPolicy: retry,
		},
	}
	if diff := cmp.Diff(want, *got); diff != "" {
		t.Error(diff)
	}
}
