package kv_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// A follower stops at an event that it cannot read, and skips nothing.
func TestFollowerStopsAtANewerEvent(t *testing.T) {
	f := setupFollower(t)
	s := f.Admit(1, envelope.PriorityNormal)
	at := f.Newer(s)
	f.Admit(2, envelope.PriorityNormal)
	var seen []uint64
	err := kv.NewFollower(f.JS, 0).Run(t.Context(), 1, func(o kv.FollowedEvent) { seen = append(seen, o.Seq) })
	u, ok := errors.AsType[*kv.Unreadable](err)
	if !ok || u.Seq != at || !format.Newer(err) || len(seen) != 1 || seen[0] != s.Seq {
		t.Fatalf("%v after %d", err, seen)
	}
	stream, err := f.JS.Stream(t.Context(), subjects.Partition(0).Stream())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	u.Gone(t.Context(), f.JS) // it has expired, say
}

// A follower stops at an event of an older build, too, and says what to do.
func TestFollowerStopsAtAnOlderEvent(t *testing.T) {
	f := setupFollower(t)
	s := f.Admit(1, envelope.PriorityNormal)
	e := call.Event{Kind: call.Requested, Attempt: 1, Nonce: s.Attempts[0].Nonce, State: s}
	e.State.ID = "id99999"
	f.Raw(kv.EventSubject(e), "2"+kv.EncodeEvent(e)[1:])
	err := kv.NewFollower(f.JS, 0).Run(t.Context(), 1, func(kv.FollowedEvent) {})
	if !format.IsUnsupported(err) || format.Newer(err) || !strings.Contains(err.Error(), "an older build wrote it") {
		t.Errorf("%v", err)
	}
}

// What is in the log of a key is unknown to a build that cannot read it: it is neither empty nor what it was before.
func TestNewerEventInTheLogOfAKey(t *testing.T) {
	f := setupFollower(t)
	s := f.Admit(1, envelope.PriorityNormal)
	f.Newer(s)
	if last, err := f.Log.Read(t.Context(), s.Tool, s.ID); !format.Newer(err) || !last.State.Empty() {
		t.Errorf("%+v, %v", last.State, err)
	}
	r := call.Decide(s, 1, s.Last().Admitted,
		call.Completion{Cause: call.TimedOut, By: call.ByDeadline, Nonce: "d.1", Now: s.Last().Deadline})
	if _, err := f.Log.Write(t.Context(), r.Event, nil); !format.Newer(err) || !errors.Is(err, call.ErrUnsure) {
		t.Errorf("a write behind it: %v", err)
	}
}

// Streams of Toolbus 0.1 are refused by name, and those of a later release.
func TestStreamsOfOtherBuilds(t *testing.T) {
	f := setupFollower(t)
	for metadata, says := range map[string]string{"": "Toolbus 0.1", "3": "update this process"} {
		stream, err := f.JS.Stream(t.Context(), subjects.Partition(0).Stream())
		if err != nil {
			t.Fatal(err)
		}
		c := stream.CachedInfo().Config
		c.Metadata = map[string]string{subjects.MetaForm: metadata}
		if metadata == "" {
			c.Metadata, c.MaxMsgsPerSubject = nil, 64 // as 0.1 made it
		}
		if _, err := f.JS.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if err := bus.Ensure(t.Context(), f.JS, bus.TopologyOptions{}); !format.IsUnsupported(err) ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", metadata, err)
		}
	}
}
