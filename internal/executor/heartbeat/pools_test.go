package heartbeat_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// While nobody can write, as when two of three servers are away, nobody can beat. When they are back, nobody is
// taken for dead before there was the time to beat again, also over a connection that was never interrupted.
func TestNobodyCouldBeat(t *testing.T) {
	const lease = 2 * time.Second
	servers := natstest.StartCluster(t, 3)
	urls := strings.Split(servers[2].URL, ",")
	servers[2].URL = urls[2]
	js := servers[2].JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{Replicas: 3}); err != nil {
		t.Fatal(err)
	}
	pools := open(t, js, lease)
	beat := func(instance string) error {
		ctx, cancel := context.WithTimeout(t.Context(), lease/3)
		defer cancel()
		return pools.Beat(ctx, "default", instance)
	}
	until := func(d time.Duration, holds func() bool) {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for end := time.After(d); !holds(); {
			select {
			case <-tick.C:
			case <-end:
				return
			}
		}
	}
	until(time.Minute, func() bool { return beat("other") == nil && beat("me") == nil })
	var beaten time.Time
	until(lease+time.Second, func() bool { // longer than it takes to trust in what beats say
		at := time.Now()
		if beat("other") != nil {
			return true
		}
		beaten = at
		return beat("me") != nil
	})
	if pools.Expired(t.Context(), subjects.Instance("default", "other")) && time.Since(beaten) < lease {
		t.Fatal("an executor that beats is taken for dead")
	}
	servers[0].Stop()
	servers[1].Stop()
	until(2*lease, func() bool { _ = beat("me"); return false })
	servers[0].Restart()
	servers[1].Restart()
	silent := time.Now()
	until(time.Minute, func() bool {
		if beat("me") == nil {
			return true
		}
		silent = time.Now()
		return false
	})
	until(lease/3, func() bool { // what a busy machine looks at later says nothing
		if pools.Expired(t.Context(), subjects.Instance("default", "other")) && time.Since(silent) < lease {
			t.Fatal("an executor that could not beat is taken for dead")
		}
		return false
	})
	until(time.Minute, func() bool {
		return beat("me") == nil &&
			pools.Expired(t.Context(), subjects.Instance("default", "other"))
	})
	if !pools.Expired(t.Context(), subjects.Instance("default", "other")) {
		t.Error("an executor that does not beat any more is not found out")
	}
}

func open(t *testing.T, js jetstream.JetStream, lease time.Duration) *heartbeat.Store {
	t.Helper()
	pools, err := heartbeat.OpenStore(t.Context(), js, lease)
	if err != nil {
		t.Fatal(err)
	}
	return pools
}

func TestPools(t *testing.T) {
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	if _, err := heartbeat.OpenStore(t.Context(), js, time.Second); err == nil {
		t.Error("opened pools that are not there")
	}
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	pools := open(t, js, 3*time.Second) // longer than a busy machine keeps anybody from looking
	alive, ghost := subjects.Instance("default", "e1"), subjects.Instance("default", "e2")
	if err := pools.Beat(t.Context(), "default", "e1"); err != nil {
		t.Fatal(err)
	}
	for pool, want := range map[string]int{"default": 1, "gpu": 0} {
		if n, err := pools.Alive(t.Context(), pool); err != nil || n != want {
			t.Errorf("%d executors of pool %s, %v", n, pool, err)
		}
	}
	if pools.Expired(t.Context(), ghost) {
		t.Error("said gone before others had the time to beat")
	}
	waitFor(t, "the unknown instance to be gone", func() bool { return pools.Expired(t.Context(), ghost) })
	if err := pools.Beat(t.Context(), "default", "e1"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the beating instance to live", func() bool { return !pools.Expired(t.Context(), alive) })
	waitFor(t, "the silent instance to be gone", func() bool { return pools.Expired(t.Context(), alive) })
	if !pools.Expired(t.Context(), "no-instance-of-ours") {
		t.Error("an instance that never beats lives")
	}
	if err := js.Conn().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the connection", func() bool { return js.Conn().Stats().Reconnects > 0 })
	if pools.Expired(t.Context(), alive) {
		t.Error("said gone right after an interruption")
	}
	srv.Stop()
	if pools.Expired(t.Context(), alive) {
		t.Error("said gone without being able to look")
	}
}

// waitFor polls until it holds; the deadline of the test bounds it.
func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s", what)
		}
	}
}
