package main

import (
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// The output of a cancel claims no more than the bus knows.
func TestTold(t *testing.T) {
	cancelled := func(effect envelope.Effect) *envelope.Response {
		e := envelope.NewError(envelope.CodeCancelled, "").WithEffect(effect)
		return envelope.Failure("id", e, envelope.Provenance{Final: true}, envelope.Metrics{})
	}
	for says, a := range map[string]envelope.CancelResponse{
		"cancelled before it started": {Phase: "queued",
			Response: cancelled(envelope.EffectNone)},
		"cancelled; no executor said that it was running it": {Phase: "queued",
			Response: cancelled(envelope.EffectUnknown)},
		"cancelled while it ran; its processes were killed": {Phase: "running",
			Response: cancelled(envelope.EffectUnknown)},
		"you no longer wait for it; the call goes on for its owner": {Phase: "detached"},
	} {
		if got := told(a); got != says {
			t.Errorf("it says %q, want %q", got, says)
		}
	}
}
