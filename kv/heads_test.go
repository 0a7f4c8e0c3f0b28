package kv_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/kv"
)

// A process that knows a call with a large input reads its state without the input: what it gets is as new as what the
// leader has, after a claim and a decision of others, too,
// whether it has followed them or not.
func TestHeadsWithoutBodies(t *testing.T) {
	f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
	other, err := kv.OpenLog(t.Context(), f.js, kv.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	large := bytes.Repeat([]byte("x"), 400<<10)
	requested, err := other.Write(t.Context(), admission(t, call.State{}, "id1", "A", time.Minute), large)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := f.log.Head(t.Context(), "web.fetch", "id1"); err != nil || len(e.Body) != len(large) {
		t.Fatalf("the first time: %d bytes, %v", len(e.Body), err)
	}
	received := func(of string, do func()) {
		t.Helper()
		before := f.js.Conn().Stats().InBytes
		do()
		if n := f.js.Conn().Stats().InBytes - before; n > 64<<10 {
			t.Errorf("%s: %d bytes were received", of, n)
		}
	}
	head := func(of string, want call.State) {
		t.Helper()
		received(of, func() {
			e, err := f.log.Head(t.Context(), "web.fetch", "id1")
			if err != nil || e.State.Seq != want.Seq || e.State.Last().Open() != want.Last().Open() {
				t.Errorf("%s: %+v, %v", of, e, err)
			}
		})
	}
	head("requested", requested)
	received("time of the request", func() {
		at, err := f.log.StoredAt(t.Context(), requested, requested.Last().Admitted)
		if err != nil || time.Since(at).Abs() > time.Minute {
			t.Errorf("stored at %s, %v", at, err)
		}
	})
	claimed, err := other.Write(t.Context(), claim(t, requested, "e1"), nil)
	if err != nil {
		t.Fatal(err)
	}
	f.log.Followed(kv.FollowedEvent{Kind: call.Claimed, Attempt: 1, State: claimed, Time: time.Now()})
	head("claimed", claimed)
	decided, err := other.Write(t.Context(), timeout(claimed, "d"), body)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := f.log.Head(t.Context(), "web.fetch", "id1"); err != nil || e.State.Last().Open() {
		t.Errorf("decided, and not followed: %+v, %v", e, err)
	}
	head("decided", decided)
	received("time of the request, later", func() {
		if at, err := f.log.StoredAt(t.Context(), decided, requested.Last().Admitted); err != nil || at.IsZero() {
			t.Errorf("stored at %s, %v", at, err)
		}
	})
}
