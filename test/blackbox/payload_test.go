package blackbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Whoever shares the key of another actor's call gets its large output, whether it joins the call or asks later.
func TestLargeOutputOfAnother(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	d := deploy(t, map[string]spec{"echo": {class: call.Pure,
		run: func(_ context.Context, inv tool.Invocation, _ tool.Sink) (tool.Result, error) {
			<-release
			return tool.Result{Output: inv.Input}, nil
		}}})
	d.dispatcher()
	d.executor(6)
	big := input(map[string]string{"x": strings.Repeat("toolbus ", 200_000)})
	shared := clientlib.Call{Tool: "echo", Input: big, Key: "shared-0123456789ab", KeyScope: envelope.ScopeGlobal}
	told := make(chan *envelope.Response, 2)
	for _, actor := range []string{"agent://owner", "agent://joiner"} {
		c, accepted, asked := d.clientOf(actor), make(chan envelope.Accepted, 1), shared
		asked.OnAccepted = func(a envelope.Accepted) { accepted <- a }
		go func() {
			r, _ := c.Call(context.WithoutCancel(t.Context()), asked)
			told <- r
		}()
		if a := <-accepted; a.Joined != (actor == "agent://joiner") {
			t.Errorf("%s: %+v", actor, a)
		}
	}
	close(release)
	for _, r := range []*envelope.Response{<-told, <-told, mustCall(t, d.clientOf("agent://later"), shared)} {
		wantStatus(t, r, envelope.Success, "")
		if string(r.Output) != string(big) {
			t.Errorf("%d bytes of %d", len(r.Output), len(big))
		}
		ref := subjects.Key{Tool: "echo", ID: envelope.CallKeyID("default", &envelope.Request{ToolID: "echo", Fn: "run",
			Constraints: envelope.Constraints{IdempotencyKey: shared.Key, IdempotencyScope: shared.KeyScope}})}.Ref()
		for tenant, want := range map[string]envelope.Code{"default": "", "other": envelope.CodeNotFound} {
			q := envelope.PayloadRequest{Ref: ref, SHA256: r.Provenance.OutputRef.SHA256}
			if got := d.askAs(tenant, subjects.OpPayload, q); got != want {
				t.Errorf("tenant %s is told %q, want %q", tenant, got, want)
			}
		}
	}
}

// askAs asks the service as an actor of a tenant, and returns what it is refused with.
func (d *busDeployment) askAs(tenant, op string, q any) envelope.Code {
	d.t.Helper()
	in, err := rpc.NewInbox(d.srv.Connect(d.t), tenant, "agent://asker")
	if err != nil {
		d.t.Fatal(err)
	}
	defer func() { _ = in.Close() }() // gone with the connection otherwise
	var answer envelope.PayloadResponse
	refusal, err := in.Ask(d.t.Context(), op, q, &answer)
	if err != nil {
		d.t.Fatal(err)
	}
	if refusal == nil {
		return ""
	}
	return refusal.Code
}

// Nobody has a call run with an input that another actor has stored, nor learns that it is there.
func TestLargeInputOfAnother(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	d.dispatcher()
	d.executor(6)
	big := input(map[string]string{"x": strings.Repeat("toolbus ", 200_000)})
	wantStatus(t, mustCall(t, d.clientOf("agent://owner"), clientlib.Call{Tool: "echo", Input: big}), envelope.Success, "")
	sum := sha256.Sum256(big)
	ref := envelope.PayloadRef{SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(big))}
	_, body := written("another-0123456789ab", `"input":{"a":1}`, `"input":null`)
	subject := subjects.Call("default", "agent://local", "echo")
	nc, reply := d.srv.Connect(t), replyTo(subject)
	answers, err := nc.SubscribeSync(reply)
	if err != nil {
		t.Fatal(err)
	}
	err = nc.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: body,
		Header: nats.Header{subjects.HeaderInputRef: {ref.String()}}})
	if err != nil {
		t.Fatal(err)
	}
	msg, err := answers.NextMsg(10 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	r, bad := envelope.DecodeResponse(envelope.ContentJSON, msg.Data)
	if bad != nil {
		t.Fatal(bad)
	}
	wantStatus(t, r, envelope.RetryableError, envelope.CodeInputMissing)
	if n := runs.Load(); n != 1 {
		t.Errorf("%d runs", n)
	}
}

// An input that is lost before the tool has read it does not use up the key: the call runs as the next attempt, once
// its client has stored the input again.
func TestInputLostBeforeTheRun(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	d.dispatcher()
	stream, err := d.srv.JetStream(t).Stream(t.Context(), subjects.PayloadsStream)
	if err != nil {
		t.Fatal(err)
	}
	big := input(map[string]string{"x": strings.Repeat("toolbus ", 200_000)})
	asked := clientlib.Call{Tool: "echo", Input: big, Key: "lost-0123456789abcdef",
		Retry: &envelope.RetryPolicy{MaxAttempts: 1}}
	accepted, told := make(chan struct{}), make(chan *envelope.Response, 1)
	first := asked
	first.OnAccepted = func(envelope.Accepted) { close(accepted) }
	go func() {
		r, _ := d.clientOf("agent://owner").Call(context.WithoutCancel(t.Context()), first)
		told <- r
	}()
	<-accepted
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.executor(6)
	r := <-told
	wantStatus(t, r, envelope.RetryableError, envelope.CodeInputMissing)
	if r.Error.Details.Effect != envelope.EffectNone || !r.Provenance.Final || runs.Load() != 0 {
		t.Errorf("%d runs, %+v %+v", runs.Load(), r.Error.Details, r.Provenance)
	}
	r = mustCall(t, d.clientOf("agent://owner"), asked)
	wantStatus(t, r, envelope.Success, "")
	if r.Provenance.Attempt != 2 || runs.Load() != 1 {
		t.Errorf("attempt %d, %d runs", r.Provenance.Attempt, runs.Load())
	}
}

// An actor that fills the payload store keeps others from it for no longer than it takes to see that.
func TestFloodOfPayloads(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	d := deployOn(t, natstest.Start(t), map[string]spec{"echo": {class: call.Pure, run: echo(&runs)}})
	d.topology.PayloadBytes = 2 << 20
	d.dispatcher()
	d.executor(6)
	js := d.srv.JetStream(t)
	flood := subjects.Owner{Tenant: "default", Actor: "agent://flood"}.On("default")
	for i := 0; ; i++ {
		if _, err := js.Publish(t.Context(), flood.Payload("x", int64(i)), make([]byte, 3<<10)); err != nil {
			if i < 500 {
				t.Fatal(i, err)
			}
			break
		}
	}
	c := d.clientOf("agent://bystander")
	big := input(map[string]string{"x": strings.Repeat("toolbus ", 40_000)})
	eventually(t, "a bystander has room", func() bool {
		once := &envelope.RetryPolicy{MaxAttempts: 1}
		r := mustCall(t, c, clientlib.Call{Tool: "echo", Input: big, Retry: once})
		return r.Status == envelope.Success
	})
}
