package call

import "github.com/seed-018f16cc/toolbus/envelope"

// Completion is the reason to end an attempt, with the facts that the decider knows.
type Completion struct {
	Cause  Cause
	By     Decider
	Nonce  string
	Now    UnixMS
	Claim  string          // nonce of the decider's own claim, if it has one
	Fence  uint64          // fencing token of the run that ended, if one did
	Error  envelope.Code   // with ToolEnded: "" means success
	Effect envelope.Effect // with ToolEnded: the effect that the tool reported
	Output string          // SHA-256 of the output, or of the result of a failed tool, in hex; "" without one
	// NotTaken, with TimedOut, PoolAbsent and BuildAbsent: it is certain that no executor has started the attempt, and
	// that none will start it without a claim.
	NotTaken bool
	// Stored is the time at which the server stored the request event; 0 if unknown. No executor starts an attempt that
	// was stored at its deadline or later.
	Stored UnixMS
	Owner  string          // owner of the tool, for Decision.Owner
	Writes []ReportedWrite // what the run wrote
	Server string          // for Decision.Server; of [PlainVersion]
	Answer LookupAnswer    // with ClaimLost
}

// Cause is the reason of a [Completion].
type Cause int

// Values of [Cause].
const (
	ToolEnded   Cause = iota + 1 // the tool succeeded or failed
	Confirmed                    // the claimer is gone, and the tool's lookup found the committed result
	TimedOut                     // the deadline has passed
	Cancelled                    // the owner cancelled
	ClaimLost                    // the claimer is gone and the tool could not confirm its effect
	Poisoned                     // the claims of the attempt count as MaxDeaths deaths
	Unrunnable                   // the tool could not be started, for the reason Error
	PoolAbsent                   // the pool has had no live executor for too long
	BuildAbsent                  // no live executor of the pool has the admitted build of the tool
)

// DecideResult is the result of [Decide].
type DecideResult struct {
	// Do is true if Event must be written. Otherwise the attempt is no longer in the log (Gone), or an executor may
	// have started it, so that PoolAbsent may not end it (Taken), or it is decided already: then use the decision in
	// the state.
	Do    bool
	Gone  bool
	Taken bool
	Event Event
	// Code and Effect are those of the decision. An empty Code means success.
	Code   envelope.Code
	Effect envelope.Effect
}

// Decide returns the decision of attempt n, whose request event has the sequence admitted, in the log s. All processes
// decide with this function. It derives the effect from the state: if the attempt needs a claim and has none, the
// effect is none; if the decider itself ran the attempt, it is the effect that the tool reported; otherwise it is
// unknown.
func Decide(s State, n int, admitted uint64, end Completion) DecideResult {
	a, ok := s.Attempt(n)
	if !ok || a.Admitted != admitted {
		return DecideResult{Gone: true}
	}
	if !a.Open() {
		return DecideResult{}
	}
	if end.Cause == Confirmed && s.Lookup == LookupNo { // the admitted tool has no lookup
		end.Cause, end.Output, end.Answer = ClaimLost, "", LookupUndeclared
	}
	untaken := notTaken(s, a, end)
	if end.Cause == PoolAbsent && !untaken && (a.Touched() || !s.HasNoEffect()) {
		return DecideResult{Taken: true}
	}
	code, effect := judge(s, a, end)
	d := Decision{
		Nonce: end.Nonce, Code: code, Effect: effect, By: end.By, At: end.Now, Fence: end.Fence,
		Status: envelope.Success, OutputHash: end.Output, NotTaken: untaken, BuildAbsent: end.Cause == BuildAbsent,
		Answer: end.Answer,
	}
	if code != "" {
		d.Status = code.Status()
	}
	if code != "" && end.Error == "" { // the completion was a success, but the decision is not
		d.OutputHash = ""
	}
	if toolFault(code) && faultedBefore(s, n) {
		d.Owner = end.Owner
	}
	switch {
	case effect == envelope.EffectNone:
	case a.Writes || s.size()+maxWrites <= maxOpenBytes:
		d.Writes, d.WritesLeft = NoteWrites(end.Writes)
	default: // the tool should have written nothing, and the state has no room for what it wrote
		d.WritesLeft = len(end.Writes)
	}
	if end.Server != "" && s.size()+maxWrites <= maxOpenBytes {
		d.Server = end.Server
	}
	next := s.with(n, func(a *Attempt) { a.Decision = &d })
	return DecideResult{
		Do: true, Code: code, Effect: effect,
		Event: Event{Kind: Decided, Attempt: n, Nonce: end.Nonce, State: next},
	}
}

