package client_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// build is one build of the tool count, as a dispatcher describes it.
type build struct{ digest, class string }

// describing describes the first build to the first question, and the last one from then on.
func describing(builds ...build) rpc.Endpoint {
	var asked atomic.Int32
	return rpc.Endpoint{Op: subjects.OpDescribe,
		Handle: func(context.Context, call.Sender, []byte) (any, *envelope.Error) {
			b := builds[min(int(asked.Add(1)), len(builds))-1]
			return envelope.DescribeResponse{NowUnixMS: time.Now().UnixMilli(), Tools: []envelope.ToolInfo{{
				ToolID: "count", Version: "1.0.0", Digest: b.digest, Determinism: b.class, TimeoutDefaultMS: 30_000,
				Functions: map[string]envelope.FunctionInfo{"run": {Request: jsontext.Value(`{}`), Response: jsontext.Value(`{}`)}},
			}}}, nil
		}}
}

// quick is a retry policy that does not wait.
func quick(attempts int) *envelope.RetryPolicy {
	return &envelope.RetryPolicy{MaxAttempts: attempts, BaseMS: 1, CapMS: 1}
}

// TestRetriesByClass holds that the library makes a call again by itself only if the tool is pure or idempotent, or if
// the answer proves that no executor started it, whatever the caller's policy says.
func TestRetriesByClass(t *testing.T) {
	const pure, idempotent, effectful = "pure", "idempotent", "side_effectful"
	failed := envelope.Provenance{Attempt: 1, Final: true, Digest: "d"}
	unstarted := envelope.Provenance{Attempt: 1, Final: true, Digest: "d", NotStarted: true}
	refused := envelope.Provenance{AuditEventID: "gate.1"} // for the time being
	turnedAway := envelope.Provenance{AuditEventID: "gate.1", NotStarted: true}
	for name, c := range map[string]struct {
		described []build
		answer    envelope.Provenance
		retry     *envelope.RetryPolicy
		asks      int32
	}{
		"pure":                                   {[]build{{"d", pure}}, failed, quick(3), 3},
		"idempotent":                             {[]build{{"d", idempotent}}, failed, quick(3), 3},
		"side-effectful":                         {[]build{{"d", effectful}}, failed, nil, 1},
		"side-effectful, and the caller insists": {[]build{{"d", effectful}}, failed, quick(5), 1},
		"of a class that is not known":           {[]build{{"d", "commutative"}}, failed, quick(3), 1},
		"of no class":                            {[]build{{"d", ""}}, failed, quick(3), 1},
		"side-effectful, not started":            {[]build{{"d", effectful}}, unstarted, quick(3), 3},
		"not started, of no class":               {[]build{{"d", ""}}, unstarted, quick(3), 3},
		"pure, turned away by an older build":    {[]build{{"d", pure}}, refused, quick(3), 3},
		"side-effectful, by an older build":      {[]build{{"d", effectful}}, refused, quick(3), 1},
		"side-effectful, turned away":            {[]build{{"d", effectful}}, turnedAway, quick(3), 3},
		"pure before, side-effectful now":        {[]build{{"old", pure}, {"d", effectful}}, failed, quick(3), 1},
		"side-effectful before, pure now":        {[]build{{"old", effectful}, {"d", pure}}, failed, quick(3), 3},
		"of a build that nobody describes":       {[]build{{"old", pure}}, failed, quick(3), 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t)
			caller := f.serve(describing(c.described...))
			code := envelope.CodeUpstream
			if c.answer.Attempt == 0 {
				code = envelope.CodeOpen
			}
			asked := f.answering(*envelope.Failure("", envelope.NewError(code, "").WithEffect(envelope.EffectNone).
				WithRetryAfter(0), c.answer, envelope.Metrics{}))
			r, err := caller.Call(t.Context(), client.Call{Tool: "count", Retry: c.retry})
			if err != nil || r.Status != envelope.RetryableError {
				t.Fatalf("%+v, %v", r, err)
			}
			if n := asked.Load(); n != c.asks {
				t.Errorf("asked %d times, want %d", n, c.asks)
			}
		})
	}
}

