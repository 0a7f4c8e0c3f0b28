package tool

import (
	"cmp"

	"github.com/seed-018f16cc/toolbus/internal/call"
)

// The canonical names of effects. A manifest may use these or the names of effect classes.
const (
	EffectPure               = call.EffectPure
	EffectIdempotentWrite    = call.EffectIdempotentWrite
	EffectNonIdempotentWrite = call.EffectNonIdempotentWrite
	EffectExternal           = call.EffectExternal
)

// CanonicalEffect returns the canonical name of the tool's effect, one of [EffectPure], [EffectIdempotentWrite],
// [EffectNonIdempotentWrite] and [EffectExternal]. A manifest that says side_effectful means NonIdempotentWrite. The
// last two are one effect class, with the same rules for retries. For an unknown word it returns the word.
func (m *Manifest) CanonicalEffect() string {
	switch word := cmp.Or(m.Effect, string(m.Class)); call.EffectClass(word) {
	case call.Pure:
		return EffectPure
	case call.Idempotent:
		return EffectIdempotentWrite
	case call.SideEffectful:
		return EffectNonIdempotentWrite
	default:
		return word
	}
}

// OriginLocal is the origin of a tool whose endpoint names no other.
const OriginLocal = "local"

// Origin returns the origin of the tool, as the first part of a namespaced id has it: mcp for a tool of an MCP server,
// else [OriginLocal]. An endpoint names another origin with the method Origin.
func (m *Manifest) Origin() string {
	if e, ok := m.Endpoint.(interface{ Origin() string }); ok {
		return e.Origin()
	}
	return OriginLocal
}