// notTaken reports whether it is certain that no executor started attempt a. If a claim is needed, the log proves
// that; otherwise end must state it.
func notTaken(s State, a Attempt, end Completion) bool {
	if a.Touched() || end.Cause != TimedOut && end.Cause != PoolAbsent && end.Cause != BuildAbsent {
		return false
	}
	return !s.MayRunAgain() || end.NotTaken || a.storedLate(end)
}

// storedLate reports whether the server stored the request event so late that no executor starts the attempt.
func (a Attempt) storedLate(end Completion) bool { return end.Stored != 0 && end.Stored >= a.Deadline }

func judge(s State, a Attempt, end Completion) (envelope.Code, envelope.Effect) {
	effect := phaseEffect(s, a, end)
	safe := (s.MayRunAgain() || effect == envelope.EffectNone) && !a.guessed(end)
	switch end.Cause {
	case Confirmed:
		return "", effect
	case PoolAbsent:
		return envelope.CodeUnavailable, effect
	case BuildAbsent:
		return pick(safe, envelope.CodeUnavailable, envelope.CodeToolUnknownState), effect
	case TimedOut:
		if notTaken(s, a, end) && !a.storedLate(end) { // a lack of executors is the reason, not a slow server
			return envelope.CodeUnavailable, effect
		}
		return pick(safe, envelope.CodeTimeout, envelope.CodeTimeoutUnknown), effect
	case Cancelled:
		return pick(safe, envelope.CodeCancelled, envelope.CodeCancelledUnknown), effect
	case ClaimLost:
		return envelope.CodeToolUnknownState, effect
	case Poisoned:
		return envelope.CodeLost, effect
	}
	if end.Cause == ToolEnded && !s.MayRunAgain() && !a.claimedBy(end.Claim) {
		return envelope.CodeToolUnknownState, effect // it ran without its claim
	}
	return toolCode(s, a, end.Error, safe), effect
}

// guessed reports whether an undecodable event of an executor is the only evidence of how attempt a ended.
func (a Attempt) guessed(end Completion) bool {
	switch end.Cause {
	case TimedOut, Cancelled, Poisoned, BuildAbsent:
		return a.Undecoded
	}
	return false
}

// phaseEffect derives the effect from the state of the attempt. The effect that a tool reports is only that of its own
// run: if another run is possible, "none" is not used.
func phaseEffect(s State, a Attempt, end Completion) envelope.Effect {
	said := end.Cause == ToolEnded || end.Cause == Unrunnable
	switch {
	case a.guessed(end):
		return envelope.EffectUnknown
	case s.Class == Pure && !s.DryRun && end.Cause == ToolEnded && len(end.Writes) > 0: // it should have no effect
		return envelope.EffectApplied
	case s.HasNoEffect(), notTaken(s, a, end):
		return envelope.EffectNone
	case end.Cause == Confirmed:
		return envelope.EffectApplied
	case said && s.MayRunAgain() && (!a.Touched() || end.Effect != envelope.EffectNone):
		return end.Effect // if untouched, there was no other run
	case said && !s.MayRunAgain() && a.claimedBy(end.Claim):
		return end.Effect
	case !a.Touched() && !s.MayRunAgain() && end.Cause != ToolEnded:
		return envelope.EffectNone
	}
	return envelope.EffectUnknown
}

// toolCode returns the code of a tool's error. A retryable code becomes S-TOOL-UNKNOWN if the call must not run again,
// and S-TOOL-002 for a tool fault after an attempt with a tool fault.
func toolCode(s State, a Attempt, code envelope.Code, safe bool) envelope.Code {
	switch {
	case code == "" || !code.Retryable():
		return code
	case !safe:
		return envelope.CodeToolUnknownState
	case toolFault(code) && faultedBefore(s, a.N):
		return envelope.CodeToolFaultAgain
	}
	return code
}

// faultedBefore reports whether the last attempt before n that an executor may have started ended with a tool fault.
func faultedBefore(s State, n int) bool {
	for n--; ; n-- {
		before, ok := s.Attempt(n)
		if !ok || before.Decision == nil {
			return false
		}
		if !before.Decision.NotTaken {
			return toolFault(before.Decision.Code)
		}
	}
}

// toolFault reports whether code has class S-TOOL, except that no executor could run the tool.
func toolFault(code envelope.Code) bool {
	return code.Class() == envelope.ClassTool && code != envelope.CodeUnavailable
}

func pick(safe bool, retryable, terminal envelope.Code) envelope.Code {
	if safe {
		return retryable
	}
	return terminal
}
