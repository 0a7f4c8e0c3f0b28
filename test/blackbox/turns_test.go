package blackbox

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// While one actor has asked for many times the calls that an executor can run, and none of them ends, what another one
// asks for is run at once.
func TestLongCallsOfOneActor(t *testing.T) {
	const slots, calls = 16, 100
	var running atomic.Int64
	release := make(chan struct{})
	d := deploy(t, map[string]spec{
		"echo": {class: call.Pure, run: echo(new(atomic.Int64))},
		"hold": {class: call.Pure, runs: calls, run: func(ctx context.Context, inv tool.Invocation, _ tool.Sink) (
			tool.Result, error,
		) {
			running.Add(1)
			select {
			case <-release:
			case <-ctx.Done():
			}
			return tool.Result{Output: inv.Input}, ctx.Err()
		}},
	})
	first := d.dispatcher()
	d.executor(slots)
	pools, err := heartbeat.OpenStore(t.Context(), d.srv.JetStream(t), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the executor says that it pulls what goes behind", func() bool {
		_, said, err := pools.LastAlive(t.Context(), tool.DefaultPool)
		return err == nil && said.Overflow == heartbeat.PullsAll
	})
	d.dispatcher() // which has heard that before it admits anything
	first.stop()
	try := func(actor, tool string) {
		r, err := d.clientOf(actor).Call(t.Context(), clientlib.Call{
			Tool: tool, Input: []byte(`{}`), Key: uuid.NewString(), Timeout: time.Minute,
		})
		if err != nil || r.Status != envelope.Success {
			t.Errorf("%s of %s: %+v, %v", tool, actor, r, err)
		}
	}
	var held sync.WaitGroup
	for range calls {
		held.Go(func() { try("agent://greedy", "hold") })
	}
	const left = slots / 8
	eventually(t, "the greedy one has all slots that it may have", func() bool { return running.Load() == slots-left })
	for range 2 * left {
		try("agent://modest", "echo")
	}
	if n := running.Load(); n != slots-left {
		t.Errorf("%d calls of the greedy one run, of %d slots", n, slots)
	}
	close(release)
	held.Wait()
}
