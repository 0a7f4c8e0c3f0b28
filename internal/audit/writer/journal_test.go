package writer

import (
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/kv"
)

// A caller that repeats a request with the same call id is recorded once.
func TestSharedOnce(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	log, err := kv.OpenLog(t.Context(), js, kv.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	v := call.Admit(call.State{}, call.AdmitRequest{
		Owner:  call.Owner{CallID: "owner", Actor: "agent"},
		Pinned: call.Pinned{Tenant: "t", Tool: "echo", ID: "id", Class: call.Pure, Pool: "default"},
	})
	s, err := log.Write(t.Context(), v.Event, []byte(`{"request":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	g := NewJournal(js, "process", time.Now, func() string { return "n" }, nil)
	bustest.Run(t, g.Run)
	for _, asks := range [][]string{{"a"}, {"a"}, {"a", "b"}, {"b", "a"}} {
		var who []call.Owner
		for _, id := range asks {
			who = append(who, call.Owner{CallID: id, Actor: "agent"})
		}
		if err := g.Shared(t.Context(), s, 1, who); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(recorded(t, js)); n != 2 {
		t.Errorf("%d records of two who asked", n)
	}
}
