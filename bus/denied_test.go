package bus_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/natstest"
	"github.com/seed-018f16cc/toolbus/internal/stalls"
	"github.com/seed-018f16cc/toolbus/question"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// restricted is a server with an operator, who may do everything, and an agent, who may make calls and ask
// questions, and subscribe to what is given.
func restricted(t *testing.T, subscribe ...string) *natstest.Server {
	t.Helper()
	srv := natstest.Start(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "operator", Password: "secret"},
			{Username: "agent", Password: "secret", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{"tb.call.>", "tb.svc.>"}},
				Subscribe: &server.SubjectPermission{Allow: subscribe},
			}},
		}
	})
	operator := nats.UserInfo("operator", "secret")
	endpoints := []bus.Endpoint{describing("echo"), stocked("d1", nil)}
	ctx, log := context.WithoutCancel(t.Context()), slog.New(slog.DiscardHandler)
	svc, err := bus.Serve(ctx, srv.Connect(t, operator), log, "0.0.1", endpoints)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = svc.Stop() }) // the server may be gone
	return srv
}

// stocked answers as a dispatcher that has loaded tools.
func stocked(instance string, tools map[string]string) bus.Endpoint {
	handle := func(context.Context, question.Sender, []byte) (any, *envelope.Error) {
		return question.Inventory{Instance: instance, Tools: tools}, nil
	}
	return bus.Endpoint{Op: subjects.OpInventory, All: true, Handle: handle}
}

// Whoever may not receive answers is told so at once, and not at the deadline that the bus is silent.
func TestNoInbox(t *testing.T) {
	srv := restricted(t, "elsewhere.>")
	c, err := bus.NewClient(srv.Connect(t, nats.UserInfo("agent", "secret")), bus.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	watch := stalls.Begin()
	defer watch.End()
	began := time.Now()
	r, err := c.Call(t.Context(), bus.Call{Tool: "echo", Timeout: 20 * time.Second})
	if took := time.Since(began); took > 5*time.Second+watch.Late() {
		t.Errorf("it took %s", took)
	}
	if err != nil || r.Error == nil || r.Error.Code != envelope.CodeForbidden {
		t.Fatalf("%+v, %v", r, err)
	}
	if !strings.Contains(r.Error.Message, "receive answers") || !strings.Contains(r.Error.Cause, "Subscription to") ||
		!strings.Contains(r.Error.Fix, "subscribe") || r.Error.Details.Effect != envelope.EffectNone {
		t.Errorf("%+v (cause %q, fix %q), %v", r, r.Error.Cause, r.Error.Fix, err)
	}
}

// Doctor says what it may not look at, and whom to run it as; not that JetStream is off.
func TestDiagnoseRestricted(t *testing.T) {
	for name, test := range map[string]struct {
		subscribe string
		says      map[string]string // by check
	}{
		"agent": {"tb.ans.>", map[string]string{
			"jetstream": "may not ask", "dispatchers": "answering", "tools": "dispatchers: 1, each with the same 0 tools",
		}},
		"no inbox": {"elsewhere.>", map[string]string{"answers": "receive answers"}},
	} {
		t.Run(name, func(t *testing.T) {
			url := strings.Replace(restricted(t, test.subscribe).URL, "nats://", "nats://agent:secret@", 1)
			checks := map[string]bus.Check{}
			for _, c := range bus.Diagnose(t.Context(), url, bus.ClientOptions{}) {
				checks[c.Name] = c
				if strings.Contains(c.Says+c.Fix, "nabled") || strings.Contains(c.Says, "deadline") {
					t.Errorf("%+v", c)
				}
			}
			for check, says := range test.says {
				if !strings.Contains(checks[check].Says, says) {
					t.Errorf("%s: %+v, want %q", check, checks[check], says)
				}
				if c := checks[check]; c.Status == bus.CheckFailed && c.Fix == "" {
					t.Errorf("%+v has no fix", c)
				}
			}
		})
	}
}

// Dispatchers that have loaded different tools answer calls now one way and now the other; doctor names the tools.
func TestDiagnoseTools(t *testing.T) {
	f := setup(t)
	first := map[string]string{"echo": "1.0.0 (a)", "old": "1.0.0 (b)", "same": "1.0.0 (c)"}
	f.serve(describing("echo"), stocked("d1", first))
	tools := func() (c bus.Check) {
		for _, check := range bus.Diagnose(t.Context(), f.srv.URL, bus.ClientOptions{}) {
			if check.Name == "tools" {
				c = check
			}
		}
		return c
	}
	if c := tools(); c.Status != bus.CheckOK || !strings.Contains(c.Says, "dispatchers: 1, each with the same 3 tools") {
		t.Errorf("one dispatcher: %+v", c)
	}
	f.serve(describing("echo"), stocked("d2", map[string]string{"echo": "1.0.1 (d)", "same": "1.0.0 (c)"}))
	const differ = "2 dispatchers have loaded different tools: echo is 1.0.0 (a) at d1 and 1.0.1 (d) at d2; " +
		"old is 1.0.0 (b) at d1 and missing at d2"
	if c := tools(); c.Status != bus.CheckFailed || c.Says != differ || c.Fix == "" {
		t.Errorf("two: %+v", c)
	}
}
