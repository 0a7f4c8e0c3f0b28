package blackbox

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Environment of the process that TestExecutorProcess is: the server, and the folder of the tools.
const (
	envServer = "POISON_SERVER"
	envTools  = "POISON_TOOLS"
)

// poisonTools are three tools: two that take longer than the third, which kills its process.
func poisonTools() map[string]spec {
	slow := func(ctx context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
		select {
		case <-ctx.Done():
			return tool.Result{}, ctx.Err()
		case <-time.After(time.Second):
			return tool.Result{Output: inv.Input}, nil
		}
	}
	return map[string]spec{
		"look": {class: call.Pure, run: slow},
		"set":  {class: call.Idempotent, run: slow},
		"kill": {class: call.Idempotent, run: func(ctx context.Context, _ tool.Invocation, _ tool.Sink) (tool.Result, error) {
			time.AfterFunc(300*time.Millisecond, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
			<-ctx.Done()
			return tool.Result{}, ctx.Err()
		}},
	}
}

// TestExecutorProcess is an executor, in a process that TestInnocents starts.
func TestExecutorProcess(t *testing.T) {
	url := os.Getenv(envServer)
	if url == "" {
		t.Skip("a process of TestInnocents")
	}
	d := deployOn(t, &natstest.Server{URL: url}, poisonTools())
	d.load(os.Getenv(envTools))
	d.executor(16)
	<-t.Context().Done()
}

// executorProcesses runs n executors in processes of their own, and starts another for each that dies. died counts
// those.
func (d *busDeployment) executorProcesses(n int) (died *atomic.Int64) {
	d.t.Helper()
	ctx, stop := context.WithCancel(context.WithoutCancel(d.t.Context()))
	var all sync.WaitGroup
	d.t.Cleanup(func() { stop(); all.Wait() })
	died = new(atomic.Int64)
	for range n {
		all.Go(func() {
			for ctx.Err() == nil {
				cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestExecutorProcess$")
				cmd.Env = append(os.Environ(), envServer+"="+d.srv.URL, envTools+"="+d.dir)
				out, err := cmd.CombinedOutput()
				switch {
				case ctx.Err() != nil:
				case strings.Contains(fmt.Sprint(err), "killed"):
					died.Add(1)
				default:
					d.t.Errorf("an executor ended: %v\n%s", err, out)
					return
				}
			}
		})
	}
	return died
}

// A call that kills its executors ends as a dead letter. Those that ran beside it, and died with it, succeed.
func TestInnocents(t *testing.T) {
	for _, executors := range []int{1, 2} {
		t.Run(fmt.Sprint("executors: ", executors), func(t *testing.T) {
			t.Parallel()
			d := deploy(t, poisonTools())
			d.dispatcher()
			died := d.executorProcesses(executors)
			c := d.client()
			outcomes := sync.Map{}
			var calls sync.WaitGroup
			for n, name := range []string{"look", "set", "look", "kill", "set", "look", "set"} {
				calls.Go(func() {
					r := mustCall(t, c, clientlib.Call{Tool: name, Key: fmt.Sprint("innocent-or-not-", n), Timeout: 100 * time.Second,
						Retry: &envelope.RetryPolicy{MaxAttempts: 1}, Input: input(map[string]int{"n": n})})
					outcomes.Store(fmt.Sprint(name, n), r)
				})
			}
			calls.Wait()
			outcomes.Range(func(name, r any) bool {
				want, code := envelope.Success, envelope.Code("")
				if name == "kill3" {
					want, code = envelope.TerminalError, envelope.CodeLost
				}
				t.Run(name.(string), func(t *testing.T) { wantStatus(t, r.(*envelope.Response), want, code) })
				return true
			})
			// It died unclaimed, with one claim beside others, and alone until these count as MaxDeaths.
			if n := died.Load(); n < call.MaxDeaths || n > call.MaxDeaths+2 {
				t.Errorf("%d executors died", n)
			}
		})
	}
}
