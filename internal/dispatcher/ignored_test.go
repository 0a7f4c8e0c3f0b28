package dispatcher_test

import (
	"slices"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/call"
)

// A caller whose call times out in the queue, or is cancelled there, is told what its request asked for in vain, such
// as more time than the tool gives.
func TestAskedForInVain(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.manifest.Limits.TimeoutMaxMS = 3000
		w.ask(1, inVain...)
		w.ask(2, otherInVain...)
		if _, refusal := w.d.Cancel(t.Context(), from("agent"), w.query(2)); refusal != nil {
			t.Fatal(refusal)
		}
		pass(4 * time.Second)
		for n := 1; n <= 2; n++ {
			w.toldInVain(n)
		}
	})
}

// So it is where others have joined the call, and where its executor has claimed it and died.
func TestAskedForInVainLater(t *testing.T) {
	for name, later := range map[string]func(w *world, edit []string){
		"joined":  func(w *world, edit []string) { w.ask(3, edit...) },
		"claimed": func(w *world, _ []string) { w.claim() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, call.Pure, func(t *testing.T, w *world) {
				w.manifest.Limits.TimeoutMaxMS = 3000
				w.ask(1, inVain...)
				later(w, inVain)
				pass(4 * time.Second)
				w.toldInVain(1)
				w.ask(2, otherInVain...)
				later(w, otherInVain)
				if _, refusal := w.d.Cancel(t.Context(), from("agent"), w.query(2)); refusal != nil {
					t.Fatal(refusal)
				}
				w.toldInVain(2)
			})
		})
	}
}

// Requests that ask for more time than the tool gives, and for a limit that has no effect, under two keys.
var (
	inVain      = []string{`"timeout_ms":10000`, `"timeout_ms":10000,"memory_mb_limit":64`}
	otherInVain = append(slices.Clone(inVain), "key-0123456789abcdef", "key-other-0123456789")
)

// toldInVain says what caller n must be told of its request.
func (w *world) toldInVain(n int) {
	w.t.Helper()
	r, want := w.outcome(n), []string{"timeout-cut", "memory_mb_limit-ignored"}
	if !slices.Equal(r.Provenance.PolicyApplied, want) || len(r.Warnings) != len(want) {
		w.t.Errorf("%s: policy applied %q, warnings %q", r.Error, r.Provenance.PolicyApplied, r.Warnings)
	}
}
