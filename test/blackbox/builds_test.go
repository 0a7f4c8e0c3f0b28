package blackbox

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/native"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// otherBuild is the same deployment as its next processes have it: with another build of every tool, which run runs.
func (d *busDeployment) otherBuild(run native.Func) *busDeployment {
	other := *d
	var all []*tool.Manifest
	other.funcs = map[string]native.Func{}
	for _, m := range d.registry.List() {
		build := *m
		build.Digest = "sha256:" + strings.Repeat("b", 64)
		all = append(all, &build)
		other.funcs[m.ToolID] = run
	}
	other.registry = tool.NewSet(all...)
	return &other
}

// deliveries returns how often the server has handed work out.
func (d *busDeployment) deliveries() (n uint64) {
	d.t.Helper()
	js := d.srv.JetStream(d.t)
	for p := range subjects.Partition(d.topology.Partitions) {
		stream, err := js.Stream(d.t.Context(), p.Stream())
		if err != nil {
			d.t.Fatal(err)
		}
		list := stream.ListConsumers(d.t.Context())
		for info := range list.Info() {
			if strings.HasPrefix(info.Name, "exec_") {
				n += info.Delivered.Consumer
			}
		}
		if list.Err() != nil {
			d.t.Fatal(list.Err())
		}
	}
	return n
}

// wantNoBuild wants an outcome that says that no live executor has the admitted build, well before the deadline.
func wantNoBuild(t *testing.T, r *envelope.Response, effect envelope.Effect, took time.Duration) {
	t.Helper()
	e := r.Error
	if e == nil || e.Code != envelope.CodeUnavailable || e.Details.Effect != effect || !r.Provenance.Final ||
		!strings.Contains(e.Message, "no live executor of pool default has the admitted build of t 1.0.0") ||
		!strings.Contains(e.Message, "they have sha256:bbbbbbbbbbbb") ||
		!strings.Contains(e.Fix, "start executors with that build") {
		t.Fatalf("%s: %+v", r.Status, e)
	}
	if took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
}

