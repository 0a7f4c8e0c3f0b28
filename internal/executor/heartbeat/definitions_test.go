package heartbeat_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// beat is a heartbeat that lives for five seconds.
func beat(executor string, d heartbeat.Definitions) *nats.Msg {
	body, err := json.Marshal(heartbeat.Heartbeat{Form: 2, Pool: "p", Instance: executor, Definitions: d})
	if err != nil {
		panic(err)
	}
	return &nats.Msg{Subject: subjects.PoolSubject("p", executor), Data: body,
		Header: nats.Header{jetstream.MsgTTLHeader: {"5"}}}
}

// TestFindings holds that a tool counts as changed where all executors of its pool say so that have compared it, as
// long as they live.
func TestFindings(t *testing.T) {
	d1 := []heartbeat.ChangedTool{{Tool: "s.x", Definition: "d1"}}
	changed := heartbeat.Definitions{Compared: []string{"s"}, Changed: d1}
	none, fine, other := heartbeat.Definitions{}, heartbeat.Definitions{Compared: []string{"s"}},
		heartbeat.Definitions{Compared: []string{"t"}}
	later := heartbeat.Definitions{Compared: []string{"s"}, Changed: []heartbeat.ChangedTool{{Tool: "s.x",
		Definition: "d2"}}}
	elsewhere, plain := beat("a", changed), beat("a", changed)
	elsewhere.Subject, plain.Data = subjects.PoolSubject("q", "a"), []byte("a")
	full := heartbeat.Definitions{Compared: []string{"t"}, MoreCompared: 1}
	for name, c := range map[string]struct {
		beats []*nats.Msg
		pass  time.Duration
		want  bool
		some  bool
	}{
		"nobody":                                  {},
		"all that there are":                      {beats: []*nats.Msg{beat("a", changed), beat("b", changed)}, want: true},
		"one, and the other has not compared it":  {beats: []*nats.Msg{beat("a", changed), beat("b", other)}, want: true},
		"one, and the other says nothing":         {beats: []*nats.Msg{beat("a", changed), beat("b", none)}, want: true},
		"one, and the other found it as approved": {beats: []*nats.Msg{beat("a", changed), beat("b", fine)}, some: true},
		"one, and the other has no room to say":   {beats: []*nats.Msg{beat("a", changed), beat("b", full)}, some: true},
		"one that has taken it back":              {beats: []*nats.Msg{beat("a", changed), beat("a", fine)}},
		"one that has started anew":               {beats: []*nats.Msg{beat("a", changed), beat("a", none)}},
		"one, and the other has died":             {beats: []*nats.Msg{beat("a", changed)}, pass: 6 * time.Second},
		"one that lives": {beats: []*nats.Msg{beat("a", changed)}, pass: 4 * time.Second,
			want: true},
		"another approved definition": {beats: []*nats.Msg{beat("a", later)}},
		"an executor of another pool": {beats: []*nats.Msg{elsewhere}},
		"no heartbeat":                {beats: []*nats.Msg{{Subject: "tb.x", Data: beat("a", changed).Data}}},
		"an executor of Toolbus 0.1":  {beats: []*nats.Msg{plain}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var f heartbeat.Findings
				for _, msg := range c.beats {
					f.Hear(msg)
				}
				<-time.After(c.pass)
				if all, some := f.Changed("p", "s", "s.x", "d1"); all != c.want || some != c.some {
					t.Errorf("changed for all: %t, for some: %t", all, some)
				}
			})
		})
	}
}

// TestOffered holds that what executors found of servers counts together, as long as they live.
func TestOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f heartbeat.Findings
		f.Hear(beat("a", heartbeat.Definitions{Offered: map[string][]string{"s": {"x", "y"}, "t": {"z"}}}))
		<-time.After(3 * time.Second)
		f.Hear(beat("b", heartbeat.Definitions{Offered: map[string][]string{"s": {"w", "y"}}}))
		want := map[string][]string{"s": {"w", "x", "y"}, "t": {"z"}}
		if diff := cmp.Diff(want, f.Offered()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		<-time.After(3 * time.Second)
		if diff := cmp.Diff(map[string][]string{"s": {"w", "y"}}, f.Offered()); diff != "" {
			t.Errorf("after one has died (-want +got):\n%s", diff)
		}
	})
}

// TestAnnounced holds that announcements to living executors count together, and that a heartbeat names few servers.
func TestAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f heartbeat.Findings
		f.Hear(beat("a", heartbeat.Definitions{Announced: map[string]int64{"s": 2, "t": 1}}))
		<-time.After(3 * time.Second)
		f.Hear(beat("b", heartbeat.Definitions{Announced: map[string]int64{"s": 3}}))
		for server, want := range map[string]int64{"s": 5, "t": 1, "u": 0} {
			if got := f.Announced(server); got != want {
				t.Errorf("%s: %d, want %d", server, got, want)
			}
		}
		<-time.After(3 * time.Second)
		if got := f.Announced("s"); got != 3 {
			t.Errorf("after one has died: %d", got)
		}
	})
	many := heartbeat.Definitions{Announced: map[string]int64{}}
	for n := range 2 * heartbeat.MaxDefinitions {
		many.Announced[fmt.Sprint(n)] = 1
	}
	if got := len(many.Bounded().Announced); got != heartbeat.MaxDefinitions {
		t.Errorf("%d servers in a heartbeat", got)
	}
}

// TestDefinitionsInBeats sends what an executor has found as it does, and holds that it is bounded.
func TestDefinitionsInBeats(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	pools := open(t, js, 3*time.Second)
	said := heartbeat.Definitions{Offered: map[string][]string{"shop": {strings.Repeat("x", 129)}}}
	for n := range 2 * heartbeat.MaxDefinitions {
		said.Compared = append(said.Compared, fmt.Sprint("server", n))
		said.Changed = append(said.Changed, heartbeat.ChangedTool{Tool: fmt.Sprint("tool", n), Definition: "d"})
		said.Offered["shop"] = append(said.Offered["shop"], fmt.Sprintf("tool%03d", n))
	}
	pools.Definitions = func() heartbeat.Definitions { return said }
	var f heartbeat.Findings
	heard := make(chan int, 1)
	sub, err := js.Conn().Subscribe(subjects.PoolsAll, func(msg *nats.Msg) {
		f.Hear(msg)
		heard <- len(msg.Data)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := pools.Beat(t.Context(), "default", "e1"); err != nil {
		t.Fatal(err)
	}
	if n := <-heard; n > 8<<10 {
		t.Errorf("a heartbeat has %d bytes", n)
	}
	_, beat, err := pools.LastAlive(t.Context(), "default")
	const most = heartbeat.MaxDefinitions
	if d := beat.Definitions; err != nil || len(d.Changed) != most || d.MoreChanged != most ||
		len(d.Compared) != most || d.MoreCompared != most || len(d.Offered["shop"]) != most ||
		len(f.Offered()["shop"]) != most {
		t.Errorf("%+v, %v", d, err)
	}
	for tool, want := range map[string]bool{"tool0": true, "tool127": false} {
		if got, _ := f.Changed("default", "server0", tool, "d"); got != want {
			t.Errorf("%s changed: %t", tool, got)
		}
	}
}
