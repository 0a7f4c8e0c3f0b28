package blackbox

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// While no dispatcher is there, an executor ends what it has in hand, whose caller gets the outcome. What it is handed
// that somebody else may have begun it does not run, since nobody tells it what became of that; it does once a
// dispatcher is there.
func TestNoDispatcherForAWhile(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	started, finish := make(chan string, 8), make(chan struct{})
	run := func(ctx context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
		n := runs.Add(1)
		started <- inv.CallID
		if n > 2 {
			return tool.Result{Output: inv.Input}, nil
		}
		select {
		case <-finish:
		case <-ctx.Done():
			return tool.Result{}, ctx.Err()
		}
		return tool.Result{Output: inv.Input}, nil
	}
	d := deploy(t, map[string]spec{"work": {class: call.Idempotent, run: run}})
	dispatcher := d.dispatcher()
	c := d.client()
	ask := func() <-chan *envelope.Response {
		outcome := make(chan *envelope.Response, 1)
		go func() { // ends with the outcome
			r, err := c.Call(context.WithoutCancel(t.Context()), once("work", uuid.NewString(), 110*time.Second))
			if err != nil {
				t.Error(err)
			}
			outcome <- r
		}()
		<-started
		return outcome
	}
	victim := d.executor(1)
	lost := ask()
	d.executor(1)
	kept := ask()
	dispatcher.stop()
	victim.conn.NC.Close()
	close(finish)
	wantStatus(t, <-kept, envelope.Success, "")
	js := d.srv.JetStream(t)
	eventually(t, "the other executor is handed the call again and again", func() bool {
		n := 0
		for p := range subjects.Partition(d.topology.Partitions) {
			cons, err := js.Consumer(t.Context(), p.Stream(), subjects.Worker("default", "normal"))
			if err != nil {
				t.Fatal(err)
			}
			n += int(cons.CachedInfo().Delivered.Consumer)
		}
		return n >= 5
	})
	if n := runs.Load(); n != 2 {
		t.Errorf("%d runs while nobody could tell what became of the first", n)
	}
	d.dispatcher()
	wantStatus(t, <-lost, envelope.Success, "")
	if n := runs.Load(); n != 3 {
		t.Errorf("%d runs, want 3", n)
	}
}
