package blackbox

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// What a request asks for in vain is said in the outcome, also to those that are told it later.
func TestAskedForInVain(t *testing.T) {
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	d.dispatcher()
	d.executor(6)
	c := d.client()
	confidence := 0.9
	ask := d.request("echo", "in-vain-0123456789")
	k := &ask.Constraints
	k.TimeoutMS, k.DeadlineUnixMS = 300_000, time.Now().Add(5*time.Minute).UnixMilli()
	k.CacheKey, k.Budget, k.MemoryMBLimit, k.NetAllowlist = "k", []byte(`{"eur":1}`), 64, []string{"example.org"}
	ask.Context.Confidence, ask.Context.Evidence, ask.Context.Clock = &confidence, []string{"e"}, "monotonic"
	want := []string{
		"timeout-cut", "memory_mb_limit-ignored", "net_allowlist-ignored", "budget-ignored", "cache_key-ignored",
		"confidence-ignored", "evidence-ignored", "clock-ignored",
	}
	told := func(r *envelope.Response, want []string) {
		t.Helper()
		wantStatus(t, r, envelope.Success, "")
		if !slices.Equal(r.Provenance.PolicyApplied, want) || len(r.Warnings) != len(want) {
			t.Errorf("policy applied %q, warnings %q", r.Provenance.PolicyApplied, r.Warnings)
		}
	}
	told(d.send(ask), want)
	told(mustCall(t, c, clientlib.Call{Tool: "echo", Key: k.IdempotencyKey}), want)
	told(mustCall(t, c, clientlib.Call{Tool: "echo", Key: "not-in-vain-0123456789"}), nil)
}

// request returns a request of the default actor, as clients in other languages write it: with members that the Go
// client has no field for.
func (d *busDeployment) request(tool, key string) *envelope.Request {
	return &envelope.Request{
		CallID: uuid.NewString(), ToolID: tool, ToolVersion: "*", Fn: "run", Input: []byte(`{}`),
		Context: envelope.RequestContext{
			ActorID: clientlib.DefaultActor, TraceID: uuid.NewString(), Timezone: "UTC", Env: "dev",
		},
		Constraints: envelope.Constraints{IdempotencyKey: key},
	}
}

// send sends a request by hand and returns the outcome.
func (d *busDeployment) send(req *envelope.Request) *envelope.Response {
	d.t.Helper()
	nc := d.srv.Connect(d.t)
	in, err := rpc.NewInbox(nc, clientlib.DefaultTenant, clientlib.DefaultActor)
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = in.Close() }() // gone with the connection otherwise
	msg := nats.NewMsg(subjects.Call(clientlib.DefaultTenant, clientlib.DefaultActor, req.ToolID))
	msg.Header.Set(subjects.HeaderContentType, envelope.ContentJSON)
	outcomes := make(chan *nats.Msg, 1)
	msg.Reply = in.Open(func(m *nats.Msg) {
		if m.Header.Get(subjects.HeaderKind) == envelope.KindOutcome {
			outcomes <- m
		}
	})
	in.Vouch(msg.Header)
	if msg.Data, err = envelope.EncodeRequest(envelope.ContentJSON, req); err != nil {
		d.t.Fatal(err)
	}
	if err := nc.PublishMsg(msg); err != nil {
		d.t.Fatal(err)
	}
	select {
	case m := <-outcomes:
		r, bad := envelope.DecodeResponse(m.Header.Get(subjects.HeaderContentType), m.Data)
		if bad != nil {
			d.t.Fatal(bad)
		}
		return r
	case <-time.After(time.Minute):
		d.t.Fatal("no outcome")
		return nil
	}
}
