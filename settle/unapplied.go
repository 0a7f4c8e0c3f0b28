package settle

import (
	"slices"

	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/envelope"
)

// wish is something that a request may ask for and that is not done, or not wholly.
type wish struct {
	name    string // as provenance.policy_applied has it; stable
	warning string
	made    func(*envelope.Request, call.Attempt) bool
}

// wishes returns all of them. What begins to work leaves the list.
func wishes() [6]wish {
	return [...]wish{
		{"timeout-cut", "the call had less time than it asked for: a tool gives no more than its limits.timeout_ms_max", cut},
		{"memory_mb_limit-ignored", "constraints.memory_mb_limit has no effect yet: the tool's own limit held",
			func(r *envelope.Request, _ call.Attempt) bool { return r.Constraints.MemoryMBLimit != 0 }},
		{"net_allowlist-ignored", "constraints.net_allowlist has no effect yet: the tool's network was not limited to it",
			func(r *envelope.Request, _ call.Attempt) bool { return r.Constraints.NetAllowlist != nil }},
		{"budget-ignored", "constraints.budget has no effect yet: nothing was counted against it",
			func(r *envelope.Request, _ call.Attempt) bool { return len(r.Constraints.Budget) > 0 }},
		{"cache_key-ignored", "constraints.cache_key has no effect yet: nothing was cached",
			func(r *envelope.Request, _ call.Attempt) bool { return r.Constraints.CacheKey != "" }},
		{"confidence-ignored", "context.confidence has no effect yet: no policy looked at it",
			func(r *envelope.Request, _ call.Attempt) bool { return r.Context.Confidence != nil }},
	}
}

// cut reports whether an attempt ends earlier than its caller wished, which the maximum of its tool does.
func cut(r *envelope.Request, a call.Attempt) bool {
	wished := a.At + call.UnixMS(r.Constraints.TimeoutMS)
	if due := call.UnixMS(r.Constraints.DeadlineUnixMS); due > 0 {
		wished = min(wished, due)
	}
	return a.Deadline < wished
}

// Unapplied returns the draft with a warning, and a name among the policies applied, for whatever the request of
// attempt a asks for in vain. It says so in the stored outcome, and thus to everybody who is told that.
func (d Draft) Unapplied(r *envelope.Request, a call.Attempt) Draft {
	for _, w := range wishes() {
		if w.made(r, a) {
			d.Warnings = append(slices.Clip(d.Warnings), w.warning)
			d.PolicyApplied = append(slices.Clip(d.PolicyApplied), w.name)
		}
	}
	return d
}
