package toolbus_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/deployment/deploymenttest"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// held is a tool whose calls run until they are let go.
type held struct {
	started, release, ended chan struct{}
}

func hold(t *testing.T, tools *toolbus.Toolset, about toolbus.Tool) *held {
	t.Helper()
	h := &held{make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)}
	must(t, tools, about, func(ctx context.Context, _ *toolbus.Run, _ struct{}) (string, error) {
		h.started <- struct{}{}
		defer func() { h.ended <- struct{}{} }()
		select {
		case <-h.release:
			return "done", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	})
	return h
}

// called makes a call beside the test.
func called(t *testing.T, b *toolbustest.Bus, call toolbus.Call) <-chan *envelope.Response {
	t.Helper()
	answer := make(chan *envelope.Response, 1)
	go func() {
		resp, err := toolbus.Outcome(b.Call(t.Context(), call))
		if err != nil {
			t.Error(err)
		}
		answer <- resp
	}()
	return answer
}

// second is a bus whose dispatcher knows the tools, with an executor for a pool of their own.
func second(
	t *testing.T, tools *toolbus.Toolset, o toolbus.ExecutorOptions,
) (*toolbustest.Bus, *toolbus.Conn, *toolbus.Executor) {
	t.Helper()
	b := toolbustest.Start(t, tools)
	conn, err := toolbus.Connect(t.Context(), b.URL, toolbus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	o.Pool = "second"
	e, err := conn.Executor(tools, o)
	if err != nil {
		t.Fatal(err)
	}
	return b, conn, e
}

// An executor that is told to stop returns when the calls in hand have ended.
func TestRunReturnsWhenDrained(t *testing.T) {
	for name, close := range map[string]bool{"by its context": false, "by its connection": true} {
		t.Run(name, func(t *testing.T) {
			tools, ready := toolbus.NewToolset(), make(chan struct{}, 1)
			h := hold(t, tools, toolbus.Tool{ID: "hold", Class: toolbus.Pure, Pool: "second"})
			b, conn, e := second(t, tools, toolbus.ExecutorOptions{Ready: func(string) { ready <- struct{}{} }})
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ran := make(chan error, 1)
			go func() { ran <- e.Run(ctx) }()
			<-ready
			answer := called(t, b, toolbus.Call{Tool: "hold"})
			<-h.started
			closed := make(chan struct{}, 1)
			if close {
				go func() { conn.Close(); closed <- struct{}{} }()
			} else {
				stop()
			}
			h.release <- struct{}{}
			if err := <-ran; err != nil {
				t.Error(err)
			}
			select {
			case <-h.ended:
			default:
				t.Error("it left a call")
			}
			if resp := <-answer; resp == nil || string(resp.Output) != `"done"` {
				t.Errorf("%+v", resp)
			}
			if close {
				<-closed
				if err := e.Run(t.Context()); !errors.Is(err, toolbus.ErrClosed) {
					t.Errorf("on a closed connection: %v", err)
				}
				return
			}
			again, stop := context.WithCancel(t.Context())
			go func() { ran <- e.Run(again) }()
			<-ready
			stop()
			if err := <-ran; err != nil {
				t.Errorf("the second time: %v", err)
			}
		})
	}
}

// A call that does not end in time is ended, and left to another executor.
func TestDrainIsBounded(t *testing.T) {
	tools, ready := toolbus.NewToolset(), make(chan struct{}, 1)
	h := hold(t, tools, toolbus.Tool{ID: "hold", Class: toolbus.Pure, Pool: "second"})
	o := toolbus.ExecutorOptions{Drain: 10 * time.Millisecond, Ready: func(string) { ready <- struct{}{} }}
	b, _, e := second(t, tools, o)
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- e.Run(ctx) }()
	<-ready
	answer := called(t, b, toolbus.Call{Tool: "hold", Timeout: 2 * time.Second, Retry: once})
	<-h.started
	stop()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	<-h.ended
	if resp := <-answer; resp == nil || resp.Status != envelope.RetryableError {
		t.Errorf("nobody else is there, and yet it is %+v", resp)
	}
}

