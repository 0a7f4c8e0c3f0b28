package call_test

import (
	"context"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/call"
)

// A step costs no memory, whether anybody watches or not.
func TestNoAllocation(t *testing.T) {
	seen := 0
	for name, o := range observers(&seen) {
		if n := testing.AllocsPerRun(100, func() {
			o.Emit(t.Context(), call.TraceAfterAdmit, &call.State{Position: call.Position{Seq: 1}},
				1)
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if seen == 0 {
		t.Error("nobody was told")
	}
}

func BenchmarkTell(b *testing.B) {
	for name, o := range observers(new(int)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				o.Emit(b.Context(), call.TraceAfterAdmit, &call.State{Position: call.Position{Seq: 1}}, 1)
			}
		})
	}
}

func observers(seen *int) map[string]*call.Trace {
	return map[string]*call.Trace{
		"nobody":   {},
		"somebody": {Event: func(_ context.Context, s call.TraceEvent) { *seen += s.Attempt }},
	}
}
