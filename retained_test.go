package toolbus_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// The requests of side-effectful calls are kept as long as their outcomes. A consumer of executors that is made anew
// hands all of them out again. None runs, and each costs a dispatcher a bounded number of messages.
func TestConsumerMadeAnewOverRetainedRequests(t *testing.T) {
	const retained, most = 200, 10
	runs := make(chan struct{}, 2*retained)
	tools := toolbus.NewToolset()
	must(t, tools, toolbus.Tool{ID: "pay", Class: toolbus.SideEffectful, AcceptRerun: true},
		func(_ context.Context, _ *toolbus.Run, in string) (string, error) { runs <- struct{}{}; return in, nil })
	url := natstest.Start(t).URL
	connect := func() *toolbus.Conn {
		conn, err := toolbus.Connect(t.Context(), url, toolbus.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		return conn
	}
	dispatching, executing := connect(), connect()
	ready := make(chan string, 3)
	part := func(run func(context.Context) error) (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- run(ctx) }()
		<-ready
		return func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	d, err := dispatching.Dispatcher(tools, toolbus.DispatcherOptions{
		InsecureNoAuth: true, AllowAll: true, Ready: func(s string) { ready <- s },
	})
	if err != nil {
		t.Fatal(err)
	}
	e, err := executing.Executor(tools, toolbus.ExecutorOptions{Ready: func(s string) { ready <- s }})
	if err != nil {
		t.Fatal(err)
	}
	defer part(d.Run)()
	stop := part(e.Run)
	client, err := connect().Client(toolbus.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for i := range retained {
		r, err := toolbus.Outcome(client.Call(t.Context(), toolbus.Call{Tool: "pay", Input: fmt.Appendf(nil, "%q",
			fmt.Sprint(i))}))
		if err != nil || r.Status != toolbus.Success {
			t.Fatalf("%+v, %v", r.Error, err)
		}
	}
	stop()
	js, err := jetstream.New(dispatching.NATS())
	if err != nil {
		t.Fatal(err)
	}
	name := subjects.Worker("default", subjects.Queue("", 0))
	stream := subjects.Partition(0).Stream()
	if err := js.DeleteConsumer(t.Context(), stream, name); err != nil {
		t.Fatal(err)
	}
	before := dispatching.NATS().Stats()
	defer part(e.Run)()
	for left := uint64(1); left > 0; {
		cons, err := js.Consumer(t.Context(), stream, name)
		if err != nil {
			t.Fatal(err)
		}
		info := cons.CachedInfo()
		left = info.NumPending + uint64(info.NumAckPending)
		<-time.After(20 * time.Millisecond)
	}
	after := dispatching.NATS().Stats()
	out, in := after.OutMsgs-before.OutMsgs, after.InMsgs-before.InMsgs
	t.Logf("%d sent, %d received, %d KB", out, in, (after.InBytes-before.InBytes)>>10)
	if out > retained*most {
		t.Errorf("the dispatcher sent %d messages for %d requests", out, retained)
	}
	if n := len(runs); n != retained {
		t.Errorf("%d runs of %d calls", n, retained)
	}
}
