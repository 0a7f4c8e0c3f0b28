package envelope_test

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// A request that breaks several rules is refused with all of them at once.
func ExampleDecodeRequest() {
	_, e := envelope.DecodeRequest(envelope.ContentJSON, []byte(`{
		"call_id": "0b8f5b0e-5c1d-4f0e-9f5e-0d5a3c1b2a4d", "tool_id": "web.fetch", "tool_version": "1.x", "fn": "fetch",
		"input": {"url": "https://example.com"},
		"context": {"actor_id": "agent://a", "trace_id": "6f1c7b1e-8a8e-4c57-9d0c-2f4f9f0f6a11", "timezone": "UTC",
			"env": "test"},
		"constraints": {"timeout_ms": 0, "deadline_unix_ms": 0}
	}`))
	fmt.Println(e.Code, e.Code.Status())
	for _, v := range e.Details.Violations {
		fmt.Println(v.Pointer, v.Message)
	}
	// Output:
	// I-REQ-SCHEMA invalid_request
	// /constraints/idempotency_key is missing
	// /constraints/timeout_ms must be at least 1
	// /context/env must be one of "prod", "staging", "dev"
}

// An agent computes the key of a call from what the call is, so a second try is the same call.
func ExampleStableKey() {
	key, err := envelope.StableKey("web.fetch", "fetch", "1.x", jsontext.Value(`{"url": "https://example.com"}`))
	fmt.Println(key, err)
	// Output: sha256-3c03582305cfb1baf955d0e3838a9251e1119ca2d03ae034f277d7a744c81622 <nil>
}

// A tool's own error becomes a subcode of its class, and the taxonomy fills in the rest.
func ExampleNewError() {
	code := envelope.ToolErrorCode(envelope.ClassUpstream, "fetch_failed")
	e := envelope.NewError(code, "example.com answered 503").
		WithToolCode("fetch_failed").WithEffect(envelope.EffectNone).WithRetryAfter(2 * time.Second)
	fmt.Println(e)
	fmt.Println(code.Status(), e.Details.RetryAfterMS, e.Diagnostic.ErrorCode)
	// Output:
	// R-UPSTREAM-FETCH_FAILED: example.com answered 503
	// retryable_error 2000 TOOL_DEPENDENCY_DOWN
}
