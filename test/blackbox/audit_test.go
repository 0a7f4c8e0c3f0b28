package blackbox

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/audit/writer"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// records follows the audit record until it holds the final outcomes of that many calls. It does not count attempts
// that the client repeated by itself.
func (d *busDeployment) records(calls int) map[string][]audit.Event {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	seen, ended := map[string][]audit.Event{}, map[string]bool{}
	for r, err := range reader.Replay(ctx, reader.Streams(d.srv.JetStream(d.t)), reader.Filter{Follow: true}) {
		if err != nil {
			d.t.Fatalf("%v; %d of %d calls have ended on record", err, len(ended), calls)
		}
		if r.CallID == "" { // of no call
			continue
		}
		seen[r.CallID] = append(seen[r.CallID], r.Event)
		if ends(r.Event) && r.Status != envelope.RetryableError {
			ended[r.CallID] = true
		}
		if len(ended) == calls {
			break
		}
	}
	return seen
}

func ends(e audit.Event) bool { return e != audit.ToolRequested && e != audit.ToolAllowed }

// executed reports whether events are those of a call of one attempt that succeeded.
func executed(events []audit.Event) bool {
	return slices.Equal(events, []audit.Event{audit.ToolRequested, audit.ToolAllowed, audit.ToolExecuted})
}

// Every call is on record: requested and allowed, then one ending; refusals too. On a busy machine the client sends a
// request again before it is refused, and both are.
func TestRecord(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	d.dispatcher()
	d.dispatcher()
	d.executor(8)
	c := d.client()
	const calls = 50
	made := map[string]bool{}
	for n := range calls {
		r := mustCall(t, c, clientlib.Call{Tool: "echo", Key: fmt.Sprint("record-0123456789-", n)})
		wantStatus(t, r, envelope.Success, "")
		made[r.CallID] = true
	}
	refused := mustCall(t, c, clientlib.Call{Tool: "echo", Version: "9.x"})
	wantStatus(t, refused, envelope.TerminalError, envelope.CodeVersion)
	records := d.records(calls + 1)
	for id, events := range records {
		denied := !slices.ContainsFunc(events, func(e audit.Event) bool { return e != audit.ToolDenied })
		once := len(events) == 3 && !ends(events[0]) && !ends(events[1]) && ends(events[2])
		if !denied && !once || made[id] && !executed(events) || id == refused.CallID && !denied {
			t.Errorf("%s: %v", id, events)
		}
	}
	for id := range made {
		if records[id] == nil {
			t.Errorf("%s is not on record", id)
		}
	}
}

