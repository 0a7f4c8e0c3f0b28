package blackbox

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/timer/timertest"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

func mustCall(t *testing.T, c *clientlib.Client, call clientlib.Call) *envelope.Response {
	t.Helper()
	r, err := c.Call(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func wantStatus(t *testing.T, r *envelope.Response, status envelope.Status, code envelope.Code) {
	t.Helper()
	if r.Status != status || code != "" && (r.Error == nil || r.Error.Code != code) {
		t.Fatalf("got %s %+v (cause %q), want %s %s", r.Status, r.Error, causeOf(r), status, code)
	}
}

// A thousand concurrent callers with one key: one run, one output, fewer than 100 log writes.
func TestThousandCallersOneKey(t *testing.T) {
	var runs atomic.Int64
	release := make(chan struct{})
	d := deploy(t, map[string]spec{"slow": {class: call.Idempotent,
		run: func(ctx context.Context, inv tool.Invocation, sink tool.Sink) (tool.Result, error) {
			runs.Add(1)
			select {
			case <-release:
			case <-ctx.Done():
			}
			return tool.Result{Output: inv.Input}, nil
		}}})
	d.dispatcher()
	d.dispatcher()
	d.executor(16)
	c := d.client()
	const callers = 1000
	var accepted, done sync.WaitGroup
	accepted.Add(callers)
	responses := make([]*envelope.Response, callers)
	for i := range callers {
		done.Go(func() {
			var once sync.Once
			defer once.Do(accepted.Done)
			responses[i] = mustCall(t, c, clientlib.Call{
				Tool: "slow", Input: []byte(`{"n":1}`), Key: "one-key-for-a-thousand", Timeout: 110 * time.Second,
				OnAccepted: func(envelope.Accepted) { once.Do(accepted.Done) },
			})
		})
	}
	accepted.Wait()
	close(release)
	done.Wait()
	ids := map[string]bool{}
	for _, r := range responses {
		wantStatus(t, r, envelope.Success, "")
		if string(r.Output) != `{"n":1}` || r.Provenance.AuditEventID != responses[0].Provenance.AuditEventID {
			t.Fatalf("an outcome differs: %s %+v", r.Output, r.Provenance)
		}
		ids[r.CallID] = true
	}
	if runs.Load() != 1 || len(ids) != callers {
		t.Errorf("%d runs, %d call ids", runs.Load(), len(ids))
	}
	if n := d.events(); n < 2 || n >= 100 {
		t.Errorf("%d log writes", n)
	}
	r := mustCall(t, c, clientlib.Call{Tool: "slow", Input: []byte(`{"n":2}`), Key: "one-key-for-a-thousand"})
	wantStatus(t, r, envelope.InvalidRequest, envelope.CodeKeyReused)
}

// After a retryable error the same key runs again, and the earlier caller keeps its outcome.
func TestRetryKeepsEarlierOutcome(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"flaky": {class: call.Idempotent,
		run: func(_ context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
			if runs.Add(1) == 1 {
				return tool.Result{}, &tool.CrashError{How: "exit status 1"}
			}
			return tool.Result{Output: inv.Input}, nil
		}}})
	d.dispatcher()
	d.executor(6)
	c := d.client()
	first := clientlib.Call{Tool: "flaky", Key: "flaky-key-0123456789", CallID: "11111111-0000-4000-8000-000000000000",
		Retry: &envelope.RetryPolicy{MaxAttempts: 1}}
	wantStatus(t, mustCall(t, c, first), envelope.RetryableError, envelope.CodeToolFault)
	second := mustCall(t, c, clientlib.Call{Tool: "flaky", Key: "flaky-key-0123456789"})
	wantStatus(t, second, envelope.Success, "")
	if second.Provenance.Attempt != 2 {
		t.Errorf("attempt %d", second.Provenance.Attempt)
	}
	again := mustCall(t, c, first)
	wantStatus(t, again, envelope.RetryableError, envelope.CodeToolFault)
	if again.Provenance.Attempt != 1 || runs.Load() != 2 {
		t.Errorf("attempt %d after %d runs", again.Provenance.Attempt, runs.Load())
	}
}

