package dispatcher_test

import (
	"slices"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/call"
)

// A caller whose call times out in the queue, or is cancelled there, is told what its request asked for in vain, such as more time than the
// tool gives.
func TestAskedForInVain(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.manifest.Limits.TimeoutMaxMS = 3000
		w.ask(1, `"timeout_ms":10000`, `"timeout_ms":10000,"memory_mb_limit":64`)
		w.ask(2, `"timeout_ms":10000`, `"timeout_ms":10000,"memory_mb_limit":64`, "key-0123456789abcdef", "key-other-0123456789")
		if _, refusal := w.d.Cancel(t.Context(), from("agent"), w.query(2)); refusal != nil {
			t.Fatal(refusal)
		}
		pass(4 * time.Second)
		for n := 1; n <= 2; n++ {
			w.toldInVain(n)
		}
	})
}

// toldInVain says what caller n must be told of its request.
func (w *world) toldInVain(n int) {
	w.t.Helper()
	r, want := w.outcome(n), []string{"timeout-cut", "memory_mb_limit-ignored"}
	if !slices.Equal(r.Provenance.PolicyApplied, want) || len(r.Warnings) != len(want) {
		w.t.Errorf("%s: policy applied %q, warnings %q", r.Error, r.Provenance.PolicyApplied, r.Warnings)
	}
}
