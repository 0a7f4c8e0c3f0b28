// Package blackbox tests Toolbus from outside: a real NATS server, the real dispatcher and
// executor as package app wires them, the real client; only the tools are made for the test.
package blackbox

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/native"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// busDeployment is a bus with its tools, on one server.
type busDeployment struct {
	t        *testing.T
	srv      *natstest.Server
	registry *tool.Set
	dir      string // of the tools
	funcs    map[string]native.Func
	lease    time.Duration
	kv       kv.LogOptions
	topology bus.TopologyOptions
	strict   bool // of dispatchers
	unsynced bool // the server may lose writes that it has acknowledged
	instance string
	keys     *deployment.Keys // of processes that are dispatchers of a deployment with accounts
	connect  []nats.Option
}

// spec is a tool of a test.
type spec struct {
	class     call.EffectClass
	streaming bool
	lookup    bool
	runs      int // at once in one executor; 64 if 0
	run       native.Func
}

// deploy starts a server and loads the tools; start adds processes.
func deploy(t *testing.T, tools map[string]spec) *busDeployment {
	t.Helper()
	return deployOn(t, natstest.Start(t), tools)
}

func deployOn(t *testing.T, srv *natstest.Server, tools map[string]spec) *busDeployment {
	t.Helper()
	dir := t.TempDir()
	d := &busDeployment{
		t: t, srv: srv, funcs: map[string]native.Func{}, lease: 2 * time.Second,
		topology: bus.TopologyOptions{Partitions: 2}, // one is what all other tests have
	}
	for id, s := range tools {
		d.funcs[id] = s.run
		folder := filepath.Join(dir, subjects.Token(id))
		manifest := fmt.Sprintf("tool_id: %s\nsemver: 1.0.0\nowner: \"@test\"\ntitle: T\ndescription: d\nstatus: "+
			"active\ndeterminism: %s\n"+
			"transport: native\nendpoint: {native: %s}\nfunctions:\n  run: {description: d, request: any.json, response: "+
			"any.json}\n"+
			"capabilities: {streaming: %t, lookup: %t}\n"+
			"limits: {timeout_ms_default: 20000, timeout_ms_max: 120000, concurrency_max: %d, output_bytes_max: "+
			"8388608}\nretention_s: 1\n",
			id, s.class, id, s.streaming, s.lookup, cmp.Or(s.runs, 64))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, data := range map[string]string{"tool.yaml": manifest, "any.json": `{"type":"object"}`} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(data), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	d.load(dir)
	return d
}

// load loads the tools in a folder.
func (d *busDeployment) load(dir string) {
	d.t.Helper()
	registry, err := tool.Load(dir, app.Transports()...)
	if err != nil {
		d.t.Fatal(err)
	}
	d.registry, d.dir = registry, dir
}

func (d *busDeployment) open(name string) *app.Conn {
	d.t.Helper()
	c, err := app.Connect(name,
		app.Options{Options: link.Options{URL: d.srv.URL, Instance: d.instance, Connect: d.connect},
			Lease: d.lease, Fsync: !d.unsynced, KV: d.kv, Topology: d.topology, Keys: d.keys})
	if err != nil {
		d.t.Fatal(err)
	}
	return c
}

// process is a running dispatcher or executor.
type process struct {
	conn *app.Conn
	stop func()
}

// run starts f as a process and waits until it serves. stop ends it in good order.
func (d *busDeployment) run(name string, f func(ctx context.Context, c *app.Conn, ready func()) error) *process {
	d.t.Helper()
	c := d.open(name)
	ctx, cancel := context.WithCancel(context.WithoutCancel(d.t.Context()))
	done, serving := make(chan error, 1), make(chan struct{})
	go func() { done <- f(ctx, c, func() { close(serving) }) }()
	var once sync.Once
	p := &process{conn: c, stop: func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				d.t.Errorf("%s: %v", name, err)
			}
			c.Close()
		})
	}}
	d.t.Cleanup(p.stop)
	select {
	case <-serving:
	case err := <-done:
		d.t.Fatalf("%s: %v", name, err)
	}
	return p
}

func (d *busDeployment) dispatcher() *process {
	return d.run("dispatcher", func(ctx context.Context, c *app.Conn, ready func()) error {
		return app.RunDispatcher(ctx, c, app.DispatcherOptions{
			AllowAll: true, Tools: d.registry, Version: "0.0.1", Ready: ready, Strict: d.strict,
		})
	})
}

func (d *busDeployment) executor(slots int) *process {
	return d.run("executor", func(ctx context.Context, c *app.Conn, ready func()) error {
		return app.RunExecutor(ctx, c, app.ExecutorOptions{
			Tools: d.registry, Adapters: map[string]tool.Adapter{native.Transport: native.New(d.funcs)}, Slots: slots,
			Ready: ready,
		})
	})
}

func (d *busDeployment) client() *clientlib.Client { return d.clientOf("") }

func (d *busDeployment) clientOf(actor string) *clientlib.Client { return d.clientIn("", actor) }

func (d *busDeployment) clientIn(tenant, actor string) *clientlib.Client {
	d.t.Helper()
	nc := d.srv.Connect(d.t, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	js, err := jetstream.New(nc)
	if err != nil {
		d.t.Fatal(err)
	}
	c, err := clientlib.New(nc, clientlib.Options{Tenant: tenant, Actor: actor, Payloads: link.OpenPayloads(js)})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = c.Close() })
	return c
}

// events returns how many writes the call log has seen.
func (d *busDeployment) events() (n uint64) {
	d.t.Helper()
	js := d.srv.JetStream(d.t)
	for p := range subjects.Partition(d.topology.Partitions) {
		stream, err := js.Stream(d.t.Context(), p.Stream())
		if err != nil {
			d.t.Fatal(err)
		}
		n += stream.CachedInfo().State.LastSeq
	}
	return n
}

// echo returns its input; it counts its runs.
func echo(runs *atomic.Int64) native.Func {
	return func(_ context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
		runs.Add(1)
		return tool.Result{Output: inv.Input}, nil
	}
}

func input(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // unreachable: tests pass plain values
	}
	return data
}
