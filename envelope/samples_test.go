package envelope

import (
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// Samples of every wire type: the least that is valid, and all there is.

const sampleCall = "0b8f5b0e-5c1d-4f0e-9f5e-0d5a3c1b2a4d"

func minimalRequest() *Request {
	return &Request{
		CallID: sampleCall, ToolID: "search.web", ToolVersion: "1.x", Fn: "query", Input: jsontext.Value(`{"query":"tea"}`),
		Context: RequestContext{ActorID: "agent://uicp/primary", TraceID: "6f1c7b1e-8a8e-4c57-9d0c-2f4f9f0f6a11",
			Timezone: "UTC", Env: "prod"},
		Constraints: Constraints{TimeoutMS: 15000, DeadlineUnixMS: 1734378895123, IdempotencyKey: "sha256-9f86d081884c7d65"},
	}
}

func fullRequest() *Request {
	q := minimalRequest()
	confidence := 0.97
	q.ToolID = "mcp::github::issues.create"
	q.Input = jsontext.Value(`{"title":"Größe 😀","n":[1,-2.5,1e-7,true,null],"deep":{"a":{"b":[]}}}`)
	q.Context = RequestContext{
		ActorID: "agent://uicp/primary", Scopes: []string{"read:web", "write:issues"}, TraceID: q.Context.TraceID,
		ParentSpanID: "a2fb4a1d1a96d312", Locale: "en-US", Timezone: "UTC", Clock: "monotonic", Env: "prod",
		SessionID: "s-1", RoleID: "researcher", RunID: "run-7", LaneID: "lane-a",
		Scope: map[string]string{"case_id": "C-1", "tenant": "acme"}, Confidence: &confidence,
		Evidence: []string{"https://example.com/a"},
	}
	q.Constraints = Constraints{
		TimeoutMS: 15000, DeadlineUnixMS: 1734378895123, IdempotencyKey: "sha256-9f86d081884c7d65",
		IdempotencyScope: ScopeSession, Priority: PriorityHigh, PreferStreaming: true, CacheKey: "tea",
		Budget: jsontext.Value(`{"usd":0.25}`), MemoryMBLimit: 512, NetAllowlist: []string{"https://*.wikipedia.org"},
		RetryPolicy: &RetryPolicy{
			MaxAttempts: 3, BaseMS: 200, CapMS: 2000, Jitter: "full", BackoffMultiplier: 1.5, JitterPercent: 20,
			RetryableErrors: []string{"R-TIMEOUT-001"},
		},
	}
	q.Provenance = jsontext.Value(`{"agent_version":"uicp-agent@2.7.0","commit":"git:abc123"}`)
	q.DryRun = true
	return q
}

// openRequest is a full one with members that only a newer peer knows.
func openRequest() *Request {
	q := fullRequest()
	q.Context.Extra, q.Constraints.RetryPolicy.Extra = extraOf("context"), extraOf("policy")
	return q
}

func sampleProvenance() Provenance {
	return Provenance{ToolID: "search.web", ToolVersion: "1.4.2", Digest: "sha256:abcdef", Attempt: 1, Fence: 42,
		Final: true}
}

func minimalResponse() *Response {
	return &Response{CallID: sampleCall, Status: Success, Output: jsontext.Value(`{"results":[]}`),
		Provenance: sampleProvenance()}
}

func fullResponse() *Response {
	p := sampleProvenance()
	p.Replayed, p.AuditEventID, p.PolicyApplied = true, "log:17", []string{"rate", "breaker"}
	p.Chunks = &Chunks{Count: 3, Digest: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}
	r := &Response{CallID: sampleCall, Status: Success,
		Output: jsontext.Value(`{"results":[{"title":"Tea","score":0.5}]}`), Metrics: Metrics{DurationMS: 612, CPUMS: 211,
			MemoryPeakMB: 74, QueueMS: 3, Attempts: 1}, Provenance: p}
	token := "ct-1"
	r.SideEffects = []jsontext.Value{jsontext.Value(`{"kind":"write","target":"file:///cache/index","bytes":4096}`)}
	r.Warnings, r.CommitToken = []string{"upstream returned partial content"}, &token
	return r
}

func refResponse() *Response {
	p := sampleProvenance()
	p.OutputRef = &PayloadRef{SHA256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", Bytes: 1 << 20}
	return &Response{CallID: sampleCall, Status: Success, Metrics: Metrics{DurationMS: 10}, Provenance: p}
}

func retryableResponse() *Response {
	e := NewError(ToolErrorCode(ClassUpstream, "fetch_failed"), "Rate limited by upstream").
		WithEffect(EffectNone).WithRetryAfter(500 * time.Millisecond).WithCause("GET https://example.com: 429").
		WithToolCode("fetch_failed").WithHTTPStatus(502).WithStderr("retrying\ngiving up\n").WithFix("wait").
		WithDetails(jsontext.Value(`{"status":429,"effect":"applied"}`))
	return Failure(sampleCall, e, sampleProvenance(), Metrics{DurationMS: 80, Attempts: 1})
}

// openResponse is an error with members that only a newer peer knows.
func openResponse() *Response {
	r := retryableResponse()
	r.Error.Extra, r.Metrics.Extra, r.Provenance.Extra = extraOf("error"), extraOf("metrics"), extraOf("provenance")
	return r
}

func invalidResponse() *Response {
	e := NewError(CodeSchema, "").WithViolations(jsonschema.Violation{Pointer: "/context/env", Rule: "required",
		Message: "is missing"})
	return Failure("not a uuid", e, Provenance{ToolID: "search.web", Final: true}, Metrics{})
}

func sampleAccepted() *Accepted {
	return &Accepted{
		CallID: sampleCall, Ref: "search_2eweb.0123456789abcdefghijklmnopqrstuv", Attempt: 1, Joined: true,
		DeadlineUnixMS: 1734378895123, ToolVersion: "1.4.2",
	}
}

// rules says what is broken where.
func rules(found []jsonschema.Violation) (s []string) {
	for _, v := range found {
		s = append(s, v.Pointer+" "+v.Rule)
	}
	return s
}

func decodeAny(t *testing.T, v jsontext.Value) (doc any) {
	t.Helper()
	if err := json.Unmarshal(v, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}
