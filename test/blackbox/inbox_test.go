package blackbox

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// own is what one actor, and one executor, may do, each with an inbox and payloads of its own.
func own(o *server.Options) {
	of, name := "default.agent_3a_2f_2fa", "run-1"
	only := func(subjects ...string) *server.SubjectPermission { return &server.SubjectPermission{Allow: subjects} }
	o.Users = []*server.User{
		{Username: "all", Password: "secret"},
		{Username: "agent", Password: "secret", Permissions: &server.Permissions{
			Publish:   only("tb.call."+of+".*", "tb.svc.*."+of, "tb.payload."+of+".*.*.*"),
			Subscribe: only("_INBOX."+of+".>", "tb.ans."+of+".>", "tb.chunk."+of+".>"),
		}},
		{Username: "executor", Password: "secret", Permissions: &server.Permissions{
			Publish: only(
				"tb.>",
				"$KV.>",
				"$JS.>",
			),
			Subscribe: only("_INBOX."+name+".>", "tb.exe.ans.default."+name+".*", "tb.ctl.kill.*", "tb.ctl.seek.*"),
		}},
	}
}

// Callers and executors hear what the server answers under names of their own, and of payloads they use nothing that a
// subject does not scope: with no more permissions than that, large inputs, outputs and chunks work, and those of
// others cannot be reached.
func TestOwnInboxesAndPayloads(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t, own)
	url := srv.URL
	d := deployOn(t, srv, map[string]spec{"echo": {class: call.Pure, streaming: true,
		run: func(ctx context.Context, inv tool.Invocation, s tool.Sink) (tool.Result, error) {
			return tool.Result{Output: inv.Input}, s.Emit(ctx, envelope.ChunkData, []byte("1"))
		}}})
	srv.URL = as("all:secret", url)
	d.dispatcher()
	srv.URL, d.instance = as("executor:secret", url), "run-1"
	g := &guarded{busDeployment: d}
	g.watch(d.executor(6).conn.NC)
	conn, err := link.Establish(t.Context(), link.Options{URL: as("agent:secret", url), Actor: "agent://a"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	g.watch(conn.NC)
	c, err := conn.Client(clientlib.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // the connection ends next
	big := input(map[string]string{"x": strings.Repeat("toolbus ", 200_000)})
	r := mustCall(t, c, clientlib.Call{Tool: "echo", Input: big, OnChunk: func(envelope.Chunk) error { return nil }})
	wantStatus(t, r, envelope.Success, "")
	if string(r.Output) != string(big) {
		t.Errorf("%d bytes of %d", len(r.Output), len(big))
	}
	if n := len(g.seen()); n > 0 {
		t.Fatalf("the server refused: %v", g.seen())
	}
	others(t, g, conn, *r.Provenance.OutputRef)
}

// others has an actor reach for what is not its own, which the server refuses.
func others(t *testing.T, g *guarded, conn *link.Link, ref envelope.PayloadRef) {
	t.Helper()
	before, payloads := len(g.seen()), link.OpenPayloads(conn.JS)
	once := func() context.Context { // time for one try
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	b := subjects.Owner{Tenant: "default", Actor: "agent://b"}.On("default")
	if _, err := payloads.Get(once(), b, ref); err == nil || errors.Is(err, streaming.ErrMissing) {
		t.Errorf("it read: %v", err)
	}
	if _, err := payloads.Put(once(), b, []byte("{}")); err == nil {
		t.Error("it wrote")
	}
	for _, subject := range []string{"$JS.API.DIRECT.GET.PAYLOADS", "$JS.API.STREAM.MSG.GET.PAYLOADS",
		"tb.payload." + ref.SHA256 + ".0"} {
		if err := conn.NC.PublishRequest(subject, conn.NC.NewInbox(), []byte(`{"seq":1}`)); err != nil {
			t.Error(err)
		}
	}
	if _, err := conn.NC.Subscribe("_INBOX.default.agent_3a_2f_2fb.>", func(*nats.Msg) {}); err != nil {
		t.Error(err)
	}
	eventually(t, "all of it is refused", func() bool { return len(g.seen())-before >= 6 })
}
