package call

import (
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// EffectClass is the effect class of a tool: what may be done with its calls after a crash.
type EffectClass string

// The effect classes. Pure and Idempotent calls may run again; SideEffectful ones never do once
// they were claimed.
const (
	Pure          EffectClass = "pure"
	Idempotent    EffectClass = "idempotent"
	SideEffectful EffectClass = "side_effectful"
)

// MayRunAgain reports whether a call of this class may run again after it was started. A class
// that this build does not know may not.
func (c EffectClass) MayRunAgain() bool { return c == Pure || c == Idempotent }

// UnixMS is a point in bus time, in milliseconds since 1970.
type UnixMS int64

// At returns t as UnixMS.
func At(t time.Time) UnixMS { return UnixMS(t.UnixMilli()) }

// Time returns m as a time.
func (m UnixMS) Time() time.Time { return time.UnixMilli(int64(m)) }

// Kind names an event of the log; it is a token of the event's key.
type Kind string

// The events. Outcome events carry a decision and end their attempt.
const (
	Requested Kind = "q"
	Joined    Kind = "j"
	Claimed   Kind = "c"
	Decided   Kind = "o"
)

// Limits of a log. An event carries the whole state in its header, which is why the state is
// bounded in bytes too; see size.go.
const (
	MaxJoined   = 1024 // callers joined to one attempt
	MaxAttempts = 5    // attempts of one key; those that nobody took do not count
	MaxClaims   = 5    // claims of one attempt without an outcome: then it is a poison call
)

// State is a log folded: the facts of the call and all its attempts, oldest first. The zero
// State is the empty log. Values are never changed in place; writers derive new ones.
type State struct {
	// Position is that of the log's last event, and its Seq so the expectation of the next write.
	Position `json:"-"`
	Pinned
	Attempts []Attempt `json:"attempts"`
}

// Pinned are fixed by the first attempt, so that a retry runs the same build.
type Pinned struct {
	Tenant      string      `json:"tenant"`
	Tool        string      `json:"tool"`
	ID          string      `json:"id"`
	Fn          string      `json:"fn"`
	Version     string      `json:"version"`
	Digest      string      `json:"digest,omitzero"`
	Class       EffectClass `json:"class"`
	Pool        string      `json:"pool"`
	Fingerprint string      `json:"fp"`
	ArgsHash    string      `json:"args"`
	KeepSeconds int64       `json:"keep"` // retention of outcomes
	DryRun      bool        `json:"dry,omitzero"`
	// Lookup says whether the tool declares a lookup, of a call that is not [Pinned.MayRunAgain]. It is empty of other
	// calls, and of those that a dispatcher admitted that knows the rule of [State.Allows] not or does without it.
	Lookup Lookup `json:"lookup,omitzero"`
	// Reserved, and empty as yet: the environment, and the digests of the tool's artifact and of the policy
	// that the call was admitted under.
	Env      string `json:"env,omitzero"`
	Artifact string `json:"artifact,omitzero"`
	Policy   string `json:"policy,omitzero"`
	More     string `json:"more,omitzero"` // members that a newer build added, as they are stored
}

// Lookup says whether another executor than the one that claimed an attempt can confirm its effect.
type Lookup string

// Whether a tool declares a lookup.
const (
	LookupYes Lookup = "yes"
	LookupNo  Lookup = "no"
)

// Bound reports whether the log of the call is bound to the rule of [State.Allows].
func (f Pinned) Bound() bool { return f.Lookup != "" }

// HasNoEffect reports whether a run of the call changes nothing: one of a pure tool, or a dry run of another
// that has them.
func (f Pinned) HasNoEffect() bool { return f.Class == Pure || f.DryRun }

// MayRunAgain reports whether the call may run again after it was started.
func (f Pinned) MayRunAgain() bool { return f.HasNoEffect() || f.Class.MayRunAgain() }

// Attempt is one run of the call, from its admission to its one outcome.
type Attempt struct {
	N        int               `json:"n"`
	Owner    Owner             `json:"owner"`
	Joined   []string          `json:"joined,omitzero"` // call ids
	Nonce    string            `json:"q"`               // of the request event's writer; see [Instance]
	Admitted uint64            `json:"seq,omitzero"`    // sequence of the request event
	At       UnixMS            `json:"at"`              // bus time of admission
	Deadline UnixMS            `json:"due"`             // bus time
	Priority envelope.Priority `json:"prio,omitzero"`
	Overflow bool              `json:"behind,omitzero"` // its actor had many open: others of the priority go ahead
	Ignored  string            `json:"vain,omitzero"`   // marks of what it asks for in vain, see outcome.IgnoredFields
	Strict   bool              `json:"strict,omitzero"` // nobody starts it before its request is on record
	// Undecoded says that an executor wrote a claim or a decision of the attempt that cannot be decoded, while the
	// attempt was open. Readers of the log set it, and writers carry it on. The executor may have run the attempt.
	Undecoded bool      `json:"undecoded,omitzero"`
	Claim     *Claim    `json:"claim,omitzero"`
	Decision  *Decision `json:"end,omitzero"`
	More      string    `json:"more,omitzero"` // as [Pinned.More]
}

// AttemptKey names an attempt: the id of its call, and its number.
type AttemptKey struct {
	ID string
	N  int
}

// ReplyAddress is where one caller waits, and in which content type it wants its answers.
type ReplyAddress struct {
	Reply       string
	ContentType string
}

// ReplyAddress returns where the owner waits.
func (o Owner) ReplyAddress() ReplyAddress { return ReplyAddress{o.Reply, o.ContentType} }

// Owner is the caller whose request opened the attempt. Reply is where it waits.
type Owner struct {
	CallID      string `json:"call"`
	Actor       string `json:"actor"`
	Reply       string `json:"reply,omitzero"`
	ContentType string `json:"ct,omitzero"`
	Trace       string `json:"trace,omitzero"`  // trace id of the request
	Parent      string `json:"parent,omitzero"` // W3C traceparent of the admitting span
	Run         string `json:"run,omitzero"`
	Role        string `json:"role,omitzero"`
	Lane        string `json:"lane,omitzero"`
	// Scopes are the scopes that the call needs, see [NoteScopes]. "" means that nobody knows them: the bus asks for no
	// tokens, or a build before 0.2 has admitted the attempt.
	Scopes string `json:"scopes,omitzero"`
}

// Claim says who runs the attempt. Fence is the sequence of the claim event.
type Claim struct {
	By    string `json:"by"` // executor instance
	Nonce string `json:"nonce"`
	Fence uint64 `json:"fence,omitzero"`
	Count int    `json:"count"` // claims of this attempt so far
	At    UnixMS `json:"at,omitzero"`
	More  string `json:"more,omitzero"` // as [Pinned.More]
}

// Decision is the outcome of an attempt, without its body.
type Decision struct {
	Seq        uint64          `json:"seq,omitzero"` // sequence of the outcome event
	Nonce      string          `json:"nonce"`
	Status     envelope.Status `json:"status"`
	Code       envelope.Code   `json:"code,omitzero"`
	Effect     envelope.Effect `json:"effect"`
	By         Decider         `json:"by"`
	At         UnixMS          `json:"at"`
	Fence      uint64          `json:"fence,omitzero"`
	OutputHash string          `json:"out,omitzero"`
	// NotTaken says that no executor had taken the attempt, or could have: it uses up nothing of the key.
	NotTaken bool   `json:"untaken,omitzero"`
	More     string `json:"more,omitzero"` // as [Pinned.More]
}

// Decider says which part decided.
type Decider string

// The parties that may decide.
const (
	ByExecutor  Decider = "executor"
	ByDeadline  Decider = "deadline"
	ByCanceller Decider = "canceller"
	// ByDispatcher is a dispatcher that has seen no executor of the pool live for too long.
	ByDispatcher Decider = "dispatcher"
)

// Event is one entry of the log: what happened, who wrote it, and the state after it. It is
// what the header of the stored message carries; bodies (request, response) travel beside it.
type Event struct {
	Kind    Kind   `json:"kind"`
	Attempt int    `json:"attempt"`
	Nonce   string `json:"nonce"`
	State   State  `json:"state"`
	// Until is the time at which the writer stops trying, if its context has not ended before. Zero means never. It is
	// not stored.
	Until time.Time `json:"-"`
}

// Fold returns the state of a log whose last event is e, stored at sequence seq.
func Fold(e Event, seq uint64) State {
	e.State = e.State.with(e.Attempt, func(a *Attempt) {
		if a.Claim != nil {
			a.Claim = new(*a.Claim)
		}
		if a.Decision != nil {
			a.Decision = new(*a.Decision)
		}
	})
	return e.Folded(seq)
}

// Folded is [Fold] for an event that is not used afterwards: it changes the attempts of e, and the state shares them.
// Sequences enter a state here alone.
func (e Event) Folded(seq uint64) State {
	s := e.State
	s.Seq = seq
	switch a := s.attempt(e.Attempt); {
	case a == nil:
	case e.Kind == Requested:
		a.Admitted = seq
	case e.Kind == Claimed && a.Claim != nil:
		a.Claim.Fence = seq
	case e.Kind == Decided && a.Decision != nil:
		a.Decision.Seq = seq
	}
	return s
}

// Ref is the public reference to the call, as callers are given it.
func (s State) Ref() string { return subjects.Key{Tool: s.Tool, ID: s.ID}.Ref() }

// NotStarted reports whether the log proves that no executor started a run of attempt n. It is false for a run that
// would change nothing: such a call may be decided while its work is handed out.
func (s State) NotStarted(n int) bool {
	a, ok := s.Attempt(n)
	return ok && !s.HasNoEffect() && a.Decision != nil && a.Decision.NotTaken
}

// Untouched reports whether the log proves that no executor started a run of any attempt. That holds for the empty log.
func (s State) Untouched() bool {
	return !slices.ContainsFunc(s.Attempts, func(a Attempt) bool { return !s.NotStarted(a.N) })
}

// Empty reports whether the log has no events.
func (s State) Empty() bool { return len(s.Attempts) == 0 }

// Last returns the newest attempt; the log must not be empty.
func (s State) Last() Attempt { return s.Attempts[len(s.Attempts)-1] }

// Attempt returns attempt n; ok is false when the log has none.
func (s State) Attempt(n int) (Attempt, bool) {
	if a := s.attempt(n); a != nil {
		return *a, true
	}
	return Attempt{}, false
}

// AttemptOf returns the attempt that callID owns or joined; ok is false when there is none.
func (s State) AttemptOf(callID string) (Attempt, bool) {
	for _, a := range s.Attempts {
		if a.Has(callID) {
			return a, true
		}
	}
	return Attempt{}, false
}

// Has reports whether callID owns or joined the attempt.
func (a Attempt) Has(callID string) bool {
	return a.Owner.CallID == callID || slices.Contains(a.Joined, callID)
}

// Open reports whether the attempt has no outcome yet.
func (a Attempt) Open() bool { return a.Decision == nil }

// Touched reports whether the log holds an event of an executor that may have run the attempt: a claim, or an event
// that cannot be decoded.
func (a Attempt) Touched() bool { return a.Claim != nil || a.Undecoded }

// Undecoded returns s with the mark of [Attempt] on attempt n, if that is open.
func (s State) Undecoded(n int) State {
	if a, ok := s.Attempt(n); !ok || !a.Open() {
		return s
	}
	return s.with(n, func(a *Attempt) { a.Undecoded = true })
}

// claimedBy reports whether the claim with this nonce holds the attempt.
func (a Attempt) claimedBy(nonce string) bool { return a.Claim != nil && a.Claim.Nonce == nonce }

// Queue returns the name of the queue that the attempt waits in, see [subjects.Queue].
func (a Attempt) Queue() string { return subjects.Queue(string(a.Priority), a.Overflow) }

// Due returns the attempt's deadline in bus time.
func (a Attempt) Due() time.Time { return a.Deadline.Time() }

// Final reports whether nothing more may be written: the last attempt ended in an outcome after
// which the call does not run again.
func (s State) Final() bool {
	if s.Empty() {
		return false
	}
	d := s.Last().Decision
	return d != nil && d.Status != envelope.RetryableError
}

// Wrote reports whether the event with this nonce is part of the log. A writer whose write had
// an uncertain answer asks it of the state it reads back.
func (s State) Wrote(e Event) bool {
	a, ok := s.Attempt(e.Attempt)
	if !ok {
		return false
	}
	switch e.Kind {
	case Requested:
		return a.Nonce == e.Nonce
	case Claimed:
		return a.claimedBy(e.Nonce)
	case Decided:
		return a.Decision != nil && a.Decision.Nonce == e.Nonce
	case Joined:
		return a.hasAll(e.State)
	}
	return false
}

func (a Attempt) hasAll(after State) bool {
	want, _ := after.Attempt(a.N)
	return !slices.ContainsFunc(want.Joined, func(id string) bool { return !a.Has(id) })
}

func (s *State) attempt(n int) *Attempt {
	for i := range s.Attempts {
		if s.Attempts[i].N == n {
			return &s.Attempts[i]
		}
	}
	return nil
}

// with returns a copy of s in which attempt n, if there is one, is changed by f.
func (s State) with(n int, f func(*Attempt)) State {
	s.Attempts = append([]Attempt(nil), s.Attempts...)
	if a := s.attempt(n); a != nil {
		f(a)
	}
	return s
}
