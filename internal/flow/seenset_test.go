package flow

import (
	"fmt"
	"slices"
	"testing"
)

// What was put in last is remembered, and not much more than is said.
func TestNames(t *testing.T) {
	var r SeenSet
	for n := range 5 * most {
		r.Add(slices.Values([]string{fmt.Sprint(n)}))
		if !r.Has(fmt.Sprint(n)) || n >= most && !r.Has(fmt.Sprint(n-most+1)) {
			t.Fatalf("%d is forgotten too early", n)
		}
	}
	if len(r.young)+len(r.old) > 2*most || r.Has("0") {
		t.Errorf("%d names are remembered", len(r.young)+len(r.old))
	}
}
