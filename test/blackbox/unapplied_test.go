package blackbox

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// What a request asks for in vain is said in the outcome, also to those that are told it later.
func TestAskedForInVain(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	d.dispatcher()
	d.executor(6)
	c := d.client()
	confidence := 0.9
	ask := toolbus.Call{
		Tool: "echo", Key: "in-vain-0123456789", Timeout: 5 * time.Minute, CacheKey: "k", Budget: []byte(`{"eur":1}`),
		MemoryMBLimit: 64,
		NetAllowlist:  []string{"example.org"}, Context: envelope.RequestContext{Confidence: &confidence},
	}
	want := []string{
		"timeout-cut", "memory_mb_limit-ignored", "net_allowlist-ignored", "budget-ignored", "cache_key-ignored",
		"confidence-ignored",
	}
	told := func(ask toolbus.Call, want []string) {
		t.Helper()
		r := mustCall(t, c, ask)
		wantStatus(t, r, envelope.Success, "")
		if !slices.Equal(r.Provenance.PolicyApplied, want) || len(r.Warnings) != len(want) {
			t.Errorf("policy applied %q, warnings %q", r.Provenance.PolicyApplied, r.Warnings)
		}
	}
	told(ask, want)
	told(toolbus.Call{Tool: "echo", Key: ask.Key}, want)
	told(toolbus.Call{Tool: "echo", Key: "not-in-vain-0123456789"}, nil)
}