// Whoever joins a call of another, or is told its stored outcome, is on record, once and by name.
func TestSharedIsOnRecord(t *testing.T) {
	release := make(chan struct{})
	d := deploy(t, map[string]spec{"wait": {class: call.SideEffectful,
		run: func(_ context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
			<-release
			return tool.Result{Output: inv.Input}, nil
		}}})
	d.dispatcher()
	d.executor(8)
	shared := clientlib.Call{Tool: "wait", Key: "shared-0123456789", KeyScope: envelope.ScopeGlobal}
	var calls sync.WaitGroup
	ask := func(actor string, asked func(envelope.Accepted)) {
		c := d.clientOf(actor)
		call := shared
		call.OnAccepted = asked
		calls.Go(func() { wantStatus(t, mustCall(t, c, call), envelope.Success, "") })
	}
	opened, joined := make(chan struct{}), make(chan struct{})
	ask("agent://owner", func(envelope.Accepted) { close(opened) })
	<-opened
	ask("agent://joiner", func(a envelope.Accepted) { close(joined) })
	<-joined
	close(release)
	calls.Wait()
	for range 2 {
		ask("agent://late", nil)
		calls.Wait()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	told := map[string][]string{}
	for r, err := range reader.Replay(ctx, reader.Streams(d.srv.JetStream(t)), reader.Filter{Follow: true}) {
		if err != nil {
			t.Fatalf("%v; on record are %v", err, told)
		}
		if r.Event == audit.ToolJoined || r.Event == audit.ToolReplayed {
			told[r.Actor] = append(told[r.Actor], fmt.Sprintf("%s %d %s %t", r.Event, r.Attempt, r.Status, r.Ref != ""))
		}
		if len(told["agent://late"]) == 2 {
			break
		}
	}
	late := "tool_replayed 1 success true"
	want := map[string][]string{"agent://joiner": {"tool_joined 1  true"}, "agent://late": {late, late}}
	if fmt.Sprint(told) != fmt.Sprint(want) {
		t.Errorf("on record are %v, not %v", told, want)
	}
}

// When AUDIT takes no records, admission stops; when it does again, nothing is missing.
func TestAuditOutage(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	d.run("dispatcher", func(ctx context.Context, c *app.Conn, ready func()) error {
		return app.RunDispatcher(ctx, c, app.DispatcherOptions{
			AllowAll: true, Tools: d.registry, Version: "0.0.1", AuditLag: 300 * time.Millisecond, Ready: ready,
		})
	})
	d.executor(8)
	c := d.client()
	ask := func(n int, timeout time.Duration) *envelope.Response {
		return mustCall(t, c, clientlib.Call{
			Tool: "echo", Key: fmt.Sprint("outage-0123456789-", n), Timeout: timeout,
			Retry: &envelope.RetryPolicy{MaxAttempts: 1},
		})
	}
	wantStatus(t, ask(0, 30*time.Second), envelope.Success, "")
	js := d.srv.JetStream(t)
	if err := js.DeleteStream(t.Context(), subjects.AuditStream); err != nil {
		t.Fatal(err)
	}
	admitted, refused := 1, false
	for started, n := time.Now(), 1; !refused && time.Since(started) < 20*time.Second; n++ {
		r := ask(n, 2*time.Second)
		if r.Status == envelope.Success {
			admitted++
		}
		refused = !r.Provenance.Final // a refusal cannot be recorded either, so it is not told
	}
	if !refused {
		t.Fatal("admission went on without a record")
	}
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	for n := 1_000_000; ; n++ {
		r := ask(n, 10*time.Second)
		if r.Status == envelope.Success {
			admitted++
			break
		}
		if time.Since(back) > time.Minute {
			t.Fatalf("admission did not come back: %+v", r.Error)
		}
		<-time.After(50 * time.Millisecond)
	}
	d.records(admitted - 1) // the first call's records went with the stream
}

// After its retention a key runs again; until then it never does.
func TestRetention(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"once": {class: call.Idempotent, run: echo(&runs)}})
	d.kv = kv.LogOptions{Expiry: call.Expiry{Grace: time.Second, Margin: time.Second}}
	d.dispatcher()
	d.executor(6)
	c := d.client()
	ask := clientlib.Call{Tool: "once", Key: "retention-0123456789", Timeout: 3 * time.Second}
	first := mustCall(t, c, ask)
	wantStatus(t, first, envelope.Success, "")
	ask.Timeout = 30 * time.Second // how long the first is retained does not depend on it
	for started := time.Now(); ; <-time.After(100 * time.Millisecond) {
		r := mustCall(t, c, ask)
		wantStatus(t, r, envelope.Success, "")
		if r.Provenance.Replayed != (runs.Load() == 1) {
			t.Fatalf("%d runs, replayed %t", runs.Load(), r.Provenance.Replayed)
		}
		if runs.Load() == 2 {
			if time.Since(started) < 2*time.Second {
				t.Errorf("ran again after %s", time.Since(started))
			}
			return
		}
		if time.Since(started) > time.Minute {
			t.Fatal("never ran again")
		}
	}
}

