package blackbox

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// cluster is three servers under calls.
type cluster struct {
	*busDeployment
	servers []*natstest.Server
	done    atomic.Int64 // calls that succeeded
}

// leader returns the server that leads the call log; nil while there is none.
func (c *cluster) leader(js jetstream.JetStream) *natstest.Server {
	info := c.info(js)
	if info == nil {
		return nil
	}
	for _, s := range c.servers {
		if s.Name() == info.Cluster.Leader {
			return s
		}
	}
	return nil
}

func (c *cluster) info(js jetstream.JetStream) *jetstream.StreamInfo {
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Second)
	defer cancel()
	stream, err := js.Stream(ctx, subjects.Partition(0).Stream())
	if err != nil || stream.CachedInfo().Cluster == nil {
		return nil
	}
	return stream.CachedInfo()
}

// whole reports whether the log has a leader and two replicas that keep up.
func (c *cluster) whole(js jetstream.JetStream) bool {
	info := c.info(js)
	if info == nil || info.Cluster.Leader == "" || len(info.Cluster.Replicas) != 2 {
		return false
	}
	for _, r := range info.Cluster.Replicas {
		if !r.Current || r.Offline {
			return false
		}
	}
	return true
}

// Whichever of three servers goes, and comes again, while calls run: every call has its one outcome, a
// side-effectful one at most one effect, and calls go on.
func TestThreeServers(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	effects := map[string]int{}
	servers := natstest.StartCluster(t, 3)
	d := deployOn(t, servers[0], map[string]spec{"pay": {
		class: call.SideEffectful, run: func(_ context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
			mu.Lock()
			defer mu.Unlock()
			effects[string(inv.Input)]++
			return tool.Result{Output: []byte(`{}`)}, nil
		},
	}})
	d.topology.Replicas = 3
	for range 2 {
		d.dispatcher()
		d.executor(8)
	}
	c := &cluster{busDeployment: d, servers: servers}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var callers sync.WaitGroup
	for i := range 4 {
		callers.Go(func() { c.pay(ctx, d.client(), i) })
	}
	js := d.srv.JetStream(t)
	for range servers {
		goesOn := c.done.Load() + 20
		eventually(t, "calls go on", func() bool { return c.done.Load() >= goesOn && c.whole(js) })
		lost := c.leader(js)
		if lost == nil {
			t.Fatal("the log has no leader")
		}
		lost.Stop()
		goesOn = c.done.Load() + 20
		eventually(t, "calls go on without "+lost.Name(), func() bool { return c.done.Load() >= goesOn })
		lost.Restart()
	}
	eventually(t, "the log is whole again", func() bool { return c.whole(js) })
	stop()
	callers.Wait()
	c.noneRefusedByLag()
	mu.Lock()
	defer mu.Unlock()
	for input, n := range effects {
		if n != 1 {
			t.Errorf("%s took effect %d times", input, n)
		}
	}
	if done := c.done.Load(); int(done) > len(effects) {
		t.Errorf("%d calls succeeded, %d took effect", done, len(effects))
	}
}

// noneRefusedByLag wants that nobody was turned away because the record was behind: while there was a leader it never
// was for long, and while there was none nothing could be recorded.
func (c *cluster) noneRefusedByLag() {
	c.t.Helper()
	var refused []time.Time
	js := c.srv.JetStream(c.t)
	eventually(c.t, "the record can be read", func() bool {
		refused = nil
		for r, err := range reader.Replay(c.t.Context(), reader.Streams(js), reader.Filter{Event: audit.ToolDenied}) {
			if err != nil {
				return false
			}
			if r.Code == envelope.CodeAuditLag {
				refused = append(refused, r.Timestamp)
			}
		}
		return true
	})
	if len(refused) > 0 {
		c.t.Errorf("refused by lag at %v", refused)
	}
}

// Streams with fewer replicas than an operator counts on are refused.
func TestFewerReplicas(t *testing.T) {
	js := natstest.StartCluster(t, 3)[0].JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	err := bus.Ensure(t.Context(), js, bus.TopologyOptions{Replicas: 3})
	if err == nil || !strings.Contains(err.Error(), "num_replicas is 1, must be 3") {
		t.Errorf("got %v", err)
	}
}

// pay makes calls until ctx ends. One that was cut off is asked for again under its key, until it has
// an outcome of the bus; that a claimed run was lost with its executor cannot be here.
func (c *cluster) pay(ctx context.Context, client *clientlib.Client, caller int) {
	for n := 0; ctx.Err() == nil; n++ {
		call := clientlib.Call{Tool: "pay", Timeout: 20 * time.Second, Key: uuid.NewString(),
			Input: fmt.Appendf(nil, `{"caller":%d,"n":%d}`, caller, n)}
		for {
			r, err := client.Call(context.WithoutCancel(ctx), call)
			if err != nil {
				c.t.Errorf("call: %v", err)
				return
			}
			if r.Provenance.Final && r.Status != envelope.RetryableError {
				if r.Status != envelope.Success {
					c.t.Errorf("%s: %s, cause %q", call.Input, r.Error, causeOf(r))
				}
				break
			}
		}
		c.done.Add(1)
	}
}

// eventually fails the test when what does not come to hold within a minute.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(time.Minute); !holds(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s: not within a minute", what)
		}
	}
}