// An attempt that has run into its deadline is not repeated in less time than it had.
func TestNoRetryInTheRestOfTheTime(t *testing.T) {
	timedOut := envelope.Provenance{Attempt: 1, Final: true, Digest: "d"}
	for name, c := range map[string]struct {
		answer envelope.Provenance
		code   envelope.Code
		ran    int64
		asks   int32
	}{
		"it ran for longer than is left": {timedOut, envelope.CodeTimeout, 60_000, 1},
		"it ran for less":                {timedOut, envelope.CodeTimeout, 1_000, 3},
		"it was not started":             {envelope.Provenance{}, envelope.CodeTimeout, 60_000, 3},
		"it ended by itself":             {timedOut, envelope.CodeUpstream, 60_000, 3},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t)
			caller := f.serve(describing(build{"d", "pure"}))
			e := envelope.NewError(c.code, "").WithEffect(envelope.EffectNone).WithRetryAfter(0).WithStderr("why")
			asked := f.answering(*envelope.Failure("", e, c.answer, envelope.Metrics{DurationMS: c.ran}))
			r, err := caller.Call(t.Context(), client.Call{Tool: "count", Retry: quick(3), Timeout: 30 * time.Second})
			if err != nil || asked.Load() != c.asks || r.Error.Details.Stderr != "why" {
				t.Errorf("asked %d times, want %d: %+v, %v", asked.Load(), c.asks, r, err)
			}
		})
	}
}

// After the server's clock was set forward, the deadlines of a client have passed in bus time. One refused call
// suffices for it to learn bus time anew: it makes that call again, and sends the next ones in time.
func TestServersClockIsSetForward(t *testing.T) {
	f := setup(t)
	var step, refused atomic.Int64
	busTime := func() time.Time { return time.Now().Add(time.Duration(step.Load())) }
	c := f.serve(rpc.Endpoint{Op: subjects.OpDescribe,
		Handle: func(context.Context, call.Sender, []byte) (any, *envelope.Error) {
			return envelope.DescribeResponse{NowUnixMS: busTime().UnixMilli(), Tools: []envelope.ToolInfo{{
				ToolID: "count", Version: "1.0.0", Determinism: "pure", TimeoutDefaultMS: 30_000,
				Functions: map[string]envelope.FunctionInfo{
					"run": {Request: jsontext.Value(`{}`), Response: jsontext.Value(`{}`)}},
			}}}, nil
		}})
	f.listening(func(in *call.IncomingRequest, req envelope.Request, replies *rpc.Replies) {
		p := envelope.Provenance{ToolID: "count", ToolVersion: "1.0.0", Attempt: 1, Final: true}
		if time.UnixMilli(req.Constraints.DeadlineUnixMS).Before(busTime()) {
			refused.Add(1)
			p.Attempt = 0
			late := envelope.NewError(envelope.CodeTimeout, "").WithEffect(envelope.EffectUnknown)
			replies.Outcome(in.ReplyAddress(), envelope.Failure(req.CallID, late, p, envelope.Metrics{}))
			return
		}
		replies.Outcome(in.ReplyAddress(), &envelope.Response{
			CallID: req.CallID, Status: envelope.Success, Output: jsontext.Value(`{}`), Provenance: p})
	})
	for range 3 {
		r, err := c.Call(t.Context(), client.Call{Tool: "count", Retry: quick(2)})
		if err != nil || r.Status != envelope.Success {
			t.Fatalf("%+v, %v", r, err)
		}
		step.Store(int64(15 * time.Minute))
	}
	if n := refused.Load(); n != 1 {
		t.Errorf("%d requests came too late, want 1", n)
	}
	step.Add(int64(15 * time.Minute)) // of a call that is not made again, the next one profits
	for n, want := range []envelope.Status{envelope.RetryableError, envelope.Success} {
		r, err := c.Call(t.Context(), client.Call{Tool: "count", Retry: quick(1)})
		if err != nil || r.Status != want {
			t.Errorf("call %d: %+v, %v", n, r, err)
		}
	}
}
