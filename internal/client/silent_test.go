package client_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/internal/timer/timertest"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// freshClient has asked nothing yet.
func (f *fixture) freshClient() *client.Client {
	f.T.Helper()
	c, err := client.New(f.Srv.Connect(f.T, nats.MaxReconnects(-1)), client.Options{
		Payloads: streaming.NewPayloads(streaming.NewStore(f.JS, subjects.PayloadsStream), envelope.MaxPayload),
	})
	if err != nil {
		f.T.Fatal(err)
	}
	f.T.Cleanup(func() { _ = c.Close() })
	return c
}

// unsent makes a call which cannot be sent, and wants to be told so after the given time.
func unsent(t *testing.T, c *client.Client, call client.Call, after time.Duration) {
	t.Helper()
	watch := timertest.StartStallMeter()
	defer watch.End()
	started := time.Now()
	r, err := c.Call(t.Context(), call)
	took := time.Since(started)
	if err != nil {
		t.Errorf("after %s: %v", took, err)
		return
	}
	if r.Error == nil || r.Error.Code != envelope.CodeTimeout || r.Error.Details.Effect != envelope.EffectNone ||
		r.Provenance.Final {
		t.Errorf("%s %+v %+v", r.Status, r.Error, r.Provenance)
	}
	// a busy machine is late; what hangs takes longer
	if took < after-50*time.Millisecond || took > after+2*time.Second+watch.Late() {
		t.Errorf("answered after %s, due after %s", took, after)
	}
}

// Whatever of the bus is silent, a client that knows no tool yet answers at the deadline, too, and
// knows that nothing was sent.
func TestSilentBus(t *testing.T) {
	for name, silence := range map[string]func(*fixture){
		"dispatchers are frozen": func(f *fixture) { f.FreezeDispatchers() },
		"there is no dispatcher": func(*fixture) {},
		"the server is gone":     func(f *fixture) { f.Srv.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setup(t)
			c := f.freshClient()
			silence(f)
			var wg sync.WaitGroup
			for _, timeout := range []time.Duration{0, 300 * time.Millisecond, 6 * time.Second} { // they share their questions
				wg.Go(func() {
					after := timeout
					if timeout == 0 {
						after = 5 * time.Second
					}
					unsent(t, c, client.Call{Tool: "echo", Timeout: timeout}, after)
				})
			}
			wg.Wait()
		})
	}
}

// An input that cannot be stored by the deadline was not sent either.
func TestSilentStore(t *testing.T) {
	f := setup(t)
	f.serve(bustest.Describing("echo"))
	c := f.freshClient()
	if _, err := c.Tool(t.Context(), "echo"); err != nil {
		t.Fatal(err)
	}
	f.Srv.Stop()
	large := jsontext.Value(`{"x":"` + strings.Repeat("x", envelope.MaxInline) + `"}`)
	unsent(t, c, client.Call{Tool: "echo", Input: large, Timeout: 500 * time.Millisecond}, 590*time.Millisecond)
	f.Srv.Restart() // the service is stopped in good order
}

// A call waits for a dispatcher that is only just starting.
func TestDispatcherStarts(t *testing.T) {
	f := setup(t)
	c := f.freshClient()
	answer := make(chan *envelope.Response, 1)
	go func() {
		r, err := c.Call(t.Context(), client.Call{Tool: "echo", Timeout: time.Minute})
		if err != nil {
			t.Error(err)
		}
		answer <- r
	}()
	<-time.After(100 * time.Millisecond)
	refusal := envelope.NoTool("echo", nil)
	f.answering(*envelope.Failure(envelope.NoCallID, refusal, envelope.Provenance{Final: true}, envelope.Metrics{}))
	f.serve(bustest.Describing())
	if r := <-answer; r == nil || r.Error == nil || r.Error.Code != envelope.CodeToolUnknown {
		t.Errorf("%+v", r)
	}
}

// A server that lets itself be connected to and says nothing, as a frozen one, keeps the whole connection
// busy, and nobody from the answer that is due.
func TestMuteServer(t *testing.T) {
	f := setup(t)
	f.serve(bustest.Describing("echo"))
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	connected := make(chan net.Conn, 8)
	go func() {
		defer close(connected)
		for {
			conn, err := mute.Accept()
			if err != nil {
				return // closed
			}
			connected <- conn
		}
	}()
	nc, err := nats.Connect(f.Srv.URL+",nats://"+mute.Addr().String(), nats.DontRandomize(), nats.MaxReconnects(-1),
		nats.Timeout(30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(nc, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Tool(t.Context(), "echo"); err != nil {
		t.Fatal(err)
	}
	f.Srv.Stop()
	conn := <-connected
	watch := timertest.StartStallMeter()
	defer watch.End()
	for _, tool := range []string{"echo", "unknown"} {
		began := time.Now()
		r, err := c.Call(t.Context(), client.Call{Tool: tool, Timeout: 300 * time.Millisecond})
		if took := time.Since(began); err != nil || r.Provenance.Final || took > 2*time.Second+watch.Late() {
			t.Errorf("%s: after %s: %+v, %v", tool, took, r, err)
		}
	}
	if err := mute.Close(); err != nil {
		t.Error(err)
	}
	_ = conn.Close() // so that the connection is let go of
	for conn := range connected {
		_ = conn.Close()
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	nc.Close()
	f.Srv.Restart() // the service is stopped in good order
}

// The fix of a call that had too little time names what limited it, and the longest time that the tool gives.
func TestFixNamesLimit(t *testing.T) {
	f := setup(t)
	describing := bustest.Describing("echo")
	c := f.serve(rpc.Endpoint{Op: describing.Op,
		Handle: func(ctx context.Context, from call.Sender, body []byte) (any, *envelope.Error) {
			d, refusal := describing.Handle(ctx, from, body)
			d.(envelope.DescribeResponse).Tools[0].TimeoutMaxMS = 2000
			return d, refusal
		}})
	f.listening(func(*call.IncomingRequest, envelope.Request, *rpc.Replies) {})
	if _, err := c.Tool(t.Context(), "echo"); err != nil {
		t.Fatal(err)
	}
	for want, limit := range map[string][2]time.Duration{
		", and with a later deadline of ctx":         {time.Second, 200 * time.Millisecond},
		", and with a larger timeout_ms, at most 2s": {200 * time.Millisecond, time.Second},
		", and with a larger timeout_ms, or ask":     {time.Minute, 1900 * time.Millisecond},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), limit[1])
		r, err := c.Call(ctx, client.Call{Tool: "echo", Timeout: limit[0]})
		cancel()
		if err != nil || r.Error == nil || !strings.Contains(r.Error.Fix, want) {
			t.Errorf("%s: %+v, %v", want, r, err)
		}
	}
}

// The fix of a call that a bus does not answer names the reference, and more time.
func TestFixOfSilence(t *testing.T) {
	f := setup(t)
	c := f.serve(bustest.Describing("echo"))
	f.listening(func(*call.IncomingRequest, envelope.Request, *rpc.Replies) {})
	r, err := c.Call(t.Context(), client.Call{Tool: "echo", Timeout: 300 * time.Millisecond})
	if err != nil || r.Error == nil || !strings.Contains(r.Error.Fix, "and with a larger timeout_ms") ||
		!strings.Contains(r.Error.Fix, "`toolbus result echo.") || !strings.Contains(r.Error.Fix, "`toolbus doctor`") {
		t.Errorf("%+v, %v", r, err)
	}
}
