package bustest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/kv"
)

// Bus is a NATS server with the topology, and a connection to it.
type Bus struct {
	T   *testing.T
	Srv *natstest.Server
	NC  *nats.Conn
	JS  jetstream.JetStream
	Log *kv.Log
}

// Start starts a Bus. It is stopped when the test ends.
func Start(t *testing.T, options ...natstest.Option) *Bus {
	t.Helper()
	return begin(t, natstest.Start(t, options...), bus.TopologyOptions{})
}

// StartCluster starts a Bus of three servers, each of which has a copy of all streams.
func StartCluster(t *testing.T) *Bus {
	t.Helper()
	return begin(t, natstest.StartCluster(t, 3)[0], bus.TopologyOptions{Replicas: 3})
}

func begin(t *testing.T, srv *natstest.Server, o bus.TopologyOptions) *Bus {
	t.Helper()
	nc := srv.Connect(t, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := bus.Ensure(t.Context(), js, o); err != nil {
		t.Fatal(err)
	}
	log, err := kv.OpenLog(t.Context(), js, kv.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &Bus{T: t, Srv: srv, NC: nc, JS: js, Log: log}
}

// Admit writes the admission of call n. All calls are of one actor.
func (b *Bus) Admit(n int, prio envelope.Priority) call.State {
	return b.admit(n, "agent", prio, 0, 0)
}

// AdmitGreedy writes the admission of call n of an actor with many open calls, which waits in the queue of a
// step.
func (b *Bus) AdmitGreedy(n int, prio envelope.Priority, step int) call.State {
	return b.admit(n, "greedy", prio, step, 0)
}

// AdmitLarge is [Bus.Admit] of a request that is larger by a number of bytes.
func (b *Bus) AdmitLarge(n int, prio envelope.Priority, bytes int) call.State {
	return b.admit(n, "agent", prio, 0, bytes)
}

func (b *Bus) admit(n int, actor string, prio envelope.Priority, step, bytes int) call.State {
	b.T.Helper()
	now := time.Now()
	id := fmt.Sprintf("id%05d", n)
	v := call.Admit(call.State{}, call.AdmitRequest{
		Owner: call.Owner{CallID: id, Actor: actor}, Fingerprint: "fp", Priority: prio, Step: step, Nonce: "q" + id,
		Pinned: call.Pinned{
			Tenant: "t", Tool: "echo", ID: id, Version: "1.0.0", Class: call.Pure, Pool: "default", Fingerprint: "fp",
		},
		Deadline: call.At(now.Add(time.Minute)), Now: call.At(now),
	})
	s, err := b.Log.Write(b.T.Context(), v.Event, fmt.Appendf(nil, `{"request":{%*s}}`, bytes, ""))
	if err != nil {
		b.T.Fatal(err)
	}
	return s
}

// Decide writes the success of the only attempt of s.
func (b *Bus) Decide(s call.State) {
	b.T.Helper()
	r := call.Decide(s, 1, s.Last().Admitted, call.Completion{
		Cause: call.ToolEnded, By: call.ByExecutor, Nonce: "o" + s.ID, Now: call.At(time.Now()),
	})
	if _, err := b.Log.Write(b.T.Context(), r.Event, []byte(`{"response":{}}`)); err != nil {
		b.T.Fatal(err)
	}
}

// Run runs f in a goroutine until the test ends or stop is called. stop waits for f.
func Run(t *testing.T, f func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { f(ctx) })
	stop = func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return stop
}

// WaitForNoConsumers waits until a stream has no consumer. A deletion whose answer nobody waited for may be under way.
func WaitForNoConsumers(t *testing.T, js jetstream.JetStream, stream string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // far less than the server keeps a consumer
	defer cancel()
	for {
		s, err := js.Stream(ctx, stream)
		if err != nil {
			t.Fatalf("consumers are left: %v", err)
		}
		if s.CachedInfo().State.Consumers == 0 {
			return
		}
	}
}
