package bench

import (
	"math"
	"testing"
)

// An embedded server has no CPU time of its own. All figures must be valid JSON numbers, so none may be NaN.
func TestIdentityFactsOfAnEmbeddedServer(t *testing.T) {
	with := &Stats{PerSecond: 900, CPU: 290, OwnCPU: 290}
	without := &Stats{PerSecond: 1000, CPU: 250, OwnCPU: 250}
	for _, server := range []float64{0, 100} {
		with.ServerCPU, without.ServerCPU = server, server
		facts := identityFacts("", with, without)
		if want := 3 + int(server/100); len(facts) != want {
			t.Errorf("%d facts, want %d", len(facts), want)
		}
		for _, f := range facts {
			if math.IsNaN(f.Value) || math.IsInf(f.Value, 0) {
				t.Errorf("%s is %v", f.Name, f.Value)
			}
		}
	}
}