// Two executors of a pool have different builds of one version of a tool. A call runs only as the build that it was
// admitted for; once no executor has that, it ends well before its deadline; and once one has it again, calls run.
func TestOtherBuild(t *testing.T) {
	for class, effect := range map[call.EffectClass]envelope.Effect{
		call.Pure: envelope.EffectNone, call.Idempotent: envelope.EffectUnknown, call.SideEffectful: envelope.EffectNone,
	} {
		t.Run(string(class), func(t *testing.T) {
			t.Parallel()
			var runs, otherRuns atomic.Int64
			d := deploy(t, map[string]spec{"t": {class: class, run: echo(&runs)}})
			other := d.otherBuild(echo(&otherRuns))
			d.dispatcher()
			client := d.client()
			first := d.executor(8)
			other.executor(8)
			const calls = 60
			var all sync.WaitGroup
			for range calls {
				all.Go(func() {
					r, err := client.Call(t.Context(), once("t", uuid.NewString(), time.Minute))
					if err != nil || r.Status != envelope.Success || len(r.Warnings) != 0 {
						t.Errorf("%+v, %v", r, err)
					}
				})
			}
			all.Wait()
			if runs.Load() != calls || otherRuns.Load() != 0 {
				t.Errorf("%d runs, %d of another build", runs.Load(), otherRuns.Load())
			}
			t.Logf("%d calls, %d deliveries", calls, d.deliveries())
			first.stop()
			began := time.Now()
			r, err := client.Call(t.Context(), once("t", uuid.NewString(), 110*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			wantNoBuild(t, r, effect, time.Since(began))
			d.executor(8)
			r, err = client.Call(t.Context(), once("t", uuid.NewString(), time.Minute))
			if err != nil || r.Status != envelope.Success || runs.Load() != calls+1 || otherRuns.Load() != 0 {
				t.Errorf("%+v, %v, %d runs, %d of another build", r, err, runs.Load(), otherRuns.Load())
			}
		})
	}
}

// While one executor says nothing, as builds do that know nothing of it, a call waits for its build. The others pass it
// on to each other a few times, and the first executor with the build takes it.
func TestBuildIsWaitedFor(t *testing.T) {
	t.Parallel()
	var runs, otherRuns atomic.Int64
	d := deploy(t, map[string]spec{"t": {class: call.SideEffectful, run: echo(&runs)}})
	other := d.otherBuild(echo(&otherRuns))
	d.dispatcher()
	silent, err := heartbeat.OpenStore(t.Context(), d.srv.JetStream(t), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := silent.Beat(t.Context(), "default", "older"); err != nil {
		t.Fatal(err)
	}
	other.executor(8)
	other.executor(8)
	client := d.client()
	before := d.deliveries()
	const timeout = 6 * time.Second
	_, r := settled(t, client, once("t", uuid.NewString(), timeout))
	if r.Error == nil || r.Error.Code != envelope.CodeUnavailable ||
		r.Error.Details.Effect != envelope.EffectNone || strings.Contains(r.Error.Message, "build") {
		t.Errorf("%+v", r)
	}
	n := d.deliveries() - before
	if t.Logf("%d deliveries in %s", n, timeout); n < 5 || n > 20 {
		t.Errorf("it was handed out %d times", n)
	}
	outcome := make(chan *envelope.Response, 1)
	accepted := make(chan struct{})
	go func() {
		c := once("t", uuid.NewString(), time.Minute)
		c.OnAccepted = func(envelope.Accepted) { close(accepted) }
		r, err := client.Call(context.WithoutCancel(t.Context()), c)
		if err != nil {
			t.Error(err)
		}
		outcome <- r
	}()
	<-accepted
	began := time.Now()
	d.executor(8)
	r = <-outcome
	if r.Status != envelope.Success || runs.Load() != 1 || otherRuns.Load() != 0 {
		t.Errorf("%+v, %d runs, %d of another build", r, runs.Load(), otherRuns.Load())
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
}

// An executor dies with a claim, and those that are left have another build: nobody knows the effect, and the lookup of
// the other build, if there is one, is not asked.
func TestOtherBuildAfterAClaim(t *testing.T) {
	for name, lookup := range map[string]bool{"without a lookup": false, "with a lookup": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			started := make(chan struct{}, 1)
			d := deploy(t, map[string]spec{"t": {class: call.SideEffectful, lookup: lookup,
				run: func(ctx context.Context, _ tool.Invocation, _ tool.Sink) (tool.Result, error) {
					started <- struct{}{}
					<-ctx.Done()
					return tool.Result{}, ctx.Err()
				}}})
			var otherRuns, lookups atomic.Int64
			other := d.otherBuild(echo(&otherRuns))
			ask := func(_ context.Context, inv tool.Invocation) (tool.Result, bool, error) {
				lookups.Add(1)
				return tool.Result{Output: []byte(`{}`)}, true, nil
			}
			d.dispatcher()
			victim := d.executorWithLookup(ask)
			client := d.client()
			outcome := make(chan *envelope.Response, 1)
			began := time.Now()
			go func() {
				r, err := client.Call(context.WithoutCancel(t.Context()), once("t", uuid.NewString(), 110*time.Second))
				if err != nil {
					t.Error(err)
				}
				outcome <- r
			}()
			<-started
			victim.conn.NC.Close()
			other.executorWithLookup(ask)
			r := <-outcome
			wantStatus(t, r, envelope.TerminalError, envelope.CodeToolUnknownState)
			if took := time.Since(began); r.Error.Details.Effect != envelope.EffectUnknown || took > 30*time.Second {
				t.Errorf("%+v after %s", r.Error, took)
			}
			if n := otherRuns.Load() + lookups.Load(); n != 0 {
				t.Errorf("another build ran %d times and was asked %d times", otherRuns.Load(), lookups.Load())
			}
			if lookup && !strings.Contains(r.Error.Cause, "no live executor of pool default has the admitted build") {
				t.Errorf("cause %q", r.Error.Cause)
			}
		})
	}
}

// executorWithLookup starts an executor whose tool t has a lookup.
func (d *busDeployment) executorWithLookup(ask native.LookupFunc) *process {
	return d.run("executor", func(ctx context.Context, c *app.Conn, ready func()) error {
		return app.RunExecutor(ctx, c, app.ExecutorOptions{
			Tools: d.registry, Slots: 8, Ready: ready,
			Adapters: map[string]tool.Adapter{native.Transport: native.New(d.funcs, native.WithLookup("t", ask))},
		})
	})
}