// The client library retries by itself, within the deadline.
func TestClientRetries(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"flaky": {class: call.Pure,
		run: func(_ context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
			if runs.Add(1) == 1 {
				return tool.Result{}, &tool.CrashError{How: "exit status 1"}
			}
			return tool.Result{Output: inv.Input}, nil
		}}})
	d.dispatcher()
	d.executor(6)
	r := mustCall(t, d.client(), clientlib.Call{Tool: "flaky", Retry: &envelope.RetryPolicy{MaxAttempts: 3, BaseMS: 10}})
	wantStatus(t, r, envelope.Success, "")
	if r.Provenance.Attempt != 2 || r.Metrics.Attempts != 2 {
		t.Errorf("%+v", r.Provenance)
	}
}

// A caller who names the key and the call id gets the outcome of that id, and always the same one.
func TestNamedCallIsNotRetried(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"flaky": {class: call.Pure,
		run: func(context.Context, tool.Invocation, tool.Sink) (tool.Result, error) {
			runs.Add(1)
			return tool.Result{}, &tool.CrashError{How: "exit status 1"}
		}}})
	d.dispatcher()
	d.executor(6)
	ask := clientlib.Call{Tool: "flaky", Key: "flaky-key-0123456789", CallID: "11111111-0000-4000-8000-000000000000",
		Retry: &envelope.RetryPolicy{MaxAttempts: 3, BaseMS: 10}}
	for range 2 {
		r := mustCall(t, d.client(), ask)
		wantStatus(t, r, envelope.RetryableError, envelope.CodeToolFault)
		if r.CallID != ask.CallID || r.Provenance.Attempt != 1 || runs.Load() != 1 {
			t.Errorf("call %s, attempt %d, %d runs", r.CallID, r.Provenance.Attempt, runs.Load())
		}
	}
}

// After a restart of everything the stored outcome is returned.
func TestRestart(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"once": {class: call.SideEffectful, run: echo(&runs)}})
	dispatcher, executor := d.dispatcher(), d.executor(6)
	ask := clientlib.Call{Tool: "once", Key: "restart-key-0123456789", Input: []byte(`{"a":1}`), Timeout: 30 * time.Second}
	first := mustCall(t, d.client(), ask)
	wantStatus(t, first, envelope.Success, "")
	dispatcher.stop()
	executor.stop()
	d.srv.Restart()
	d.dispatcher()
	d.executor(6)
	again := mustCall(t, d.client(), ask)
	wantStatus(t, again, envelope.Success, "")
	if runs.Load() != 1 || !again.Provenance.Replayed || again.Provenance.AuditEventID != first.Provenance.AuditEventID {
		t.Errorf("%d runs, %+v", runs.Load(), again.Provenance)
	}
}

// Without any executor the call is ended at its deadline by the dispatcher.
func TestDeadlineWithoutExecutor(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.SideEffectful, run: echo(&runs)}})
	d.dispatcher()
	d.executor(6).stop() // nobody pulls
	c, late := d.client(), stalled(t)
	const timeout = 2 * time.Second
	var ref string
	started := time.Now()
	r := mustCall(t, c, clientlib.Call{
		Tool: "echo", Timeout: timeout, Retry: &envelope.RetryPolicy{MaxAttempts: 1},
		OnAccepted: func(a envelope.Accepted) { ref = a.Ref },
	})
	took := time.Since(started)
	if took > timeout+300*time.Millisecond+late() {
		t.Errorf("answered after %s", took)
	}
	// a busy machine, or its disk alone, has told the caller too late: what the dispatcher decided is in the log
	if !r.Provenance.Final {
		eventually(t, "the call has ended", func() bool {
			result, err := c.Result(t.Context(), envelope.CallRef{Ref: ref})
			if err == nil && result.Response != nil {
				r = result.Response
			}
			return r.Provenance.Final
		})
	}
	wantStatus(t, r, envelope.RetryableError, envelope.CodeUnavailable)
	if !r.Provenance.Final || r.Error.Details.Effect != envelope.EffectNone {
		t.Errorf("%+v %+v", r.Provenance, r.Error.Details)
	}
}

