package blackbox

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Calls that wait for a tool which has all the runs that it may have are handed back and come again. That costs no
// claims: nobody has done anything with them.
func TestWaitingForABusyTool(t *testing.T) {
	var runs atomic.Int64
	slow := func(ctx context.Context, inv tool.Invocation, sink tool.Sink) (tool.Result, error) {
		<-time.After(30 * time.Millisecond)
		return echo(&runs)(ctx, inv, sink)
	}
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, runs: 1, run: slow}})
	d.dispatcher()
	d.executor(8)
	c := d.client()
	before := d.events()
	for n, took := 0, uint64(0); took != 2; n++ { // what was admitted when the executor began is claimed in any case
		early := clientlib.Call{Tool: "echo", Input: input(map[string]int{"early": n}), Timeout: time.Minute}
		wantStatus(t, mustCall(t, c, early), envelope.Success, "")
		took, before = d.events()-before, d.events()
	}
	const calls = 8
	var all sync.WaitGroup
	for n := range calls {
		all.Go(func() {
			r, err := c.Call(t.Context(), clientlib.Call{Tool: "echo", Input: input(map[string]int{"n": n}),
				Timeout: time.Minute})
			if err != nil || r.Status != envelope.Success {
				t.Errorf("call %d: %+v, %v", n, r, err)
			}
		})
	}
	all.Wait()
	if n := d.events() - before; n != 2*calls {
		t.Errorf("%d calls took %d writes, want two each", calls, n)
	}
}
