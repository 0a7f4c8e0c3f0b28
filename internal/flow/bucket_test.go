package flow

import (
	"testing"
	"time"
)

func TestBucket(t *testing.T) {
	b, now := Bucket{Rate: 10, Burst: 3}, time.Now()
	take := func(want int) {
		t.Helper()
		for range want {
			if !b.Take(now) {
				t.Fatal("too few")
			}
		}
		if b.Take(now) {
			t.Fatal("too many")
		}
	}
	take(3)
	now = now.Add(100 * time.Millisecond)
	take(1)
	if b.Idle(now) {
		t.Error("a full bucket is idle")
	}
	if now = now.Add(time.Hour); !b.Idle(now) {
		t.Error("an empty bucket is not idle")
	}
	take(3)
	if now = now.Add(-time.Hour); b.Take(now) { // clocks are set
		t.Error("the past fills it")
	}
}
