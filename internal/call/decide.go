package call

import "github.com/seed-018f16cc/toolbus/envelope"

// Completion is why an attempt should end, before the log was asked.
type Completion struct {
	Cause  Cause
	By     Decider
	Nonce  string
	Now    UnixMS
	Claim  string          // nonce of the decider's own claim, if it has one
	Fence  uint64          // of the run that ended, if one did
	Error  envelope.Code   // with ToolEnded: "" means success
	Effect envelope.Effect // with ToolEnded: what the tool said of its effect
	Output string          // SHA-256 of the output, or of what the tool said instead with its error, hex; "" for neither
	// NotTaken, with TimedOut and Deserted: the decider is certain that no executor has started the attempt, and that
	// none will without a claim.
	NotTaken bool
	// Stored is when the server stored the request event; 0 where that is not known. Nobody starts what was stored
	// at its deadline or later.
	Stored UnixMS
}

// Cause is the reason of an Ending.
type Cause int

// Why an attempt ends.
const (
	ToolEnded  Cause = iota + 1 // the tool succeeded or failed
	Confirmed                   // the claimer is gone, and the tool's lookup found the committed result
	TimedOut                    // the deadline has passed
	Cancelled                   // the owner cancelled
	ClaimLost                   // the claimer is gone and the tool could not confirm its effect
	Poisoned                    // claimed too often without an outcome
	Unrunnable                  // it could not be started: nothing ran; Error says why
	PoolAbsent                  // nobody of its pool has lived for long: there is nobody to wait for
)

// DecideResult is the answer of Decide.
type DecideResult struct {
	// Do is true when Event is to be written. Otherwise the attempt has its outcome already
	// (adopt the one in the state), or it does not exist in this log any more (Gone), or it is not
	// deserted, because somebody may have taken it (Taken).
	Do    bool
	Gone  bool
	Taken bool
	Event Event
	// Code and Effect are what the decision says; "" is success.
	Code   envelope.Code
	Effect envelope.Effect
}

// Decide says how attempt n, admitted at sequence admitted, ends in the log s.
// It is the one function that all deciders ask. The effect is derived from the folded phase,
// never guessed: what was not claimed and needs a claim did not happen; what the decider runs
// itself is what the tool said; everything else is unknown.
func Decide(s State, n int, admitted uint64, end Completion) DecideResult {
	a, ok := s.Attempt(n)
	if !ok || a.Admitted != admitted {
		return DecideResult{Gone: true}
	}
	if !a.Open() {
		return DecideResult{}
	}
	if end.Cause == Confirmed && s.Lookup == LookupNo { // the tool that was admitted cannot confirm anything
		end.Cause, end.Output = ClaimLost, ""
	}
	untaken := notTaken(s, a, end)
	if end.Cause == PoolAbsent && !untaken && (a.Touched() || !s.HasNoEffect()) {
		return DecideResult{Taken: true}
	}
	code, effect := judge(s, a, end)
	d := Decision{
		Nonce: end.Nonce, Code: code, Effect: effect, By: end.By, At: end.Now, Fence: end.Fence,
		Status: envelope.Success, OutputHash: end.Output, NotTaken: untaken,
	}
	if code != "" {
		d.Status = code.Status()
	}
	if code != "" && end.Error == "" { // the output of a success does not stand
		d.OutputHash = ""
	}
	next := s.with(n, func(a *Attempt) { a.Decision = &d })
	return DecideResult{
		Do: true, Code: code, Effect: effect,
		Event: Event{Kind: Decided, Attempt: n, Nonce: end.Nonce, State: next},
	}
}

// notTaken reports whether no executor can have started attempt a: where a claim is needed the log proves it,
// otherwise end has to know.
func notTaken(s State, a Attempt, end Completion) bool {
	if a.Touched() || end.Cause != TimedOut && end.Cause != PoolAbsent {
		return false
	}
	return !s.MayRunAgain() || end.NotTaken || a.storedLate(end)
}

// storedLate reports whether the request event came into the log too late for anybody to start it: the server
// may have kept it waiting.
func (a Attempt) storedLate(end Completion) bool { return end.Stored != 0 && end.Stored >= a.Deadline }

func judge(s State, a Attempt, end Completion) (envelope.Code, envelope.Effect) {
	effect := phaseEffect(s, a, end)
	safe := (s.MayRunAgain() || effect == envelope.EffectNone) && !a.guessed(end)
	switch end.Cause {
	case Confirmed:
		return "", effect
	case PoolAbsent:
		return envelope.CodeUnavailable, effect
	case TimedOut:
		if notTaken(s, a, end) && !a.storedLate(end) { // the executors are to blame, and not the server
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
		return envelope.CodeToolUnknownState, effect // it ran what it had no right to run
	}
	return toolCode(s, a, end.Error, safe), effect
}

// guessed reports whether an event of an executor that cannot be decoded is all that says how attempt a ended.
func (a Attempt) guessed(end Completion) bool {
	return a.Undecoded && (end.Cause == TimedOut || end.Cause == Cancelled || end.Cause == Poisoned)
}

// phaseEffect derives the effect from where the log says the attempt is. The word of a tool
// counts for its own run only: "none" says nothing where another run may have been.
func phaseEffect(s State, a Attempt, end Completion) envelope.Effect {
	said := end.Cause == ToolEnded || end.Cause == Unrunnable
	switch {
	case a.guessed(end):
		return envelope.EffectUnknown
	case s.HasNoEffect(), notTaken(s, a, end):
		return envelope.EffectNone
	case end.Cause == Confirmed:
		return envelope.EffectApplied
	case said && s.MayRunAgain() && (!a.Touched() || end.Effect != envelope.EffectNone):
		return end.Effect // untouched, there was no other run
	case said && !s.MayRunAgain() && a.claimedBy(end.Claim):
		return end.Effect
	case !a.Touched() && !s.MayRunAgain() && end.Cause != ToolEnded:
		return envelope.EffectNone
	}
	return envelope.EffectUnknown
}

// toolCode keeps what the tool said where running again is allowed, and says that its state is
// unknown where it is not. A tool fault is retryable once.
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

// faultedBefore looks at the last attempt before n that somebody took.
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

// toolFault reports whether code is a fault of the tool's own, by whatever name the tool gives it;
// that there is no executor which could run it is none.
func toolFault(code envelope.Code) bool {
	return code.Class() == envelope.ClassTool && code != envelope.CodeUnavailable
}

func pick(safe bool, retryable, terminal envelope.Code) envelope.Code {
	if safe {
		return retryable
	}
	return terminal
}
