package pause

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/chaos/effects"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/process"
)

// shortLease is that of the processes here: one is waited for to be over.
const shortLease = time.Second

// execute is an executor process.
func execute(url, tools string) error {
	registry, err := tool.Load(tools, app.Transports()...)
	if err != nil {
		return err
	}
	adapter, err := process.New(process.Options{})
	if err != nil {
		return err
	}
	c, err := app.Connect("worker", app.Options{Options: link.Options{URL: url}, Lease: shortLease, Fsync: true})
	if err != nil {
		return err
	}
	defer c.Close()
	return app.RunExecutor(context.Background(), c, app.ExecutorOptions{
		Tools: registry, Adapters: map[string]tool.Adapter{process.Transport: adapter},
	})
}

// Two actors use one key. The executor of the second is killed before its tool commits anything, and the tool is
// asked what became of it: it knows an effect under the key of the first, which is another call.
func TestLookupKeepsActorsApart(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	dir := t.TempDir()
	book, tools := filepath.Join(dir, "ledger"), filepath.Join(dir, "tools")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := effects.WriteTools(tools, self, "role", "tool", book); err != nil {
		t.Fatal(err)
	}
	dispatch(t, srv, tools)
	first := start(t, "worker", srv.URL, tools)
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}

	const pay, key = "chaos.pay", "the-key-of-both-actors"
	if r := pays(t, srv, "agent://first", pay, key, effects.Input{N: 1}); r.Status != envelope.Success {
		t.Fatalf("the first actor is told %s %v", r.Status, r.Error)
	}
	second := make(chan *envelope.Response, 1)
	go func() { second <- pays(t, srv, "agent://second", pay, key, effects.Input{N: 2, WorkMS: 120_000}) }()
	runs := map[int]bool{}
	until(t, book, func(l effects.Line) bool { runs[l.PID] = true; return len(runs) == 2 })
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := start(t, "worker", srv.URL, tools).Start(); err != nil {
		t.Fatal(err)
	}
	r := <-second
	if e := r.Error; e == nil || e.Code != envelope.CodeToolUnknownState || e.Details.Effect != envelope.EffectUnknown {
		t.Errorf("the second actor is told %s, %v, with the output %s", r.Status, r.Error, r.Output)
	}
	lines, err := effects.Read(book)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for _, l := range lines {
		keys[l.Key] = true
	}
	if len(keys) != 2 || keys[key] {
		t.Errorf("the tool was given the keys %v for two calls", keys)
	}
}

// dispatch runs a dispatcher until the test ends.
func dispatch(t *testing.T, srv *natstest.Server, tools string) {
	t.Helper()
	registry, err := tool.Load(tools, app.Transports()...)
	if err != nil {
		t.Fatal(err)
	}
	c, err := app.Connect("dispatcher", app.Options{Options: link.Options{URL: srv.URL}, Lease: shortLease, Fsync: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done, ready := make(chan error, 1), make(chan struct{})
	go func() { // ends with ctx
		o := app.DispatcherOptions{AllowAll: true, Tools: registry, Version: "0.0.1", Ready: func() { close(ready) }}
		done <- app.RunDispatcher(ctx, c, o)
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		c.Close()
	})
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
}

// pays calls the tool for actor and returns the outcome.
func pays(t *testing.T, srv *natstest.Server, actor, toolID, key string, in effects.Input) *envelope.Response {
	raw, err := json.Marshal(in)
	if err != nil {
		t.Error(err)
	}
	c, err := clientlib.New(srv.Connect(t), clientlib.Options{Actor: actor})
	if err != nil {
		t.Error(err)
		return &envelope.Response{}
	}
	defer c.Close()
	asked := clientlib.Call{Tool: toolID, Function: effects.Fn, Input: raw, Key: key, Timeout: time.Minute}
	r, err := c.Call(context.WithoutCancel(t.Context()), asked)
	if err != nil {
		t.Error(err)
		return &envelope.Response{}
	}
	return r
}
