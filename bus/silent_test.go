package bus_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/stalls"
	"github.com/seed-018f16cc/toolbus/question"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// describing answers for tools with one function that takes and returns any object.
func describing(tools ...string) bus.Endpoint {
	return bus.Endpoint{Op: subjects.OpDescribe, Handle: func(context.Context, question.Sender, []byte) (any, *envelope.Error) {
		schema := jsontext.Value(`{"type":"object"}`)
		d := question.Description{NowUnixMS: time.Now().UnixMilli()}
		for _, id := range tools {
			d.Tools = append(d.Tools, question.Tool{
				ToolID: id, Version: "1.0.0", TimeoutDefaultMS: 30_000,
				Functions: map[string]question.Function{"run": {Request: schema, Response: schema}},
			})
		}
		return d, nil
	}}
}

// freshClient has asked nothing yet.
func (f *fixture) freshClient() *bus.Client {
	f.t.Helper()
	c, err := bus.NewClient(f.srv.Connect(f.t, nats.MaxReconnects(-1)), bus.ClientOptions{
		Payloads: streaming.NewPayloads(streaming.NewStore(f.js, subjects.PayloadsStream), subjects.PayloadsPrefix, envelope.MaxPayload),
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = c.Close() })
	return c
}

// freezeDispatchers lets questions arrive somewhere and never be answered.
func (f *fixture) freezeDispatchers() {
	f.t.Helper()
	if _, err := f.nc.Subscribe(subjects.ServiceWildcard(subjects.OpDescribe), func(*nats.Msg) {}); err != nil {
		f.t.Fatal(err)
	}
	if err := f.nc.Flush(); err != nil {
		f.t.Fatal(err)
	}
}

// unsent makes a call which cannot be sent, and wants to be told so after the given time.
func unsent(t *testing.T, c *bus.Client, call bus.Call, after time.Duration) {
	t.Helper()
	watch := stalls.Begin()
	defer watch.End()
	started := time.Now()
	r, err := c.Call(t.Context(), call)
	took := time.Since(started)
	if err != nil {
		t.Errorf("after %s: %v", took, err)
		return
	}
	if r.Error == nil || r.Error.Code != envelope.CodeTimeout || r.Error.Details.Effect != envelope.EffectNone || r.Provenance.Final {
		t.Errorf("%s %+v %+v", r.Status, r.Error, r.Provenance)
	}
	if took < after-50*time.Millisecond || took > after+2*time.Second+watch.Late() { // a busy machine is late; what hangs takes longer
		t.Errorf("answered after %s, due after %s", took, after)
	}
}

// Whatever of the bus is silent, a client that knows no tool yet answers at the deadline, too, and
// knows that nothing was sent.
func TestSilentBus(t *testing.T) {
	for name, silence := range map[string]func(*fixture){
		"dispatchers are frozen": (*fixture).freezeDispatchers,
		"there is no dispatcher": func(*fixture) {},
		"the server is gone":     func(f *fixture) { f.srv.Stop() },
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
					unsent(t, c, bus.Call{Tool: "echo", Timeout: timeout}, after)
				})
			}
			wg.Wait()
		})
	}
}

// An input that cannot be stored by the deadline was not sent either.
func TestSilentStore(t *testing.T) {
	f := setup(t)
	f.serve(describing("echo"))
	c := f.freshClient()
	if _, err := c.Tool(t.Context(), "echo"); err != nil {
		t.Fatal(err)
	}
	f.srv.Stop()
	large := jsontext.Value(`{"x":"` + strings.Repeat("x", envelope.MaxInline) + `"}`)
	unsent(t, c, bus.Call{Tool: "echo", Input: large, Timeout: 500 * time.Millisecond}, 590*time.Millisecond)
	f.srv.Restart() // the service is stopped in good order
}

// A call waits for a dispatcher that is only just starting.
func TestDispatcherStarts(t *testing.T) {
	f := setup(t)
	c := f.freshClient()
	answer := make(chan *envelope.Response, 1)
	go func() {
		r, err := c.Call(t.Context(), bus.Call{Tool: "echo", Timeout: time.Minute})
		if err != nil {
			t.Error(err)
		}
		answer <- r
	}()
	<-time.After(100 * time.Millisecond)
	f.serve(describing())
	if r := <-answer; r == nil || r.Error == nil || r.Error.Code != envelope.CodeToolUnknown {
		t.Errorf("%+v", r)
	}
}

// A timeout that the wire cannot say is the caller's mistake, not a silent bus.
func TestTimeoutTooShort(t *testing.T) {
	f := setup(t)
	c := f.serve(describing("echo"))
	for _, timeout := range []time.Duration{1, 400 * time.Microsecond, -time.Second} {
		r, err := c.Call(t.Context(), bus.Call{Tool: "echo", Timeout: timeout})
		if err != nil || r.Status != envelope.InvalidRequest || len(r.Error.Details.Violations) != 1 ||
			r.Error.Details.Violations[0].Pointer != "/constraints/timeout_ms" {
			t.Errorf("%s: %+v, %v", timeout, r, err)
		}
	}
}

// A server that lets itself be connected to and says nothing, as a frozen one, keeps the whole connection
// busy, and nobody from the answer that is due.
func TestMuteServer(t *testing.T) {
	f := setup(t)
	f.serve(describing("echo"))
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
	nc, err := nats.Connect(f.srv.URL+",nats://"+mute.Addr().String(), nats.DontRandomize(), nats.MaxReconnects(-1), nats.Timeout(30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	c, err := bus.NewClient(nc, bus.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Tool(t.Context(), "echo"); err != nil {
		t.Fatal(err)
	}
	f.srv.Stop()
	conn := <-connected
	watch := stalls.Begin()
	defer watch.End()
	for _, tool := range []string{"echo", "unknown"} {
		began := time.Now()
		r, err := c.Call(t.Context(), bus.Call{Tool: tool, Timeout: 300 * time.Millisecond})
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
	f.srv.Restart() // the service is stopped in good order
}
