package outcome

import (
	"slices"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// wish is an option of a request that Toolbus ignores, or applies only in part.
type wish struct {
	mark    byte   // in the log
	name    string // in provenance.policy_applied; never changes
	warning string
	made    func(r *envelope.Request, given, wished time.Time) bool
}

// wishes returns all of them. Remove an option that begins to work, and never use its mark again.
func wishes() [8]wish {
	return [...]wish{
		{'t', "timeout-cut",
			"the call had less time than it asked for: a tool gives no more than its limits.timeout_ms_max",
			func(_ *envelope.Request, given, wished time.Time) bool { return given.Before(wished) }},
		{'m', "memory_mb_limit-ignored",
			"constraints.memory_mb_limit has no effect yet: memory is not limited",
			func(r *envelope.Request, _, _ time.Time) bool { return r.Constraints.MemoryMBLimit != 0 }},
		{'n', "net_allowlist-ignored",
			"constraints.net_allowlist has no effect yet: the tool's network was not limited to it",
			func(r *envelope.Request, _, _ time.Time) bool { return r.Constraints.NetAllowlist != nil }},
		{'b', "budget-ignored", "constraints.budget has no effect yet: nothing was counted against it",
			func(r *envelope.Request, _, _ time.Time) bool { return len(r.Constraints.Budget) > 0 }},
		{'c', "cache_key-ignored", "constraints.cache_key has no effect yet: nothing was cached",
			func(r *envelope.Request, _, _ time.Time) bool { return r.Constraints.CacheKey != "" }},
		{'f', "confidence-ignored", "context.confidence has no effect yet: no policy looked at it",
			func(r *envelope.Request, _, _ time.Time) bool { return r.Context.Confidence != nil }},
		{'e', "evidence-ignored", "context.evidence has no effect yet: no policy looked at it",
			func(r *envelope.Request, _, _ time.Time) bool { return len(r.Context.Evidence) > 0 }},
		{'k', "clock-ignored", "context.clock has no effect yet: deadlines are times of the wall clock",
			func(r *envelope.Request, _, _ time.Time) bool { return r.Context.Clock != "" }},
	}
}

// IgnoredFields returns the marks of the options of r that are ignored, for Ignored of [call.Attempt]. given is the
// deadline of the attempt, and wished that of the request.
func IgnoredFields(r *envelope.Request, given, wished time.Time) string {
	var marks []byte
	for _, w := range wishes() {
		if w.made(r, given, wished) {
			marks = append(marks, w.mark)
		}
	}
	return string(marks)
}

// WithIgnoredWarnings returns the draft with a warning, and an entry in PolicyApplied, for each ignored option of the
// request of attempt a.
func (d Draft) WithIgnoredWarnings(a call.Attempt) Draft {
	if a.Ignored == "" {
		return d
	}
	for _, w := range wishes() {
		if strings.IndexByte(a.Ignored, w.mark) >= 0 {
			d.Warnings = append(slices.Clip(d.Warnings), w.warning)
			d.PolicyApplied = append(slices.Clip(d.PolicyApplied), w.name)
		}
	}
	return d
}
