package kv_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/kv"
)

// TestEventSize tells what an event takes, and holds it below what docs/compatibility.md says of it.
func TestEventSize(t *testing.T) {
	for _, c := range []struct {
		name             string
		class            call.EffectClass
		attempts, atMost int
	}{
		{"pure call, decided", call.Pure, 1, 480},
		{"side-effectful call, claimed and decided", call.SideEffectful, 1, 515},
		{"idempotent call, decided at its third attempt", call.Idempotent, 3, 1050},
	} {
		e := grown(c.class, c.attempts)
		raw := kv.EncodeEvent(e)
		if t.Logf("%s: %d bytes", c.name, len(raw)); len(raw) > c.atMost {
			t.Errorf("%s takes %d bytes, at most %d are told: %s", c.name, len(raw), c.atMost, raw)
		}
		if _, err := kv.ParseEvent(kv.EventSubject(e), raw); err != nil {
			t.Error(err)
		}
	}
}

// grown is the last event of a log with so many attempts, all but the last of which failed.
func grown(class call.EffectClass, attempts int) call.Event {
	e := typicalEvent(call.Decided)
	if e.State.Class = class; class == call.SideEffectful {
		e.State.Lookup = call.LookupNo
	}
	template := e.State.Attempts[0]
	e.State.Attempts = nil
	hash := strings.Repeat("2d7a270c", 8)
	for n := range attempts {
		a := template
		a.N, a.Admitted, a.At, a.Nonce = n+1, uint64(123456+n*3), template.At+call.UnixMS(n*1000),
			fmt.Sprintf("1448a8c3-f283.%d", 1000+n)
		a.Deadline = a.At + 30_000
		a.Owner.Parent = "00-5d415971e1b7430a8b5c87d7bb21d42b-00f067aa0ba902b7-01"
		a.Claim = nil
		d := call.Decision{Nonce: fmt.Sprintf("4f4c4d84-de50.%d", 2000+n), Status: envelope.RetryableError,
			Code: envelope.CodeUpstream, Effect: envelope.EffectNone,
			By: call.ByExecutor, At: a.At + 12, Fence: a.Admitted, Seq: a.Admitted + 2}
		if class == call.SideEffectful {
			a.Claim = &call.Claim{By: "default/4f4c4d84-de50", Nonce: fmt.Sprintf("4f4c4d84-de50.%d", 1500+n),
				Fence: a.Admitted + 1, Count: 1, At: a.At + 1}
			d.Fence++
		}
		if n == attempts-1 {
			d.Status, d.Code, d.OutputHash, d.Seq = envelope.Success, "", hash, 0
			e.Nonce = d.Nonce
		}
		a.Decision = &d
		e.State.Attempts = append(e.State.Attempts, a)
	}
	e.Attempt = attempts
	return e
}
