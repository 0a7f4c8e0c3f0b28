package dispatcher_test

import (
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// The request of a side-effectful call says whether its tool declares a lookup; that of another call says nothing, nor
// does any while builds share the bus that do not know the rule.
func TestRequestSaysLookup(t *testing.T) {
	for _, c := range []struct {
		class  call.EffectClass
		lookup bool
		want   call.Lookup
	}{
		{call.SideEffectful, true, call.LookupYes},
		{call.SideEffectful, false, call.LookupNo},
		{call.Idempotent, true, ""},
		{call.Pure, false, ""},
	} {
		bubble(t, c.class, func(t *testing.T, w *world) {
			w.manifest.Capability.Lookup, w.manifest.AcceptRerun = c.lookup, true
			w.ask(1)
			pass(10 * time.Millisecond)
			if got := w.state().Lookup; got != c.want {
				t.Errorf("%+v: the request says %q", c, got)
			}
		})
	}
}

// TestRequestSaysExternal holds that the request of a call has the effect ExternalSideEffects of its manifest, because
// the audit record names it.
func TestRequestSaysExternal(t *testing.T) {
	for effect, want := range map[string]string{
		tool.EffectExternal: tool.EffectExternal, tool.EffectNonIdempotentWrite: tool.EffectNonIdempotentWrite,
		"side_effectful": tool.EffectNonIdempotentWrite,
	} {
		bubble(t, call.SideEffectful, func(t *testing.T, w *world) {
			w.manifest.Effect, w.manifest.AcceptRerun = effect, true
			w.ask(1)
			if got := w.state().CanonicalEffect(); got != want {
				t.Errorf("%s: the request says %s", effect, got)
			}
		})
	}
}
