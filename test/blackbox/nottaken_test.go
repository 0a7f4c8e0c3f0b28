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

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// impatient is a dispatcher that ends calls whose pool is empty for so long.
func (d *busDeployment) impatient(absence time.Duration) *process {
	return d.run("dispatcher", func(ctx context.Context, c *app.Conn, ready func()) error {
		o := app.DispatcherOptions{AllowAll: true, Tools: d.registry, Version: "0.0.1", Ready: ready, PoolAbsence: absence}
		return app.RunDispatcher(ctx, c, o)
	})
}

// once is a call that the library does not repeat by itself.
func once(toolID, key string, timeout time.Duration) clientlib.Call {
	return clientlib.Call{
		Tool: toolID, Function: "run", Input: []byte(`{}`), Key: key, Timeout: timeout,
		Retry: &envelope.RetryPolicy{MaxAttempts: 1},
	}
}

// settled makes a call and returns its outcome. A busy machine may tell its caller too late: then what was decided is
// in the log, if the caller has heard that the call is there.
func settled(t *testing.T, client *clientlib.Client, c clientlib.Call) (ref string, r *envelope.Response) {
	t.Helper()
	told := c.OnAccepted
	c.OnAccepted = func(a envelope.Accepted) {
		if ref = a.Ref; told != nil {
			told(a)
		}
	}
	r, err := client.Call(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Provenance.Final && ref != "" {
		eventually(t, "the call has ended", func() bool {
			a, err := client.Result(t.Context(), envelope.CallRef{Ref: ref, CallID: r.CallID})
			if err == nil && a.Response != nil {
				r = a.Response
			}
			return r.Provenance.Final
		})
	}
	return ref, r
}

// wantUnserved makes a call and wants an outcome that says that nobody of the pool took it.
func wantUnserved(t *testing.T, client *clientlib.Client, c clientlib.Call) {
	t.Helper()
	if _, r := settled(t, client, c); !isUnserved(r) {
		t.Fatalf("%s: %+v", r.Status, r.Error)
	}
}

// isUnserved reports whether an outcome says that nobody of the pool took the call.
func isUnserved(r *envelope.Response) bool {
	e := r.Error
	return e != nil && e.Code == envelope.CodeUnavailable && e.Details.Effect == envelope.EffectNone &&
		r.Provenance.Final && r.Status == envelope.RetryableError && strings.Contains(e.Message, "pool default") &&
		strings.Contains(e.Fix, "--pool default")
}

// patiently calls f with a second, and with twice the time as long as it returns false: a busy machine needs longer.
func patiently(t *testing.T, what string, f func(timeout time.Duration) bool) {
	t.Helper()
	for timeout := time.Second; !f(timeout); timeout *= 2 {
		if timeout > 20*time.Second {
			t.Fatalf("%s: not even within %s", what, timeout)
		}
	}
}

// untaken asks for a key once more than it may be attempted, and reports whether each of these calls ended as unserved.
func untaken(t *testing.T, client *clientlib.Client, key string, timeout time.Duration) (ref string, all bool) {
	t.Helper()
	for n := range call.MaxAttempts + 1 {
		var r *envelope.Response
		if ref, r = settled(t, client, once("t", key, timeout)); !isUnserved(r) || r.Provenance.Attempt != n+1 {
			t.Logf("within %s, attempt %d: %s %+v", timeout, n+1, r.Status, r.Error)
			return ref, false
		}
	}
	return ref, true
}

// A key that is asked for again and again, while nobody is there to take its calls and while the server stores
// them too late, is still usable afterwards.
func TestKeyOutlivesUntakenAttempts(t *testing.T) {
	for _, class := range []call.EffectClass{call.Pure, call.Idempotent, call.SideEffectful} {
		t.Run(string(class), func(t *testing.T) {
			t.Parallel()
			var runs atomic.Int64
			d := deploy(t, map[string]spec{"t": {class: class, run: echo(&runs)}})
			d.dispatcher()
			client := d.client()
			eventually(t, "it is certain that nobody is there", func() bool {
				r, err := client.Call(t.Context(), once("t", uuid.NewString(), time.Second))
				return err == nil && r.Error.Code == envelope.CodeUnavailable
			})
			var key, ref string
			patiently(t, "a key is asked for again and again", func(timeout time.Duration) (all bool) {
				key = uuid.NewString()
				ref, all = untaken(t, client, key, timeout)
				return all
			})
			for n := range call.MaxAttempts + 1 {
				d.storeLate(client, ref, n)
			}
			d.executor(8)
			r, err := client.Call(t.Context(), once("t", key, time.Minute))
			if err != nil || r.Status != envelope.Success || runs.Load() != 1 {
				t.Fatalf("%+v, %v, %d runs", r, err, runs.Load())
			}
		})
	}
}

// The first call after the start of a dispatcher says that nobody took it, although heartbeats last longer than the
// dispatcher has run.
func TestFirstCallOfADispatcher(t *testing.T) {
	t.Parallel()
	d := deploy(t, map[string]spec{"t": {class: call.Idempotent, run: echo(new(atomic.Int64))}})
	d.lease = time.Hour
	client := d.client()
	patiently(t, "a first call ends as unserved", func(timeout time.Duration) bool {
		defer d.dispatcher().stop()
		_, r := settled(t, client, once("t", uuid.NewString(), timeout))
		if !isUnserved(r) {
			t.Logf("within %s: %s %+v", timeout, r.Status, r.Error)
		}
		return isUnserved(r)
	})
}

// storeLate opens the next attempt of a call as a server does that has kept the request waiting, and awaits its end.
func (d *busDeployment) storeLate(client *clientlib.Client, ref string, n int) {
	d.t.Helper()
	c := d.open("late")
	defer c.Close()
	key, err := subjects.ParseRef(ref)
	if err != nil {
		d.t.Fatal(err)
	}
	log, err := kv.OpenLog(d.t.Context(), c.JS, d.kv)
	if err != nil {
		d.t.Fatal(err)
	}
	clock, err := bus.NewClock(d.t.Context(), c.JS, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	last, err := log.Read(d.t.Context(), key.Tool, key.ID)
	if err != nil {
		d.t.Fatal(err)
	}
	earlier, err := last.Outcomes()
	if err != nil {
		d.t.Fatal(err)
	}
	first, err := log.Get(d.t.Context(), last.State.At(last.State.Attempts[0].Admitted))
	if err != nil {
		d.t.Fatal(err)
	}
	request, err := call.DecodeRequestBody(first.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	now := call.At(clock.Now())
	owner := call.Owner{CallID: uuid.NewString(), Actor: last.State.Attempts[0].Owner.Actor}
	v := call.Admit(last.State, call.AdmitRequest{
		Owner: owner, Fingerprint: last.State.Fingerprint, Now: now - 2000, Deadline: now - 1000,
		Priority: envelope.PriorityNormal, Nonce: c.NewNonce(),
	})
	if v.Do != call.Write {
		d.t.Fatalf("late request %d: %+v", n, v)
	}
	request.Earlier = earlier
	body, err := request.Encode()
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := log.Write(d.t.Context(), v.Event, body); err != nil {
		d.t.Fatal(err)
	}
	eventually(d.t, "the late attempt ends", func() bool {
		a, err := client.Result(d.t.Context(), envelope.CallRef{Ref: ref, CallID: owner.CallID})
		if err != nil || a.Response == nil {
			return false
		}
		if r := a.Response; r.Error.Code != envelope.CodeTimeout || r.Error.Details.Effect != envelope.EffectNone {
			d.t.Fatalf("stored late: %+v", a.Response.Error)
		}
		return true
	})
}

// A call to a pool without executors ends early and says why; why and doctor name the pool meanwhile.
func TestPoolWithoutExecutors(t *testing.T) {
	t.Parallel()
	d := deploy(t, map[string]spec{"t": {class: call.SideEffectful, run: echo(new(atomic.Int64))}})
	d.lease = time.Second
	d.impatient(4 * time.Second)
	client := d.client()
	began := time.Now()
	c := once("t", uuid.NewString(), time.Minute)
	c.OnAccepted = func(a envelope.Accepted) {
		why, err := client.Why(t.Context(), envelope.CallRef{Ref: a.Ref})
		if err != nil || !strings.Contains(why, "no executor of pool default is alive") {
			t.Errorf("%s, %v", why, err)
		}
		d.wantWaiting("pool default", "1 call waits")
	}
	wantUnserved(t, client, c)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
	began = time.Now()
	wantUnserved(t, client, once("t", uuid.NewString(), time.Minute))
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the next one took %s", took)
	}
}

// wantWaiting wants doctor to say something of a pool.
func (d *busDeployment) wantWaiting(name, says string) {
	d.t.Helper()
	checks := admin.Diagnose(d.t.Context(), d.srv.URL, toolbus.ClientOptions{})
	for _, c := range checks {
		if c.Name == name && strings.Contains(c.Says, says) {
			return
		}
	}
	d.t.Errorf("doctor says %+v", checks)
}

// A restart of all executors that is shorter than the setting ends no call.
func TestRestartOfExecutors(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"t": {class: call.SideEffectful, run: echo(&runs)}})
	d.lease = time.Second
	d.impatient(8 * time.Second)
	client := d.client()
	first := d.executor(8)
	r, err := client.Call(t.Context(), once("t", uuid.NewString(), 20*time.Second))
	if err != nil || r.Status != envelope.Success {
		t.Fatalf("%+v, %v", r, err)
	}
	first.stop()
	done := make(chan error, 1)
	go func() {
		r, err := client.Call(t.Context(), once("t", uuid.NewString(), time.Minute))
		if err == nil && r.Status != envelope.Success {
			err = fmt.Errorf("%+v", r.Error)
		}
		done <- err
	}()
	timer := time.NewTimer(3 * time.Second) // as long as they are down
	defer timer.Stop()
	select {
	case err := <-done:
		t.Fatalf("ended while the executors were down: %v", err)
	case <-timer.C:
	}
	d.executor(8)
	if err := <-done; err != nil || runs.Load() != 2 {
		t.Errorf("%v, %d runs", err, runs.Load())
	}
}

