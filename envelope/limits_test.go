package envelope

import (
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// TestLimitsMatchSchemas holds the constants and the numbers in the schemas together.
func TestLimitsMatchSchemas(t *testing.T) {
	const context, constraints, policy = "context/", "constraints/", "constraints/retry_policy/"
	for path, want := range map[string]int64{
		"tool_id/maxLength":                       MaxToolID,
		"tool_version/maxLength":                  MaxLabel,
		"fn/maxLength":                            MaxID,
		context + "actor_id/maxLength":            MaxID,
		context + "scopes/maxItems":               MaxScopes,
		context + "scopes/items/maxLength":        MaxID,
		context + "parent_span_id/maxLength":      MaxID,
		context + "locale/maxLength":              MaxLabel,
		context + "timezone/maxLength":            MaxLabel,
		context + "session_id/maxLength":          MaxID,
		context + "role_id/maxLength":             MaxID,
		context + "run_id/maxLength":              MaxID,
		context + "lane_id/maxLength":             MaxID,
		context + "scope/maxProperties":           MaxScopeKeys,
		context + "scope/propertyNames/maxLength": MaxLabel,
		context + "evidence/maxItems":             MaxEvidence,
		context + "evidence/items/maxLength":      MaxText,
		constraints + "timeout_ms/minimum":        MinTimeoutMS,
		constraints + "timeout_ms/maximum":        MaxTimeoutMS,
		constraints + "deadline_unix_ms/maximum":  ijson.MaxInteger,
		constraints + "idempotency_key/minLength": MinKey,
		constraints + "idempotency_key/maxLength": MaxKey,
		constraints + "cache_key/maxLength":       MaxText,
		constraints + "memory_mb_limit/minimum":   MinMemoryMB,
		constraints + "net_allowlist/maxItems":    MaxHosts,
		policy + "base_ms/maximum":                MaxTimeoutMS,
		policy + "cap_ms/maximum":                 MaxTimeoutMS,
		policy + "retryable_errors/maxItems":      MaxScopes,
	} {
		if got := schemaNumber(t, RequestSchema(), path); got != want {
			t.Errorf("request.json %s is %d, the constant %d", path, got, want)
		}
	}
	for path, want := range map[string]int64{
		"code/maxLength": MaxCode, "message/maxLength": MaxMessage, "fix/maxLength": MaxMessage, "cause/maxLength": MaxCause,
		"details/violations/maxItems": ijson.MaxViolations, "details/stderr/maxLength": MaxStderr,
		"details/tool_code/maxLength": MaxCode, "details/tool_id/maxLength": MaxID, "details/owner/maxLength": MaxID,
		"details/tool_version/maxLength": MaxID,
	} {
		if got := schemaNumber(t, ErrorSchema(), path); got != want {
			t.Errorf("error.json %s is %d, the constant %d", path, got, want)
		}
	}
}

// schemaNumber returns the number at path, in which each step but a keyword is a property.
func schemaNumber(t *testing.T, s *jsonschema.Schema, path string) int64 {
	t.Helper()
	v := decodeAny(t, s.Raw())
	steps := strings.Split(path, "/")
	for _, step := range steps[:len(steps)-1] {
		m := v.(map[string]any)
		if sub, ok := m[step].(map[string]any); ok && step != "properties" && m["properties"] == nil {
			v = sub
			continue
		}
		m, ok := m["properties"].(map[string]any)
		if !ok || m[step] == nil {
			t.Fatalf("no %s in the schema", path)
		}
		v = m[step]
	}
	n, ok := v.(map[string]any)[steps[len(steps)-1]].(float64)
	if !ok {
		t.Fatalf("no number at %s", path)
	}
	return int64(n)
}

func TestPayloadRef(t *testing.T) {
	ref := PayloadRef{SHA256: strings.Repeat("0f", 32), Bytes: 1 << 20}
	if got := ParsePayloadRef(ref.String()); got == nil || *got != ref {
		t.Errorf("%s came back as %v", ref, got)
	}
	sum := strings.Repeat("a", 64)
	for _, bad := range []string{
		"", "sha256:", sum + ";1", "sha256:" + sum, "sha256:" + sum + ";", "sha256:" + sum + ";-1", "sha256:" + sum + ";+1",
		"sha256:" + sum + ";01",
		"sha256:" + sum + ";1;1", "sha256:" + sum[1:] + ";1", "sha256:" + strings.ToUpper(sum) + ";1", "sha512:" + sum + ";1",
	} {
		if got := ParsePayloadRef(bad); got != nil {
			t.Errorf("%q was parsed as %v", bad, got)
		}
	}
}
