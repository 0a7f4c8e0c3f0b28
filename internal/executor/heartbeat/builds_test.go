package heartbeat_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// lackingBeat is a heartbeat of an executor of pool p that lives for five seconds.
func lackingBeat(executor string, missing ...heartbeat.MissingBuild) *nats.Msg {
	body, err := json.Marshal(heartbeat.Heartbeat{Form: 2, Pool: "p", Instance: executor, Missing: missing})
	if err != nil {
		panic(err)
	}
	return &nats.Msg{Subject: subjects.PoolSubject("p", executor), Data: body,
		Header: nats.Header{jetstream.MsgTTLHeader: {"5"}}}
}

// A build counts as lacking as long as all executors of its pool that live and were heard say that they do not have it.
func TestLacking(t *testing.T) {
	a := heartbeat.MissingBuild{Tool: "t", Build: "a", Has: "b"}
	none, other := heartbeat.MissingBuild{Tool: "t", Build: "a"}, heartbeat.MissingBuild{Tool: "u", Build: "a"}
	elsewhere := lackingBeat("y")
	elsewhere.Subject = subjects.PoolSubject("q", "y")
	for name, c := range map[string]struct {
		beats []*nats.Msg
		pass  time.Duration
		want  bool
	}{
		"no executor":  {},
		"the only one": {beats: []*nats.Msg{lackingBeat("x", a)}, want: true},
		"all": {beats: []*nats.Msg{lackingBeat("x", other, a), lackingBeat("y", none)},
			want: true},
		"another one says nothing":       {beats: []*nats.Msg{lackingBeat("x", a), lackingBeat("y")}},
		"another one lacks another tool": {beats: []*nats.Msg{lackingBeat("x", a), lackingBeat("y", other)}},
		"it says so no longer":           {beats: []*nats.Msg{lackingBeat("x", a), lackingBeat("x")}},
		"another pool":                   {beats: []*nats.Msg{lackingBeat("x", a), elsewhere}, want: true},
		"it has died":                    {beats: []*nats.Msg{lackingBeat("x", a)}, pass: 6 * time.Second},
		"another one still lives": {beats: []*nats.Msg{lackingBeat("y"), lackingBeat("x", a)},
			pass: 4 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var f heartbeat.Findings
				for _, msg := range c.beats {
					f.Hear(msg)
				}
				<-time.After(c.pass)
				if got := f.Lacking("p", "t", "a"); got != c.want {
					t.Errorf("lacking: %t", got)
				}
			})
		})
	}
}

// A tool counts as one that cannot run as long as all executors of its pool say so.
func TestUnrunnable(t *testing.T) {
	says := func(executor string, tools ...string) *nats.Msg {
		msg := lackingBeat(executor)
		b := heartbeat.Heartbeat{Form: 2, Pool: "p", Instance: executor}
		for _, one := range tools {
			b.Unrunnable = append(b.Unrunnable, heartbeat.UnrunnableTool{Tool: one, Why: "no program"})
		}
		body, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		msg.Data = body
		return msg
	}
	var f heartbeat.Findings
	for i, step := range []struct {
		msg  *nats.Msg
		want bool
	}{
		{says("x"), false},
		{says("x", "u", "t"), true},
		{says("y", "u"), false},
		{says("y", "t"), true},
		{says("x"), false},
	} {
		f.Hear(step.msg)
		if got := f.Unrunnable("p", "t"); got != step.want {
			t.Errorf("step %d: %t", i, got)
		}
	}
}

// Once the heartbeats of the executors that say nothing have expired, those that go on decide.
func TestLackingAfterADeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f heartbeat.Findings
		a := heartbeat.MissingBuild{Tool: "t", Build: "a"}
		for n := range 8 {
			if n < 2 {
				f.Hear(lackingBeat("dies"))
			}
			f.Hear(lackingBeat("stays", a))
			if got := f.Lacking("p", "t", "a"); got != (n == 7) {
				t.Errorf("after %d s: %t", n, got)
			}
			<-time.After(time.Second)
		}
	})
}

