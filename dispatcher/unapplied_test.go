package dispatcher_test

import (
	"slices"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/tool"
)

// A caller whose call times out in the queue is told what its request asked for in vain, such as more time than the
// tool gives.
func TestAskedForInVain(t *testing.T) {
	bubble(t, tool.Pure, func(t *testing.T, w *world) {
		w.manifest.Limits.TimeoutMax = 3 * time.Second
		w.ask(1, `"timeout_ms":10000`, `"timeout_ms":10000,"memory_mb_limit":64`)
		pass(4 * time.Second)
		r := w.outcome(1)
		if want := []string{"timeout-cut", "memory_mb_limit-ignored"}; !slices.Equal(r.Provenance.PolicyApplied, want) || len(r.Warnings) != len(want) {
			t.Errorf("policy applied %q, warnings %q", r.Provenance.PolicyApplied, r.Warnings)
		}
	})
}
