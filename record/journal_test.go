package record

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/internal/bustest"
	"github.com/seed-018f16cc/toolbus/internal/natstest"
	"github.com/seed-018f16cc/toolbus/kv"
)

// Whoever asks again under its call id is on record once.
func TestAllowedOnce(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	log, err := kv.OpenLog(t.Context(), js, kv.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	recorded := func() (n int) {
		for _, err := range Replay(t.Context(), Direct(js), Filter{}) {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	v := call.Admit(call.State{}, call.Ask{
		Owner: call.Owner{CallID: "owner", Actor: "agent"},
		Facts: call.Facts{Tenant: "t", Tool: "echo", ID: "id", Class: call.Pure, Pool: "default"},
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
		if err := g.Allowed(t.Context(), s, 1, who); err != nil {
			t.Fatal(err)
		}
	}
	if n := recorded(); n != 2 {
		t.Errorf("%d records of two who asked", n)
	}
}

// What was put in last is remembered, and not much more than is said.
func TestRemembered(t *testing.T) {
	var r remembered
	for n := range 5 * maxRemembered {
		r.add(slices.Values([]string{fmt.Sprint(n)}))
		if !r.has(fmt.Sprint(n)) || n >= maxRemembered && !r.has(fmt.Sprint(n-maxRemembered+1)) {
			t.Fatalf("%d is forgotten too early", n)
		}
	}
	if len(r.young)+len(r.old) > 2*maxRemembered || r.has("0") {
		t.Errorf("%d names are remembered", len(r.young)+len(r.old))
	}
}