// It is certain that no executor has a build when every heartbeat in the bucket says so. It is not certain within a
// lease after the start or an interruption.
func TestNoneHas(t *testing.T) {
	const lease = 3 * time.Second
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	pools := open(t, js, lease)
	none := func() ([]string, bool) {
		t.Helper()
		has, certain, err := pools.NoneHas(t.Context(), "p", "t", "a")
		if err != nil {
			t.Fatal(err)
		}
		return has, certain
	}
	send := func(executor string, missing ...heartbeat.MissingBuild) {
		t.Helper()
		msg := lackingBeat(executor, missing...)
		msg.Header.Set(jetstream.MsgTTLHeader, "3600")
		if _, err := js.PublishMsg(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
	}
	send("x", heartbeat.MissingBuild{Tool: "t", Build: "a", Has: "c"})
	send("y", heartbeat.MissingBuild{Tool: "t", Build: "a", Has: "b"})
	send("z", heartbeat.MissingBuild{Tool: "t", Build: "a", Has: "c"})
	if _, certain := none(); certain {
		t.Error("certain before a lease has passed")
	}
	waitFor(t, "certainty", func() bool { _, certain := none(); return certain })
	if has, _ := none(); !slices.Equal(has, []string{"b", "c"}) {
		t.Errorf("they have %q", has)
	}
	others := map[string]heartbeat.MissingBuild{"build": {Tool: "t", Build: "b"}, "tool": {Tool: "u", Build: "a"}}
	for name, build := range others {
		if _, certain, err := pools.NoneHas(t.Context(), "p", build.Tool, build.Build); certain || err != nil {
			t.Errorf("of another %s it is certain, %v", name, err)
		}
	}
	if _, certain, err := pools.NoneHas(t.Context(), "q", "t", "a"); certain || err != nil {
		t.Errorf("of a pool without executors it is certain, %v", err)
	}
	send("y")
	if _, certain := none(); certain {
		t.Error("certain although one of them does not say so")
	}
	send("y", heartbeat.MissingBuild{Tool: "t", Build: "a"})
	if _, certain := none(); !certain {
		t.Error("not certain, although all say so")
	}
	newer := lackingBeat("newer")
	newer.Data = []byte(`{"form":99}`)
	newer.Header.Set(jetstream.MsgTTLHeader, "3600")
	if _, err := js.PublishMsg(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	if _, certain := none(); certain {
		t.Error("certain although one heartbeat cannot be read")
	}
	send("newer", heartbeat.MissingBuild{Tool: "t", Build: "a"})
	if _, certain := none(); !certain {
		t.Error("not certain, although all say so again")
	}
	srv.Stop()
	srv.Restart()
	waitFor(t, "the connection", func() bool { return js.Conn().Stats().Reconnects > 0 })
	if _, certain, _ := pools.NoneHas(t.Context(), "p", "t", "a"); certain {
		t.Error("certain right after an interruption")
	}
}

// A heartbeat has at most 32 missing builds, however many there are.
func TestMissingInBeats(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	pools := open(t, js, 3*time.Second)
	var all []heartbeat.MissingBuild
	for n := range 2 * heartbeat.MaxMissing {
		all = append(all, heartbeat.MissingBuild{Tool: "t", Build: fmt.Sprint("sha256:", n)})
	}
	pools.Missing = func() []heartbeat.MissingBuild { return all }
	if err := pools.Beat(t.Context(), "default", "e1"); err != nil {
		t.Fatal(err)
	}
	_, beat, err := pools.LastAlive(t.Context(), "default")
	if err != nil || !slices.Equal(beat.Missing, all[:heartbeat.MaxMissing]) {
		t.Errorf("%+v, %v", beat.Missing, err)
	}
}

// A heartbeat has the builds of the executor, as far as there is room, and says if there are more.
func TestBeatHasBuilds(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	pools := open(t, js, time.Minute)
	for _, c := range []struct{ tools, listed int }{{0, 0}, {3, 3}, {300, 132}} {
		pools.Builds = func() heartbeat.Builds {
			all := heartbeat.Builds{}
			for i := range c.tools {
				all[fmt.Sprintf("t%03d", i)] = []string{"sha256:aaaaaaaaaaaa"}
			}
			return all
		}
		if err := pools.Beat(t.Context(), "p", "e"); err != nil {
			t.Fatal(err)
		}
		alive, err := pools.AllAlive(t.Context())
		if err != nil || len(alive) != 1 {
			t.Fatalf("%+v, %v", alive, err)
		}
		b := alive[0]
		if len(b.Builds) != c.listed || b.Builds == nil || b.MoreBuilds != (c.listed < c.tools) {
			t.Errorf("of %d tools: %d, %t", c.tools, len(b.Builds), b.MoreBuilds)
		}
		if has, known := b.HasBuild("t000", "sha256:aaaaaaaaaaaa"); has != (c.tools > 0) || !known {
			t.Errorf("of %d tools, the first: %t, %t", c.tools, has, known)
		}
		if has, known := b.HasBuild("t999", "sha256:aaaaaaaaaaaa"); has || known != (c.listed == c.tools) {
			t.Errorf("of %d tools, another: %t, %t", c.tools, has, known)
		}
	}
}
