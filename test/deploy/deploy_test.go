package deploy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/deployment/processtest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Each profile comes up by what is written for it, passes doctor, and loses nothing when its servers are killed, one
// or all of them, while calls are under way. That a power cut loses more is no process's to show.
func TestProfiles(t *testing.T) {
	of := processtest.Build(t, "../..", "text_2esearch")
	for _, profile := range deployment.Profiles() {
		t.Run(profile.Name, func(t *testing.T) {
			d := processtest.Prepare(t, processtest.Options{Programs: of, Profile: profile.Name})
			survive(t, &testDeployment{d}, profile.SyncAlways)
		})
	}
}

// testDeployment is one that a test calls and kills.
type testDeployment struct{ *processtest.Deployment }

func survive(t *testing.T, d *testDeployment, synced bool) {
	var all []int
	for i := range d.Servers {
		all = append(all, i)
	}
	d.Serve(all...)
	keys := filepath.Join(d.Dir, "keys")
	replicas := fmt.Sprint(len(all))
	part := func(ready string, args ...string) {
		processtest.Start(t, ready, d.Toolbus(), append(args, "--server", d.URL, "--tools", d.Tools)...)
	}
	dispatcher := []string{"dispatcher", "--secrets-dir", keys, "--replicas", replicas}
	if synced {
		dispatcher = append(dispatcher, "--sync", "always")
	}
	part("is serving", dispatcher...)
	d.AllowAll()
	worker, _ := d.Credential(auth.Principal{Actor: "executor://x", Role: auth.Executor, Pool: "default"})
	part("works for pool", "executor", "--credentials", worker)
	operator, _ := d.Credential(auth.Principal{Actor: "operator://o", Role: auth.Operator})
	processtest.Output(t, d.Toolbus(), "doctor", "--server", d.URL, "--secrets-dir", keys, "--scrub")
	processtest.Output(t, d.Toolbus(), "doctor", "--server", d.URL, "--credentials", operator)

	c := d.caller()
	w := &work{
		t: t, c: c, begun: make(chan struct{}), accepted: map[string]envelope.Accepted{},
		told: map[string]*envelope.Response{},
	}
	w.until(8, func() {})
	first := d.leader()
	w.until(8, func() { // with one server nothing goes on until it is back
		w.under(10)
		d.Servers[first].Kill()
		if len(all) == 1 {
			d.Serve(first)
		}
	})
	if len(all) > 1 {
		d.Serve(first)
	}
	w.until(8, func() {
		w.under(10)
		for _, s := range d.Servers {
			s.Kill()
		}
		d.Serve(all...)
	})
	w.kept()
}

// leader is the server that leads the call log, or the only one.
func (d *testDeployment) leader() int {
	d.T.Helper()
	public, err := d.Keys.Dispatcher.PublicKey()
	if err != nil {
		d.T.Fatal(err)
	}
	nc, err := nats.Connect(d.URL, nats.Nkey(public, d.Keys.Dispatcher.Sign))
	if err != nil {
		d.T.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		d.T.Fatal(err)
	}
	stream, err := js.Stream(d.T.Context(), subjects.Partition(0).Stream())
	if err != nil {
		d.T.Fatal(err)
	}
	for i := range d.Servers {
		if c := stream.CachedInfo().Cluster; c != nil && c.Leader == fmt.Sprint("nats-", i+1) {
			return i
		}
	}
	return 0
}

// caller is an agent.
func (d *testDeployment) caller() *toolbus.Client {
	d.T.Helper()
	const actor = "agent://a"
	_, token := d.Credential(auth.Principal{Actor: actor, Role: auth.Agent})
	conn, err := toolbus.Connect(d.T.Context(), d.URL, toolbus.Options{
		Actor: actor, NATS: []nats.Option{nats.Token(token)}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		d.T.Fatal(err)
	}
	d.T.Cleanup(conn.Close)
	c, err := conn.Client(toolbus.ClientOptions{Actor: actor, Token: func() string { return token }})
	if err != nil {
		d.T.Fatal(err)
	}
	d.T.Cleanup(func() { _ = c.Close() })
	return c
}

// work is what callers were told.
type work struct {
	t *testing.T
	c *toolbus.Client

	begun chan struct{} // is told of each call that begins while somebody listens

	mu       sync.Mutex
	calls    int
	accepted map[string]envelope.Accepted  // by reference
	told     map[string]*envelope.Response // final, by call id
}

// callers at once.
const callers = 3

// until lets callers call while f goes on, and each until n calls more have succeeded after it.
func (w *work) until(n int, f func()) {
	w.t.Helper()
	over := make(chan struct{})
	var callersDone sync.WaitGroup
	for range callers {
		callersDone.Go(func() {
			for left := n; left > 0 && w.t.Context().Err() == nil; {
				if ok := w.call(); !ok {
					continue
				}
				select {
				case <-over:
					left--
				default:
				}
			}
		})
	}
	f()
	close(over)
	callersDone.Wait()
}

// under waits until n calls more have begun: some of them are under way.
func (w *work) under(n int) {
	for range n {
		<-w.begun
	}
}

// callTime is longer than servers take to elect a leader.
const callTime = 30 * time.Second

// call makes one, and reports whether it succeeded.
func (w *work) call() bool {
	select {
	case w.begun <- struct{}{}:
	default:
	}
	w.mu.Lock()
	w.calls++
	input := fmt.Sprintf(`{"pattern":"needle %d"}`, w.calls)
	w.mu.Unlock()
	r, err := toolbus.Outcome(w.c.Call(w.t.Context(), toolbus.Call{Tool: "text.search", Input: []byte(input),
		Timeout: callTime,
		OnAccepted: func(a envelope.Accepted) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.accepted[a.CallID] = a
		}}))
	if err != nil {
		w.t.Error(err)
		return true // it would not end otherwise
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.Provenance.Final {
		w.told[r.CallID] = r
	}
	return r.Status == envelope.Success
}

// kept asks for the outcome of each call that was accepted: there has to be one, and the one that its caller was told.
func (w *work) kept() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), callTime)
	defer cancel()
	for id, a := range w.accepted {
		var r *envelope.Response
		for r == nil {
			var err error
			r, err = toolbus.Outcome(w.c.Result(ctx, envelope.CallRef{Ref: a.Ref, CallID: a.CallID}))
			if open, ok := errors.AsType[*toolbus.Error](err); err != nil && !(ok && open.Pending()) {
				w.t.Fatalf("%s was accepted and is lost: %v", id, err)
			}
		}
		if told := w.told[id]; told != nil && (told.Status != r.Status || string(told.Output) != string(r.Output)) {
			w.t.Errorf("%s was told %s %s and is %s %s", id, told.Status, told.Output, r.Status, r.Output)
		}
	}
	w.t.Logf("%d calls, %d accepted, %d told", w.calls, len(w.accepted), len(w.told))
}
