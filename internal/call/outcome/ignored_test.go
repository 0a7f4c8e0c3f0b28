package outcome

import (
	"slices"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// Whatever a request asks for in vain is named, once, beside what there was to say anyway; and nothing else is.
func TestUnapplied(t *testing.T) {
	confidence := 0.5
	given := time.UnixMilli(2000)
	wished := func(r *envelope.Request) time.Time { // at 1000
		due := time.UnixMilli(1000 + r.Constraints.TimeoutMS)
		if at := r.Constraints.DeadlineUnixMS; at > 0 && time.UnixMilli(at).Before(due) {
			return time.UnixMilli(at)
		}
		return due
	}
	for name, edit := range map[string]func(*envelope.Request){
		"memory_mb_limit-ignored": func(r *envelope.Request) { r.Constraints.MemoryMBLimit = 64 },
		"net_allowlist-ignored":   func(r *envelope.Request) { r.Constraints.NetAllowlist = []string{} },
		"budget-ignored":          func(r *envelope.Request) { r.Constraints.Budget = []byte(`{}`) },
		"cache_key-ignored":       func(r *envelope.Request) { r.Constraints.CacheKey = "k" },
		"confidence-ignored":      func(r *envelope.Request) { r.Context.Confidence = &confidence },
		"evidence-ignored":        func(r *envelope.Request) { r.Context.Evidence = []string{"e"} },
		"clock-ignored":           func(r *envelope.Request) { r.Context.Clock = "wall" },
		"timeout-cut":             func(r *envelope.Request) { r.Constraints.TimeoutMS = 1001 },
		"": func(r *envelope.Request) {
			r.Constraints.TimeoutMS, r.Constraints.DeadlineUnixMS = 9000, 2000
		},
	} {
		r := &envelope.Request{Constraints: envelope.Constraints{TimeoutMS: 1000}}
		edit(r)
		said := []string{"said before", "and more"}
		d := Draft{Warnings: said[:1]}.WithIgnoredWarnings(call.Attempt{Ignored: IgnoredFields(r, given, wished(r))})
		want := []string{name}
		if name == "" {
			want = nil
		}
		if !slices.Equal(d.PolicyApplied, want) || len(d.Warnings) != 1+len(want) || d.Warnings[0] != "said before" ||
			said[1] != "and more" {
			t.Errorf("%q: %q, warnings %q", name, d.PolicyApplied, d.Warnings)
		}
	}
	const memory = "constraints.memory_mb_limit has no effect yet: memory is not limited"
	if d := (Draft{}).WithIgnoredWarnings(call.Attempt{Ignored: "m"}); !slices.Equal(d.Warnings, []string{memory}) {
		t.Errorf("memory: %q", d.Warnings)
	}
}

// The warning of a timeout that was cut says how much time the call had, and how much it asked for.
func TestNumbersOfACutTimeout(t *testing.T) {
	const text = "the call had less time than it asked for: a tool gives no more than its limits.timeout_ms_max"
	r := &envelope.Request{Constraints: envelope.Constraints{TimeoutMS: 60_000, MemoryMBLimit: 64}}
	marks := IgnoredFields(r, time.UnixMilli(31_000), time.UnixMilli(61_000))
	for ignored, want := range map[string]string{
		marks: text + "; it had 30s, and asked for 1m0s", "tm": text, // an older build notes no number
	} {
		d := Draft{}.WithIgnoredWarnings(call.Attempt{At: 1000, Deadline: 31_000, Ignored: ignored})
		if len(d.Warnings) != 2 || d.Warnings[0] != want {
			t.Errorf("%q: %q", ignored, d.Warnings)
		}
	}
}