// A call log at its high-water mark refuses new calls and still takes the outcomes of old ones.
func TestFullBucket(t *testing.T) {
	release := make(chan struct{})
	d := deploy(t, map[string]spec{"slow": {class: call.SideEffectful,
		run: func(ctx context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
			select {
			case <-release:
			case <-ctx.Done():
			}
			return tool.Result{Output: []byte(`{}`)}, nil
		}}})
	d.topology.CallsBytes = 1 << 20
	d.dispatcher()
	d.executor(64)
	c := d.client()
	big := input(map[string]string{"x": string(make([]byte, 20<<10))})
	outcomes := make(chan *envelope.Response, 100)
	full := false
	n := 0
	for ; !full && n < 60; n++ {
		verdict := make(chan bool, 2)
		go func() {
			r, err := c.Call(context.WithoutCancel(t.Context()), clientlib.Call{
				Tool: "slow", Input: big, Key: fmt.Sprint("full-0123456789-", n), Timeout: 30 * time.Second,
				Retry: &envelope.RetryPolicy{MaxAttempts: 1}, OnAccepted: func(envelope.Accepted) { verdict <- true },
			})
			if err != nil {
				t.Error(err)
			}
			verdict <- false
			outcomes <- r
		}()
		full = !<-verdict
		if !full {
			<-time.After(30 * time.Millisecond) // the gauge reads once a second; stay below what fits in one
		}
	}
	if !full {
		t.Fatal("never full")
	}
	close(release)
	refused := 0
	for range n {
		r := <-outcomes
		if r.Status == envelope.Success {
			continue
		}
		wantStatus(t, r, envelope.RetryableError, envelope.CodeStoreFull)
		refused++
	}
	if refused != 1 {
		t.Errorf("%d of %d calls were refused", refused, n)
	}
}

// A full record is an answer, and all goes on when there is room again.
func TestFullRecord(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	d.run("dispatcher", func(ctx context.Context, c *app.Conn, ready func()) error {
		return app.RunDispatcher(ctx, c, app.DispatcherOptions{
			AllowAll: true, Tools: d.registry, AuditLag: 100 * time.Millisecond, Version: "0.0.1", Ready: ready,
		})
	})
	d.executor(6)
	c := d.client()
	js := d.srv.JetStream(t)
	room := func(discard jetstream.DiscardPolicy, bytes int64) {
		t.Helper()
		for _, name := range []string{subjects.AuditStream, subjects.DeniedStream} {
			stream, err := js.Stream(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			cfg := stream.CachedInfo().Config
			cfg.Discard, cfg.MaxBytes = discard, bytes
			if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
		}
	}
	until := func(version string, want envelope.Code) *envelope.Response {
		t.Helper()
		for begun := time.Now(); ; {
			r := mustCall(t, c, clientlib.Call{
				Tool: "echo", Version: version, Key: uuid.NewString(), Timeout: 20 * time.Second,
				Retry: &envelope.RetryPolicy{MaxAttempts: 1},
			})
			if r.Error == nil && want == "" || r.Error != nil && r.Error.Code == want {
				return r
			}
			if time.Since(begun) > time.Minute {
				t.Fatalf("%s %+v, want %s", r.Status, r.Error, want)
			}
		}
	}
	until("", "")
	room(jetstream.DiscardNew, 1)
	if r := until("", envelope.CodeAuditLag); r.Provenance.Final || r.Error.Details.Effect != envelope.EffectNone {
		t.Errorf("%+v, %+v", r.Error, r.Provenance)
	}
	wantStatus(t, mustCall(t, c, clientlib.Call{Tool: "echo", Version: "9.x"}), envelope.RetryableError,
		envelope.CodeAuditLag)
	room(jetstream.DiscardOld, 1<<30)
	until("", "")
	until("9.x", envelope.CodeVersion) // the record of a busy machine may be behind once more
	if err := writer.WaitRecorded(t.Context(), js); err != nil {
		t.Error(err)
	}
}