// why tells a call that waits from one that runs, also where it needs no claim.
func TestWhyTellsQueuedFromRunning(t *testing.T) {
	t.Parallel()
	started, end := make(chan struct{}, 64), make(chan struct{})
	run := func(ctx context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
		started <- struct{}{}
		select {
		case <-end:
		case <-ctx.Done():
		}
		return tool.Result{Output: inv.Input}, nil
	}
	d := deploy(t, map[string]spec{"t": {class: call.Idempotent, run: run}})
	d.dispatcher()
	client := d.client()
	refs := make(chan string, 1)
	var asked sync.WaitGroup
	ask := func() (ref string) {
		asked.Go(func() {
			c := once("t", uuid.NewString(), time.Minute)
			c.OnAccepted = func(a envelope.Accepted) { refs <- a.Ref }
			if _, err := client.Call(t.Context(), c); err != nil {
				t.Error(err)
			}
		})
		return <-refs
	}
	why := func(ref string) string {
		t.Helper()
		sentence, err := client.Why(t.Context(), envelope.CallRef{Ref: ref})
		if err != nil {
			t.Error(err)
		}
		return sentence
	}
	says := func(ref, want string) {
		t.Helper()
		if got := why(ref); !strings.Contains(got, want) {
			t.Errorf("%s: want %s", got, want)
		}
	}
	first := ask()
	says(first, "waits in the queue of pool default")
	d.executor(64)
	<-started
	says(first, "was claimed by executor default/") // it is older than its executor
	eventually(t, "a call runs that is clearly newer", func() bool {
		newer := ask()
		<-started
		return strings.Contains(why(newer), "runs at executor default/")
	})
	close(end)
	asked.Wait()
}