// Told to stop before it serves, it has not failed; what it was told to serve, it says.
func TestRunThatNeverServes(t *testing.T) {
	tools := toolbus.NewToolset()
	must(t, tools, toolbus.Tool{ID: "hold", Class: toolbus.Pure}, hello)
	b := toolbustest.Start(t, tools)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	e, err := b.Conn.Executor(tools, toolbus.ExecutorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Run(ctx); err != nil {
		t.Errorf("executor: %v", err)
	}
	d, err := b.Conn.Dispatcher(tools, toolbus.DispatcherOptions{InsecureNoAuth: true, AllowAll: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Run(ctx); err != nil {
		t.Errorf("dispatcher: %v", err)
	}
	other, err := toolbus.Connect(t.Context(), b.URL, toolbus.Options{Topology: toolbus.Topology{Partitions: 3}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if e, err = other.Executor(tools, toolbus.ExecutorOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := e.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "partition") {
		t.Errorf("on a bus of one partition: %v", err)
	}
}

// A client needs nothing of the bus but its server, and changes nothing there.
func TestClientMakesNothing(t *testing.T) {
	conn, err := toolbus.Connect(t.Context(), natstest.Start(t).URL, toolbus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client, err := conn.Client(toolbus.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	resp, err := toolbus.Outcome(client.Call(t.Context(), toolbus.Call{Tool: "x", Timeout: 50 * time.Millisecond}))
	if err != nil || resp.Status != toolbus.RetryableError {
		t.Errorf("%+v, %v", resp, err)
	}
	js, err := jetstream.New(conn.NATS())
	if err != nil {
		t.Fatal(err)
	}
	for name := range js.StreamNames(t.Context()).Name() {
		t.Errorf("there is a stream %s", name)
	}
}

func TestExecutorWithoutSupervisor(t *testing.T) {
	tools := toolbus.NewToolset()
	if err := tools.AddFolder("testdata/tools"); err != nil {
		t.Fatal(err)
	}
	conn := toolbustest.Start(t, toolbus.NewToolset()).Conn
	_, err := conn.Executor(tools, toolbus.ExecutorOptions{Supervisor: "/no/such/program"})
	if err == nil || !strings.Contains(err.Error(), "call toolbus.SupervisorMain first in main") {
		t.Error(err)
	}
}

func TestConnectSaysWhatToDo(t *testing.T) {
	_, err := toolbus.Connect(t.Context(), "nats://127.0.0.1:1", toolbus.Options{})
	if err == nil || !strings.Contains(err.Error(), "this server does not answer: `nc -zv 127.0.0.1 1`") {
		t.Error(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := toolbus.Connect(ctx, "nats://127.0.0.1:1", toolbus.Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Both parts serve, also where nobody wants to be told of it.
func TestServeUntold(t *testing.T) {
	tools, ready := toolbus.NewToolset(), make(chan string, 2)
	must(t, tools, toolbus.Tool{ID: "hello", Class: toolbus.Pure}, hello)
	b := toolbustest.Start(t, tools)
	d, err := b.Conn.Dispatcher(tools, toolbus.DispatcherOptions{
		InsecureNoAuth: true, AllowAll: true, Ready: func(name string) { ready <- name },
	})
	if err != nil {
		t.Fatal(err)
	}
	e, err := b.Conn.Executor(tools, toolbus.ExecutorOptions{Ready: func(name string) { ready <- name }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- toolbus.Serve(ctx, d, e, nil) }()
	<-ready
	<-ready
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// What no process can work with is said when it is made: no tool could name the pool, and no executor would be alive.
func TestOptionsThatCannotBe(t *testing.T) {
	conn := toolbustest.Start(t, toolbus.NewToolset()).Conn
	if e, err := conn.Executor(toolbus.NewToolset(), toolbus.ExecutorOptions{Pool: "No Pool"}); err == nil {
		t.Errorf("it is %+v", e)
	}
	srv := natstest.Start(t)
	for _, lease := range []time.Duration{-1, 1, 99 * time.Millisecond} {
		conn, err := toolbus.Connect(t.Context(), srv.URL, toolbus.Options{Topology: toolbus.Topology{Lease: lease}})
		if err == nil {
			t.Errorf("it connects with a lease of %s", lease)
			conn.Close()
		}
	}
}

// A closed client says so at once, whatever it is asked.
func TestClosedClient(t *testing.T) {
	c, err := toolbustest.Start(t, toolbus.NewToolset()).Conn.Client(toolbus.ClientOptions{})
	if err == nil {
		err = c.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	_, called := toolbus.Outcome(c.Call(t.Context(), toolbus.Call{Tool: "hello"}))
	_, asked := c.Why(t.Context(), toolbus.CallRef{Ref: "hello.id"})
	_, listed := c.Tool(t.Context(), "hello")
	for _, err := range []error{called, asked, listed} {
		if err == nil || !strings.Contains(err.Error(), "the client is closed") {
			t.Error(err)
		}
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %s", took)
	}
}

// A dispatcher without secrets needs InsecureNoAuth, and the error says how to do without.
func TestDispatcherNeedsSecrets(t *testing.T) {
	b := toolbustest.Start(t, toolbus.NewToolset())
	_, err := b.Conn.Dispatcher(toolbus.NewToolset(), toolbus.DispatcherOptions{})
	if err == nil || !strings.Contains(err.Error(), "toolbus keys init") ||
		!strings.Contains(err.Error(), "InsecureNoAuth") {
		t.Errorf("without secrets: %v", err)
	}
	secure, err := deploymenttest.Make(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	config, err := secure.Configure(deployment.Shape{Server: "one", Listen: "127.0.0.1:-1", Store: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := natsserver.Start(natsserver.Options{ConfigFile: config})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Stop()
	conn, err := toolbus.Connect(t.Context(), srv.URL(), toolbus.Options{SecretsDir: secure.Secrets()})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = conn.Dispatcher(toolbus.NewToolset(), toolbus.DispatcherOptions{InsecureNoAuth: true, AllowAll: true})
	if err == nil || !strings.Contains(err.Error(), "contradicts") {
		t.Errorf("with secrets: %v", err)
	}
}
