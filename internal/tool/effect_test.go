package tool_test

import (
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// A tool is described with the canonical name of its effect, whichever word its manifest has.
func TestCanonicalEffect(t *testing.T) {
	for word, want := range map[string]string{
		"pure": tool.EffectPure, "Pure": tool.EffectPure, "idempotent": tool.EffectIdempotentWrite,
		"IdempotentWrite": tool.EffectIdempotentWrite, "side_effectful": tool.EffectNonIdempotentWrite,
		"NonIdempotentWrite": tool.EffectNonIdempotentWrite, "ExternalSideEffects": tool.EffectExternal,
	} {
		m := mustLoad(t, folder("web.fetch", strings.Replace(minimal, "determinism: pure", "determinism: "+word, 1), nil))
		list, _ := tool.NewSet(m).Describe(envelope.DescribeRequest{})
		if got := m.CanonicalEffect(); got != want || list[0].Effect != want || list[0].Determinism != string(m.Class) {
			t.Errorf("%s: %s, described as %+v", word, got, list)
		}
	}
	if got := (&tool.Manifest{Class: call.Idempotent}).CanonicalEffect(); got != tool.EffectIdempotentWrite {
		t.Errorf("a tool without the word of its author: %s", got)
	}
}
