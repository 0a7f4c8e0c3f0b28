package policy

import (
	"strings"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// The kinds of prohibited flags.
type flagKind int

const (
	flagArgument flagKind = iota // a member of the arguments
	flagTag                      // tag:NAME, a tag of the tool
	flagEffect                   // effect:NAME, an effect of the tool
)

// splitFlag returns what a prohibited flag names.
func splitFlag(flag string) (kind flagKind, name string) {
	if name, ok := strings.CutPrefix(flag, "tag:"); ok {
		return flagTag, name
	}
	if name, ok := strings.CutPrefix(flag, "effect:"); ok {
		return flagEffect, name
	}
	return flagArgument, flag
}

// effectNames returns the names that an effect flag may have: the canonical names and those of effect classes.
func effectNames() []string {
	return []string{
		tool.EffectPure, tool.EffectIdempotentWrite, tool.EffectNonIdempotentWrite, tool.EffectExternal,
		string(call.Pure), string(call.Idempotent), string(call.SideEffectful),
	}
}
