package blackbox

import (
	"context"
	"errors"
	"fmt"
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
	at    map[string]moment
}

// moment is a time, and how many runs had begun by then.
type moment struct {
	time time.Time
	runs int
}

func (b *begun) note(who string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at[who] = b.now()
	b.order = append(b.order, who)
}

// now returns the present moment. The caller holds b.mu.
func (b *begun) now() moment { return moment{time.Now(), len(b.order)} }

// when returns when the run of who began.
func (b *begun) when(who string) (moment, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m, ok := b.at[who]
	return m, ok
}

// accepts makes a call that says who asks, and returns as soon as it is accepted, and when.
func (b *begun) accepts(ctx context.Context, c *clientlib.Client, who string) (at moment, accepted bool) {
	once, cancel := context.WithCancel(ctx)
	defer cancel()
	_, _ = c.Call(once, clientlib.Call{
		Tool: "hold", Input: []byte(`{"who":"` + who + `"}`), Key: uuid.NewString(), Timeout: 2 * time.Minute,
		OnAccepted: func(envelope.Accepted) {
			b.mu.Lock()
			defer b.mu.Unlock()
			at, accepted = b.now(), true
			cancel()
		},
	}) // it is not waited for
	return at, accepted
}

// burst makes n calls of some actors, and returns when all are accepted.
func (d *busDeployment) burst(b *begun, n int, actors ...string) {
	d.t.Helper()
	const atOnce = 64
	var left atomic.Int64
	left.Store(int64(n))
	var all sync.WaitGroup
	for i := range max(atOnce, len(actors)) {
		c := d.clientIn("busy", actors[i%len(actors)])
		all.Go(func() {
			for left.Add(-1) >= 0 {
				if _, ok := b.accepts(d.t.Context(), c, "busy"); !ok {
					d.t.Error("a call of the burst was not accepted")
					return
				}
			}
		})
	}
	all.Wait()
}

// Behind a burst of one family of actors, the next call of another tenant and of another family of its tenant, and 24
// of each at once, begin within a second where 30 slots a second become free. That takes at most 30 runs on a machine
// with nothing else to do. On a busy one an executor learns later of what waits, and frees slots in lumps.
func TestNewcomersBehindABurst(t *testing.T) {
	const most = 60
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
		"1500 calls":         {1500, 40, time.Second, []string{"agent://greedy"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := begun{at: map[string]moment{}}
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
			d.burst(&b, of.calls, of.actors...)
			for n, newcomer := range []struct {
				tenant string
				calls  int
			}{{"other", 1}, {"busy", 1}, {"other", 24}, {"busy", 24}} {
				d.comes(&b, newcomer.tenant, fmt.Sprint("agent://new", n), newcomer.calls, most)
			}
		})
	}
}

// comes makes calls of an actor at once, and wants each to begin within a second or after at most as many others.
func (d *busDeployment) comes(b *begun, tenant, actor string, calls, most int) {
	d.t.Helper()
	c := d.clientIn(tenant, actor)
	var all sync.WaitGroup
	for n := range calls {
		all.Go(func() {
			who := fmt.Sprint(tenant, actor, n)
			asked, ok := b.accepts(d.t.Context(), c, who)
			if !ok {
				d.t.Error("a call of a newcomer was not accepted")
				return
			}
			var began moment
			eventually(d.t, "a call of a newcomer begins", func() bool { began, ok = b.when(who); return ok })
			took, others := began.time.Sub(asked.time), began.runs-asked.runs
			if took > time.Second && others > most {
				d.t.Errorf("call %d of %s of tenant %s begins %s and %d others after its admission, want at most %d", n, actor,
					tenant, took, others, most)
			}
		})
	}
	all.Wait()
}
