package blackbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// staffed starts an executor, and a dispatcher that has heard which steps it pulls before it admits anything.
func (d *busDeployment) staffed(slots int) {
	d.t.Helper()
	first := d.dispatcher()
	d.executor(slots)
	pools, err := heartbeat.OpenStore(d.t.Context(), d.srv.JetStream(d.t), time.Minute)
	if err != nil {
		d.t.Fatal(err)
	}
	eventually(d.t, "the executor says that it pulls all steps", func() bool {
		_, said, err := pools.LastAlive(d.t.Context(), tool.DefaultPool)
		steps, known := said.Pulls()
		return err == nil && known && steps == subjects.Steps
	})
	d.dispatcher()
	first.stop()
}

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
	d.staffed(slots)
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

// begun records which runs have begun, by the name that the call says.
type begun struct {
	mu    sync.Mutex
	order []string
}

func (b *begun) note(who string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.order = append(b.order, who)
}

func (b *begun) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.order)
}

// at returns how many runs had begun when that of who did; -1: it has not.
func (b *begun) at(who string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Index(b.order, who)
}

// accepts makes a call that says who asks, and returns as soon as it is accepted.
func accepts(ctx context.Context, c *clientlib.Client, who string) bool {
	once, cancel := context.WithCancel(ctx)
	defer cancel()
	accepted := false
	_, _ = c.Call(once, clientlib.Call{
		Tool: "hold", Input: []byte(`{"who":"` + who + `"}`), Key: uuid.NewString(), Timeout: 2 * time.Minute,
		OnAccepted: func(envelope.Accepted) { accepted = true; cancel() },
	}) // it is not waited for
	return accepted
}

// burst makes n calls of some actors, and returns when all are accepted.
func (d *busDeployment) burst(n int, actors ...string) {
	d.t.Helper()
	const atOnce = 64
	var left atomic.Int64
	left.Store(int64(n))
	var all sync.WaitGroup
	for i := range max(atOnce, len(actors)) {
		c := d.clientIn("busy", actors[i%len(actors)])
		all.Go(func() {
			for left.Add(-1) >= 0 {
				if !accepts(d.t.Context(), c, "busy") {
					d.t.Error("a call of the burst was not accepted")
					return
				}
			}
		})
	}
	all.Wait()
}

// Behind a burst of one family of actors, the next call of another tenant and of another family of its tenant, and 24
// of each at once, begin after at most 30 others: within a second where 30 slots a second become free.
func TestNewcomersBehindABurst(t *testing.T) {
	const most = 30
	narrowed := make([]string, 40)
	for n := range narrowed {
		narrowed[n] = fmt.Sprint("agent://greedy/", n)
	}
	for name, of := range map[string]struct {
		calls, slots int
		runs         time.Duration
		actors       []string
	}{
		"40 narrowed actors": {320, 96, 3 * time.Second, narrowed},
		"6000 calls":         {6000, 40, time.Second, []string{"agent://greedy"}},
	} {
		t.Run(name, func(t *testing.T) {
			var b begun
			d := deploy(t, map[string]spec{"hold": {class: call.Pure, runs: 1000, run: func(ctx context.Context,
				inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
				var asked struct {
					Who string `json:"who"`
				}
				err := json.Unmarshal(inv.Input, &asked)
				b.note(asked.Who)
				select {
				case <-time.After(of.runs):
				case <-ctx.Done():
				}
				return tool.Result{Output: inv.Input}, errors.Join(err, ctx.Err())
			}}})
			d.staffed(of.slots)
			d.burst(of.calls, of.actors...)
			for n, newcomer := range []struct {
				tenant string
				calls  int
			}{{"other", 1}, {"busy", 1}, {"other", 24}, {"busy", 24}} {
				d.comes(&b, newcomer.tenant, fmt.Sprint("agent://new", n), newcomer.calls, most)
			}
		})
	}
}

// comes makes calls of an actor at once, and wants each to begin after at most as many others.
func (d *busDeployment) comes(b *begun, tenant, actor string, calls, most int) {
	d.t.Helper()
	c := d.clientIn(tenant, actor)
	var all sync.WaitGroup
	var worst atomic.Int64
	for n := range calls {
		all.Go(func() {
			who, before := fmt.Sprint(tenant, actor, n), b.count()
			if !accepts(d.t.Context(), c, who) {
				d.t.Error("a call of a newcomer was not accepted")
				return
			}
			eventually(d.t, "a call of a newcomer begins", func() bool { return b.at(who) >= 0 })
			for waited := int64(b.at(who) - before); ; {
				was := worst.Load()
				if waited <= was || worst.CompareAndSwap(was, waited) {
					return
				}
			}
		})
	}
	all.Wait()
	d.t.Logf("%d of %s of tenant %s: the last one begins after %d others", calls, actor, tenant, worst.Load())
	if n := worst.Load(); n > int64(most) {
		d.t.Errorf("%d of %s of tenant %s: the last one begins after %d others, want at most %d", calls, actor, tenant, n,
			most)
	}
}