// When the whole bus is gone the library says so itself, and that this is no outcome.
func TestBusGone(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	dispatcher, executor := d.dispatcher(), d.executor(6)
	c := d.client()
	wantStatus(t, mustCall(t, c, clientlib.Call{Tool: "echo", Key: "warm-up-0123456789"}), envelope.Success, "")
	dispatcher.stop()
	executor.stop()
	d.srv.Stop()
	late, started := stalled(t), time.Now()
	ask := clientlib.Call{Tool: "echo", Timeout: 500 * time.Millisecond, Key: "gone-0123456789abcdef"}
	r := mustCall(t, c, ask)
	took := time.Since(started)
	wantStatus(t, r, envelope.RetryableError, envelope.CodeTimeout)
	if r.Provenance.Final || r.Error.Details.Effect != envelope.EffectUnknown || took > 700*time.Millisecond+late() {
		t.Errorf("after %s: %+v", took, r.Provenance)
	}
	d.srv.Restart()
	d.dispatcher()
	d.executor(6)
	ask.Timeout = 60 * time.Second
	wantStatus(t, mustCall(t, c, ask), envelope.Success, "")
}

// A running call is killed by its owner's cancel within a second, and the caller is told which.
func TestCancelRunning(t *testing.T) {
	started, ended := make(chan struct{}), make(chan struct{})
	d := deploy(t, map[string]spec{"sleep": {class: call.SideEffectful,
		run: func(ctx context.Context, _ tool.Invocation, _ tool.Sink) (tool.Result, error) {
			close(started)
			<-ctx.Done()
			close(ended)
			return tool.Result{}, ctx.Err()
		}}})
	d.dispatcher()
	d.executor(6)
	c := d.client()
	ref := make(chan string, 1)
	outcome := make(chan *envelope.Response, 1)
	go func() {
		r, err := c.Call(context.WithoutCancel(t.Context()),
			clientlib.Call{Tool: "sleep", OnAccepted: func(a envelope.Accepted) { ref <- a.Ref }})
		if err != nil {
			t.Error(err)
		}
		outcome <- r
	}()
	<-started
	late, before := stalled(t), time.Now()
	answer, err := c.Cancel(t.Context(), envelope.CallRef{Ref: <-ref})
	if err != nil {
		t.Fatal(err)
	}
	<-ended
	if took := time.Since(before); took > time.Second+late() || answer.Phase != "running" {
		t.Errorf("killed after %s, told %q", took, answer.Phase)
	}
	wantStatus(t, <-outcome, envelope.TerminalError, envelope.CodeCancelledUnknown)
}

// A queued call that is cancelled never starts.
func TestCancelQueued(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	d.dispatcher()
	d.executor(6).stop()
	c := d.client()
	ref := make(chan string, 1)
	outcome := make(chan *envelope.Response, 1)
	go func() {
		r, err := c.Call(context.WithoutCancel(t.Context()),
			clientlib.Call{Tool: "echo", OnAccepted: func(a envelope.Accepted) { ref <- a.Ref }})
		if err != nil {
			t.Error(err)
		}
		outcome <- r
	}()
	answer, err := c.Cancel(t.Context(), envelope.CallRef{Ref: <-ref})
	if err != nil {
		t.Fatal(err)
	}
	if answer.Phase != "queued" {
		t.Errorf("told %q", answer.Phase)
	}
	wantStatus(t, <-outcome, envelope.RetryableError, envelope.CodeCancelled)
	d.executor(6)
	wantStatus(t, mustCall(t, c, clientlib.Call{Tool: "echo", Key: "later-0123456789abc"}), envelope.Success, "")
	if runs.Load() != 1 {
		t.Errorf("%d runs", runs.Load())
	}
}

