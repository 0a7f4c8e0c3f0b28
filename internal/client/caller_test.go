package client_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/internal/timer/timertest"
)

// muted returns a client that has seen its server go and has found another one, which lets itself be connected to
// and says nothing: the connection keeps everybody waiting who sends.
func (f *fixture) muted() *client.Client {
	f.T.Helper()
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.T.Fatal(err)
	}
	first := make(chan struct{})
	connected := make(chan net.Conn, 64)
	go func() {
		defer close(connected)
		for told := false; ; told = true {
			conn, err := mute.Accept()
			if err != nil {
				return // closed
			}
			if connected <- conn; !told {
				close(first)
			}
		}
	}()
	both := f.Srv.URL + ",nats://" + mute.Addr().String()
	nc, err := nats.Connect(both, nats.DontRandomize(), nats.MaxReconnects(-1), nats.Timeout(30*time.Second))
	if err != nil {
		f.T.Fatal(err)
	}
	c, err := client.New(nc, client.Options{})
	if err != nil {
		f.T.Fatal(err)
	}
	if _, err := c.Tool(f.T.Context(), "echo"); err != nil {
		f.T.Fatal(err)
	}
	f.Srv.Stop()
	<-first
	f.T.Cleanup(func() {
		_ = mute.Close()
		for conn := range connected { // so that the connection is let go of
			_ = conn.Close()
		}
		_ = c.Close() // its subscription went with the server
		nc.Close()
		f.Srv.Restart() // the service is stopped in good order
	})
	return c
}

// A caller that goes away is let go at once, also while the connection keeps everybody waiting.
func TestCancelledWhileServerIsMute(t *testing.T) {
	f := setup(t)
	f.serve(bustest.Describing("echo"))
	c := f.muted()
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	watch := timertest.StartStallMeter()
	defer watch.End()
	began := time.Now()
	r, err := c.Call(ctx, client.Call{Tool: "echo", Timeout: 20 * time.Second})
	if took := time.Since(began); !errors.Is(err, context.Canceled) || took > 2*time.Second+watch.Late() {
		t.Errorf("after %s: %+v, %v", took, r, err)
	}
}

// The deadline of the context is that of the call: the bus is told of it, and there is an answer at it.
func TestDeadlineOfContext(t *testing.T) {
	f := setup(t)
	c := f.serve(bustest.Describing("echo"))
	var asked atomic.Int64
	f.listening(func(_ *call.IncomingRequest, req envelope.Request, _ *rpc.Replies) {
		asked.Store(req.Constraints.TimeoutMS)
	})
	for name, call := range map[string]client.Call{ // the tool's own is 30 s
		"plain": {}, "timeout": {Timeout: 20 * time.Second}, "accepted": {OnAccepted: func(envelope.Accepted) {}},
		"chunks": {OnChunk: func(envelope.Chunk) error { return nil }},
	} {
		call.Tool = "echo"
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		watch := timertest.StartStallMeter()
		began := time.Now()
		r, err := c.Call(ctx, call)
		took := time.Since(began)
		if err != nil || r.Error == nil || r.Error.Code != envelope.CodeTimeout || r.Provenance.Final ||
			r.Error.Details.Effect != envelope.EffectUnknown {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		if ms := asked.Swap(0); ms < 1 || ms > 500 {
			t.Errorf("%s: the bus was told %d ms", name, ms)
		}
		if took < 450*time.Millisecond || took > 2*time.Second+watch.Late() {
			t.Errorf("%s: answered after %s", name, took)
		}
		watch.End()
		cancel()
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	if r, err := c.Call(ctx, client.Call{Tool: "echo"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a context that had ended: %+v, %v", r, err)
	}
	for _, accepted := range []func(envelope.Accepted){nil, func(envelope.Accepted) {}} {
		ctx, cancel = context.WithTimeout(t.Context(), 30*time.Second)
		time.AfterFunc(100*time.Millisecond, cancel)
		call := client.Call{Tool: "echo", Timeout: 20 * time.Second, OnAccepted: accepted}
		if r, err := c.Call(ctx, call); !errors.Is(err, context.Canceled) {
			t.Errorf("a context with a deadline that was cancelled: %+v, %v", r, err)
		}
	}
}

// A back-off hint that nobody can follow is not handed on, whoever in the bus let it through.
func TestAbsurdHint(t *testing.T) {
	f := setup(t)
	c := f.serve(bustest.Describing("echo"))
	e := envelope.NewError(envelope.CodeUpstream, "").WithEffect(envelope.EffectNone)
	e.Details.RetryAfterMS = 1_000_000_000_000_000
	f.answering(envelope.Response{Status: envelope.RetryableError, Error: e, Provenance: envelope.Provenance{
		ToolID: "echo", ToolVersion: "1.0.0", Attempt: 1, Final: true,
	}})
	r, err := c.Call(t.Context(), client.Call{Tool: "echo"})
	if err != nil || r.Error == nil || r.Error.Code != envelope.CodeUpstream ||
		r.Error.Details.RetryAfterMS != envelope.MaxRetryAfter.Milliseconds() {
		t.Errorf("%+v, %v", r, err)
	}
}

// However many callers a server keeps waiting that says nothing, with functions or without, each has its answer at
// its own deadline, also if the client is closed meanwhile.
func TestManyWhileServerIsMute(t *testing.T) {
	f := setup(t)
	f.serve(bustest.Describing("echo"))
	c := f.muted()
	watch := timertest.StartStallMeter()
	defer watch.End()
	var wg sync.WaitGroup
	for i := range 200 {
		call := client.Call{Tool: "echo", Timeout: time.Duration(300+i) * time.Millisecond}
		if i%4 == 0 {
			call.OnAccepted = func(envelope.Accepted) {}
		}
		wg.Go(func() {
			began := time.Now()
			r, err := c.Call(t.Context(), call)
			took := time.Since(began)
			if err != nil || r.Error == nil || r.Error.Code != envelope.CodeTimeout || r.Provenance.Final ||
				took < call.Timeout || took > call.Timeout+100*time.Millisecond+watch.Late() {
				t.Errorf("due after %s, answered after %s: %+v, %v", call.Timeout, took, r, err)
			}
		})
	}
	wg.Wait()
}

// Calls in flight when their client is closed get a local answer at their deadline, and no new ones are made.
func TestCloseWithCalls(t *testing.T) {
	f := setup(t)
	c := f.serve(bustest.Describing("echo"))
	asked := make(chan struct{}, 8)
	f.listening(func(*call.IncomingRequest, envelope.Request, *rpc.Replies) { asked <- struct{}{} })
	var wg sync.WaitGroup
	for _, accepted := range []func(envelope.Accepted){nil, func(envelope.Accepted) {}} {
		wg.Go(func() {
			watch := timertest.StartStallMeter()
			defer watch.End()
			began := time.Now()
			r, err := c.Call(t.Context(), client.Call{Tool: "echo", Timeout: time.Second, OnAccepted: accepted})
			if took := time.Since(began); err != nil || r.Error == nil || r.Error.Code != envelope.CodeTimeout ||
				r.Provenance.Final || took < time.Second || took > 1100*time.Millisecond+watch.Late() {
				t.Errorf("after %s: %+v, %v", took, r, err)
			}
		})
	}
	<-asked
	<-asked
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if r, err := c.Call(t.Context(), client.Call{Tool: "echo"}); err == nil {
		t.Errorf("a call after the end: %+v", r)
	}
	wg.Wait()
}
