package flow

import (
	"fmt"
	"testing"
	"time"
)

// A fact is known for its time, unless too many others came since.
func TestFacts(t *testing.T) {
	f, now := NewTTLMap[int](3, time.Minute), time.Unix(1_000, 0)
	for n := range 10 {
		name := fmt.Sprint(n)
		f.Put(name, n+1, now)
		if got := f.Get(name, now.Add(time.Minute-1)); got != n+1 || len(f.all) > 3 {
			t.Errorf("%s is %d, of %d", name, got, len(f.all))
		}
	}
	if f.Get("9", now.Add(time.Minute)) != 0 || f.Get("unknown", now) != 0 || len(f.all) != 2 {
		t.Errorf("%d are known when their time is over", len(f.all))
	}
}
