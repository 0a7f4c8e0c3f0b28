package toolbus_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// breaking is a program that breaks what breakable declares: it takes 40 MB, runs longer than 1 ms,
// connects to a host, and reports a write to a target that is not declared.
const breaking = `#!/usr/bin/env bash
read -r request
filled=$(head -c 40000000 /dev/zero | tr '\0' a)
exec 3<>/dev/tcp/127.0.0.1/%d
exec 3>&-
effect='{"kind":"write","target":"file:///other"}'
printf '{"type":"output","output":{"secret":"%%d bytes"},"side_effects":[%%s]}\n' ${#filled} "$effect"
`

// breakable declares every field that has no effect yet, with values that the calls of the test break.
const breakable = `tool_id: breakable
semver: 1.0.0
owner: "@team"
description: Breaks what it declares.
determinism: idempotent
schema: {request: {}, response: {}}
capabilities: {net_allowlist: []}
limits: {memory_mb_max: 16, timeout_ms_attempt: 1}
security: {secret_refs: [TOKEN], redaction_rules: [/secret], data_classification: restricted}
retry_policy: {strategy: none, max_attempts: 1, base_ms: 1, cap_ms: 1, jitter: none}
rate_limit: {tokens: 1, interval_ms: 86400000}
circuit_breaker: {error_rate_max: 0, latency_ms_max: 1, cooldown_ms: 86400000}
budgets: {agent: {time_ms: 1, cost: 0}, role: {time_ms: 1, cost: 0}, environment: {time_ms: 1, cost: 0}}
slo: {success_rate_min: 1, p95_latency_ms_max: 1}
health: {readiness: "cmd:false", liveness: "cmd:false"}
`

// Each field that the reference calls declared only has no effect: calls that break all of them succeed. Each is named
// as such to callers. A field that gets an effect must leave this list and the reference.
func TestDeclaredOnlyFieldsHaveNoEffect(t *testing.T) {
	hosts, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer hosts.Close()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "breakable", "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "breakable", "tool.yaml"), breakable)
	program := filepath.Join(dir, "breakable", "bin", "breakable")
	write(t, program, fmt.Sprintf(breaking, hosts.Addr().(*net.TCPAddr).Port))
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	bus := serving(t, dir)
	for range 2 { // the rate, the budgets and the breaker are for one call
		r, err := bus.Call(t.Context(), toolbus.Call{Tool: "breakable", Input: []byte(`{"force":true}`)})
		if err != nil || string(r.Output) != `{"secret":"40000000 bytes"}` || r.Metrics.MemoryPeakMB <= 16 {
			t.Fatalf("%v, %+v", err, r)
		}
	}
	info, err := bus.Tool(t.Context(), "breakable")
	if err != nil {
		t.Fatal(err)
	}
	fields, err := tool.Fields()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		named := slices.ContainsFunc(info.DeclaredOnly, func(name string) bool {
			return f.Name == name || strings.HasPrefix(f.Name, name+".")
		})
		if named != (f.State == "declared only") {
			t.Errorf("the reference says of %s: %s; callers are told that it has no effect: %t", f.Name, f.State, named)
		}
	}
}
