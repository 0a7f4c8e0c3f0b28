package wire

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/native"
)

const (
	clientLines = 300 // a client in another language needs no more
	clientTime  = 5 * time.Minute
	lease       = time.Minute // longer than any machine stands still
)

// TestPythonClient runs a client that knows docs/wire.md alone against a bus, against a server with nobody on it,
// and against a dispatcher whose answers to copies of a request contradict each other.
func TestPythonClient(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatalf("%v: install Python 3.8 or newer (apt-get install python3); its standard library is enough", err)
	}
	bus, silent, scripted := natstest.Start(t), natstest.Start(t), natstest.Start(t)
	open := func(bool) (*app.Conn, error) {
		return app.Connect("wire", app.Options{Options: link.Options{URL: bus.URL}, Lease: lease})
	}
	serve(t, open)
	answers := answerCopies(t, scripted)
	walled, credentials := serveWalled(t)
	ctx, cancel := context.WithTimeout(t.Context(), clientTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, "checks.py", "../../docs/wire.md", bus.URL, silent.URL, scripted.URL, walled,
		credentials)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	answers.check()
}

// TestClientIsShort keeps the promise of the page.
func TestClientIsShort(t *testing.T) {
	client, err := os.ReadFile("client.py")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(client, []byte("\n")); n > clientLines {
		t.Errorf("client.py has %d lines, and is to show that %d are enough", n, clientLines)
	}
}

// serve runs two dispatchers and an executor, with the tool of the page, each with a connection of its own.
func serve(t *testing.T, connect func(executes bool) (*app.Conn, error)) {
	t.Helper()
	registry, err := tool.Load(toolFolder(t), app.Transports()...)
	if err != nil {
		t.Fatal(err)
	}
	count := native.New(map[string]native.Func{"count": new(holds).run})
	for range 2 {
		c, err := connect(false)
		run(t, c, err, func(ctx context.Context, c *app.Conn, ready func()) error {
			return app.RunDispatcher(ctx, c, app.DispatcherOptions{
				AllowAll: true, Tools: registry, Version: "0.0.1", PoolAbsence: 2 * lease, Ready: ready,
			})
		})
	}
	c, err := connect(true)
	run(t, c, err, func(ctx context.Context, c *app.Conn, ready func()) error {
		adapters := map[string]tool.Adapter{native.Transport: count}
		return app.RunExecutor(ctx, c, app.ExecutorOptions{Tools: registry, Adapters: adapters, Ready: ready})
	})
}

// run starts a process of the bus, waits until it serves, and stops it at the end of the test.
func run(
	t *testing.T, c *app.Conn, err error, process func(ctx context.Context, c *app.Conn, ready func()) error,
) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done, serving := make(chan error, 1), make(chan struct{})
	go func() { done <- process(ctx, c, sync.OnceFunc(func() { close(serving) })) }()
	select {
	case <-serving:
	case err := <-done:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		c.Close()
	})
}

// toolFolder writes the manifest of the tool of the page.
func toolFolder(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	folder := filepath.Join(dir, "demo_2ecount")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"tool.yaml": `{tool_id: demo.count, semver: 1.0.0, owner: "@test", title: Count, description: Counts., status: active,
			determinism: pure, transport: native, endpoint: {native: count}, capabilities: {streaming: true}, retention_s: 600,
			functions: {up: {description: Counts up to a number., request: up.json, response: any.json},
				free: {description: Lets a call go on., request: free.json, response: any.json}}}`,
		"up.json": `{"type":"object","required":["to"],"additionalProperties":false,
			"properties":{"to":{"type":"integer","minimum":0},"hold":{"type":"string"},"text":{"type":"string"}}}`,
		"free.json": `{"type":"object","required":["hold"],"properties":{"hold":{"type":"string"}}}`,
		"any.json":  `{"type":"object"}`,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// holds are the places where calls wait, by name.
type holds struct{ places sync.Map }

func (h *holds) place(name string) *place {
	p, _ := h.places.LoadOrStore(name, &place{free: make(chan struct{})})
	return p.(*place)
}

type place struct {
	free chan struct{}
	once sync.Once
}

// wait returns when the place of that name is free; there is none without a name.
func (h *holds) wait(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	select {
	case <-h.place(name).free:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// input is that of both functions.
type input struct {
	To   int    `json:"to"`
	Hold string `json:"hold"`
	Text string `json:"text"`
}

// run is the tool.
func (h *holds) run(ctx context.Context, inv tool.Invocation, sink tool.Sink) (tool.Result, error) {
	var in input
	if err := json.Unmarshal(inv.Input, &in); err != nil {
		return tool.Result{}, err
	}
	if inv.Fn == "free" {
		p := h.place(in.Hold)
		p.once.Do(func() { close(p.free) })
		return tool.Result{Output: jsontext.Value(`{}`)}, nil
	}
	return h.up(ctx, in, sink)
}

// up emits the numbers from 1 on, waits where it is told to, and returns their sum.
func (h *holds) up(ctx context.Context, in input, sink tool.Sink) (tool.Result, error) {
	out := struct {
		Sum  int    `json:"sum"`
		Text string `json:"text,omitzero"`
	}{Text: in.Text}
	for i := range in.To {
		out.Sum += i + 1
		if err := sink.Emit(ctx, envelope.ChunkData, fmt.Append(nil, i+1)); err != nil {
			return tool.Result{}, err
		}
	}
	if err := h.wait(ctx, in.Hold); err != nil {
		return tool.Result{}, err
	}
	output, err := json.Marshal(out)
	return tool.Result{Output: output}, err
}