// Large inputs and outputs travel by claim-check, unseen.
func TestClaimCheck(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	d.dispatcher()
	d.executor(6)
	big := input(map[string]string{"x": strings.Repeat("toolbus ", 400_000)})
	r := mustCall(t, d.client(), clientlib.Call{Tool: "echo", Input: big})
	wantStatus(t, r, envelope.Success, "")
	if len(r.Output) != len(big) || r.Provenance.OutputRef == nil {
		t.Errorf("%d bytes came back of %d", len(r.Output), len(big))
	}
}

// A large output is had by asking for the outcome as it is by calling, and what is gone is said to be.
func TestResultOfLargeOutput(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	d.dispatcher()
	d.executor(6)
	c := d.client()
	big := input(map[string]string{"x": strings.Repeat("toolbus ", 200_000)})
	var ref string
	wantStatus(t, mustCall(t, c, clientlib.Call{Tool: "echo", Input: big,
		OnAccepted: func(a envelope.Accepted) { ref = a.Ref }}), envelope.Success, "")
	ask := func() map[string]*envelope.Response {
		result, err := c.Result(t.Context(), envelope.CallRef{Ref: ref})
		if err != nil {
			t.Fatal(err)
		}
		cancel, err := c.Cancel(t.Context(), envelope.CallRef{Ref: ref})
		if err != nil {
			t.Fatal(err)
		}
		return map[string]*envelope.Response{"result": result.Response, "cancel": cancel.Response}
	}
	for name, r := range ask() {
		wantStatus(t, r, envelope.Success, "")
		if string(r.Output) != string(big) || !r.Provenance.Final {
			t.Errorf("%s: %d bytes of %d, %+v", name, len(r.Output), len(big), r.Provenance)
		}
	}
	stream, err := d.srv.JetStream(t).Stream(t.Context(), subjects.PayloadsStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, r := range ask() {
		wantStatus(t, r, envelope.TerminalError, envelope.CodePayloadMissing)
		if r.Provenance.Final || r.Error.Details.Effect != envelope.EffectApplied {
			t.Errorf("%s: %+v, %+v", name, r.Provenance, r.Error.Details)
		}
	}
}

// An executor that dies with a claim: idempotent calls run elsewhere, side-effectful ones end
// as unknown. It dies without a word: its connection is cut.
func TestExecutorDies(t *testing.T) {
	t.Parallel()
	for class, want := range map[call.EffectClass]envelope.Code{call.Idempotent: "",
		call.SideEffectful: envelope.CodeToolUnknownState} {
		t.Run(string(class), func(t *testing.T) {
			started := make(chan struct{})
			var runs atomic.Int64
			d := deploy(t, map[string]spec{"work": {class: class,
				run: func(ctx context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
					if runs.Add(1) > 1 || inv.Attempt > 1 {
						return tool.Result{Output: inv.Input}, nil
					}
					close(started)
					<-ctx.Done()
					return tool.Result{}, ctx.Err()
				}}})
			d.dispatcher()
			victim := d.executor(6)
			c := d.client()
			outcome := make(chan *envelope.Response, 1)
			go func() {
				r, err := c.Call(context.WithoutCancel(t.Context()),
					clientlib.Call{Tool: "work", Timeout: 110 * time.Second, Retry: &envelope.RetryPolicy{MaxAttempts: 1}})
				if err != nil {
					t.Error(err)
				}
				outcome <- r
			}()
			<-started
			victim.conn.NC.Close()
			d.executor(6)
			r := <-outcome
			if want == "" {
				wantStatus(t, r, envelope.Success, "")
				return
			}
			wantStatus(t, r, envelope.TerminalError, want)
		})
	}
}

// stalled returns what says how late the machine has made this process since: that is not held against it.
func stalled(t *testing.T) (late func() time.Duration) {
	t.Helper()
	watch := timertest.StartStallMeter()
	t.Cleanup(watch.End)
	return watch.Late
}

func causeOf(r *envelope.Response) string {
	if r.Error == nil {
		return ""
	}
	return r.Error.Cause
}
