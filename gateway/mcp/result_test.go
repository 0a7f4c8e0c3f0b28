package mcp

import (
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/mcpmeta"
)

// What is not how the call ends is said not to be, since it may still go on.
func TestNotFinal(t *testing.T) {
	e := envelope.NewError(envelope.CodeTimeout, "").WithEffect(envelope.EffectUnknown)
	for _, final := range []bool{true, false} {
		r := envelope.Failure("c", e, envelope.Provenance{Final: final}, envelope.Metrics{})
		said, there := metaOf(r, nil)[mcpmeta.Final]
		if there == final || there && said != false {
			t.Errorf("final is %t, and said is %v", final, said)
		}
		if words := inWords(r); strings.Contains(words, "may still go on") == final {
			t.Errorf("final is %t: %s", final, words)
		}
	}
}

// A refusal for the time being is nothing that goes on.
func TestTurnedAway(t *testing.T) {
	e := envelope.NewError(envelope.CodeQueue, "").WithEffect(envelope.EffectNone)
	words := inWords(envelope.Failure("c", e, envelope.Provenance{}, envelope.Metrics{}))
	if strings.Contains(words, "go on") || !strings.Contains(words, "try again after ") ||
		!strings.Contains(words, "same idempotency key") {
		t.Error(words)
	}
}