// A key that is asked for six times with deadlines of a second, while the log has no leader, is still usable
// when it has one.
func TestKeyDuringALeadersLoss(t *testing.T) {
	servers := natstest.StartCluster(t, 3)
	var runs atomic.Int64
	d := deployOn(t, servers[0], map[string]spec{"t": {class: call.Idempotent, run: echo(&runs)}})
	d.topology = bus.TopologyOptions{Partitions: 1, Replicas: 3}
	c := &cluster{busDeployment: d, servers: servers}
	for range 2 {
		d.dispatcher()
		d.executor(8)
	}
	client := d.client()
	r, err := client.Call(t.Context(), once("t", uuid.NewString(), 20*time.Second))
	if err != nil || r.Status != envelope.Success {
		t.Fatalf("%+v, %v", r, err)
	}
	js := servers[0].JetStream(t)
	eventually(t, "the log is whole", func() bool { return c.whole(js) })
	lost := c.leader(js)
	if lost == nil {
		t.Fatal("the log has no leader")
	}
	lost.Stop()
	key := uuid.NewString()
	for n := range call.MaxAttempts + 1 {
		if r, err := client.Call(t.Context(), once("t", key, time.Second)); err != nil {
			t.Fatalf("asking %d: %v", n+1, err)
		} else if r.Error != nil {
			t.Logf("asking %d: %s, final %t", n+1, r.Error.Code, r.Provenance.Final)
		}
	}
	eventually(t, "the key is usable", func() bool {
		r, err := client.Call(t.Context(), once("t", key, 10*time.Second))
		if err == nil && r.Error != nil && r.Error.Code == envelope.CodeAttempts {
			t.Fatal("the key is used up")
		}
		return err == nil && r.Status == envelope.Success
	})
}
