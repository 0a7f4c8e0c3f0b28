package client_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/timer/timertest"
)

// Whoever may not receive answers is told so at once, and not at the deadline that the bus is silent.
func TestNoInbox(t *testing.T) {
	srv := bustest.Restricted(t, "elsewhere.>")
	c, err := client.New(srv.Connect(t, nats.UserInfo("agent", "secret")), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	watch := timertest.StartStallMeter()
	defer watch.End()
	began := time.Now()
	r, err := c.Call(t.Context(), client.Call{Tool: "echo", Timeout: 20 * time.Second})
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
