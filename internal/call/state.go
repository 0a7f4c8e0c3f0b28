package call

import (
	"slices"
	"strconv"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// EffectClass is the effect class of a tool. It decides whether its calls may run again after a crash.
type EffectClass string

// Values of [EffectClass]. Pure and Idempotent calls may run again. SideEffectful calls never do after they were
// claimed.
const (
	Pure          EffectClass = "pure"
	Idempotent    EffectClass = "idempotent"
	SideEffectful EffectClass = "side_effectful"
)

// The canonical names of effects. The last two are one effect class.
const (
	EffectPure               = "Pure"
	EffectIdempotentWrite    = "IdempotentWrite"
	EffectNonIdempotentWrite = "NonIdempotentWrite"
	EffectExternal           = "ExternalSideEffects"
)

// MayRunAgain reports whether a call of this class may run again after it was started. It returns false for an unknown
// class.
func (c EffectClass) MayRunAgain() bool { return c == Pure || c == Idempotent }

// UnixMS is a time in milliseconds since 1970, in bus time.
type UnixMS int64

// At returns t as UnixMS.
func At(t time.Time) UnixMS { return UnixMS(t.UnixMilli()) }

// Time returns m as a time.
func (m UnixMS) Time() time.Time { return time.UnixMilli(int64(m)) }

// Kind is the kind of an event of the log, as it stands in the subject.
type Kind string

// Values of [Kind]. A Decided event ends its attempt.
const (
	Requested Kind = "q"
	Joined    Kind = "j"
	Claimed   Kind = "c"
	Decided   Kind = "o"
)

// Limits of a log. The size of the state in bytes is limited, too; see size.go.
const (
	MaxJoined   = 1024 // joined callers of one attempt
	MaxAttempts = 5    // attempts of one key; those that no executor started do not count
	MaxDeaths   = 4    // runs of one attempt that end without an outcome, after which it is a poison call; see [Claim]
)

// State is the state of a log: the facts of the call and all its attempts, oldest first. The zero State is that of an
// empty log. A State is never changed in place: functions return new ones.
type State struct {
	// Position is that of the last event of the log. Its Seq is the expected sequence of the next write.
	Position `json:"-"`
	Pinned
	Attempts []Attempt `json:"attempts"`
}

// Pinned holds the facts of a call that the first attempt fixes, so that a retry runs the same build of the tool.
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
	// Lookup states whether the tool declares a lookup. It is empty if [Pinned.MayRunAgain], and if the dispatcher that
	// admitted the call does not apply the rule of [State.Allows].
	Lookup Lookup `json:"lookup,omitzero"`
	// External means that the manifest names the effect [EffectExternal]. Builds up to 8119cace never write it, and keep
	// it in More.
	External bool `json:"external,omitzero"`
	// Env, Artifact and Policy are reserved, and always empty: the environment, and the digest of the tool's artifact.
	// The digests of the policy are in [Owner], because each attempt is decided by the policy of its time.
	Env      string `json:"env,omitzero"`
	Artifact string `json:"artifact,omitzero"`
	Policy   string `json:"policy,omitzero"`
	More     string `json:"more,omitzero"` // unknown members, as they are stored
}

// Lookup states whether an executor other than the claimer can confirm the effect of an attempt.
type Lookup string

// Values of [Lookup].
const (
	LookupYes Lookup = "yes"
	LookupNo  Lookup = "no"
)

// LookupAnswer is the reason why the lookup of a tool did not confirm the effect of an attempt.
type LookupAnswer string

// Values of [LookupAnswer].
const (
	LookupAbsent     LookupAnswer = "absent"     // it found no committed effect
	LookupFailed     LookupAnswer = "failed"     // it gave no answer
	LookupUndeclared LookupAnswer = "undeclared" // the tool has none
	LookupLocked     LookupAnswer = "locked"     // a safety lock was in force, so it was not asked
)

// Bound reports whether readers apply the full rule of [State.Allows] to the log of the call.
func (f Pinned) Bound() bool { return f.Lookup != "" }

// Targets returns the targets to which the tool of attempt a may write, by the write targets of its request event.
func (a Attempt) Targets(stored []string) WriteTargets {
	switch {
	case !a.Writes:
		return nil
	case len(stored) == 0:
		return WriteTargets{AnyTarget}
	}
	return stored
}

// HasNoEffect reports whether a run of the call changes nothing: the tool is pure, or the call is a dry run.
func (f Pinned) HasNoEffect() bool { return f.Class == Pure || f.DryRun }

// CanonicalEffect returns the canonical name of the effect of the tool: [EffectPure], [EffectIdempotentWrite],
// [EffectNonIdempotentWrite] or [EffectExternal]. For an unknown class it returns the class.
func (f Pinned) CanonicalEffect() string {
	switch {
	case f.External:
		return EffectExternal
	case f.Class == Pure:
		return EffectPure
	case f.Class == Idempotent:
		return EffectIdempotentWrite
	case f.Class == SideEffectful:
		return EffectNonIdempotentWrite
	}
	return string(f.Class)
}

// MayRunAgain reports whether the call may run again after it was started.
func (f Pinned) MayRunAgain() bool { return f.HasNoEffect() || f.Class.MayRunAgain() }

// Attempt is one attempt of the call, from its admission to its outcome. It may include several runs.
type Attempt struct {
	N        int               `json:"n"`
	Owner    Owner             `json:"owner"`
	Joined   []string          `json:"joined,omitzero"` // call ids
	Nonce    string            `json:"q"`               // of the request event's writer; see [Instance]
	Admitted uint64            `json:"seq,omitzero"`    // sequence of the request event
	At       UnixMS            `json:"at"`              // bus time of admission
	Deadline UnixMS            `json:"due"`             // bus time
	Priority envelope.Priority `json:"prio,omitzero"`
	Step     int               `json:"step,omitzero"`   // of its queue, see subjects.Queue
	Ignored  string            `json:"vain,omitzero"`   // ignored options, see outcome.IgnoredFields
	Strict   bool              `json:"strict,omitzero"` // executors wait until the audit record holds its request
	// Writes means that the tool has write targets; otherwise it may not write. Builds up to 8119cace keep it in More.
	Writes bool `json:"writes,omitzero"`
	// Undecoded means that an executor wrote a claim or a decision that cannot be decoded while the attempt was open.
	// The executor may have run the attempt. Readers of the log set it, and writers keep it.
	Undecoded bool      `json:"undecoded,omitzero"`
	Claim     *Claim    `json:"claim,omitzero"`
	Decision  *Decision `json:"end,omitzero"`
	More      string    `json:"more,omitzero"` // as [Pinned.More]
}

// AttemptKey identifies an attempt by the id of its call and its number.
type AttemptKey struct {
	ID string
	N  int
}

// ReplyAddress holds the reply subject of a caller, and the content type of its answers.
type ReplyAddress struct {
	Reply       string
	ContentType string
}

// ReplyAddress returns the address of the answers to the owner.
func (o Owner) ReplyAddress() ReplyAddress { return ReplyAddress{o.Reply, o.ContentType} }

// Owner is the caller whose request opened the attempt. Reply is its reply subject.
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
	// Scopes holds the scopes that the call needs, see [NoteScopes]. "" means that the bus has no tokens.
	Scopes string `json:"scopes,omitzero"`
	// Policy names the policy set that allowed the call. Builds up to 8119cace keep it in More of the attempt.
	Policy PolicyNote `json:"policy,omitzero"`
	// Scope has the scope keys that the lane and the tool require. Builds up to 8574dee6 keep it in More of the attempt.
	Scope ScopeNote `json:"scope,omitzero"`
}

// Claim names the executor that runs the attempt. Fence is the sequence of the claim event.
//
// A claimed run without an outcome has mostly died with its executor, as have all calls that ran beside it. So it
// counts as half a death, or as a whole one if it ran alone.
type Claim struct {
	By    string `json:"by"` // executor instance
	Nonce string `json:"nonce"`
	Fence uint64 `json:"fence,omitzero"`
	Count int    `json:"count"` // number of claims of this attempt, including this one
	// Alone is the number of these claims with which the attempt ran alone in its executor. Builds up to f80ebde8 keep
	// it in More, and drop it with their own claim.
	Alone int    `json:"alone,omitzero"`
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
	// NotTaken means that no executor can have started the attempt. Such an attempt does not count towards MaxAttempts.
	NotTaken bool `json:"untaken,omitzero"`
	// BuildAbsent means that no live executor of the pool had the admitted build of the tool. Older builds keep it in
	// More.
	BuildAbsent bool `json:"no_build,omitzero"`
	// Owner is the owner of the tool. It is set if the attempt, and the last attempt before it that an executor may have
	// started, ended with a tool fault. It is in the details of the error and in the audit record. Builds up to 8119cace
	// keep it in More.
	Owner string `json:"owner,omitzero"`
	// Writes is a JSON list of what the run wrote, see [NoteWrites], and WritesLeft the number of writes that it leaves
	// out. The executor that ran the attempt sets both. Builds up to 8119cace keep them in More.
	Writes     string `json:"writes,omitzero"`
	WritesLeft int    `json:"writes_left,omitzero"`
	// Server is the version of the MCP server that ran the call, see [PlainVersion], or "". Builds up to 8ef34726 keep it
	// in More.
	Server string `json:"server,omitzero"`
	// Answer is set if the executor that ran the attempt is gone, and the effect was not confirmed. Builds up to bcf49771
	// keep it in More.
	Answer LookupAnswer `json:"lookup,omitzero"`
	More   string       `json:"more,omitzero"` // as [Pinned.More]
}

// Decider is the role of the process that decided.
type Decider string

// Values of [Decider].
const (
	ByExecutor  Decider = "executor"
	ByDeadline  Decider = "deadline"
	ByCanceller Decider = "canceller"
	// ByDispatcher is a dispatcher that ended the attempt because its pool had no live executor, or none with its build.
	ByDispatcher Decider = "dispatcher"
)

// Event is one event of the log: its kind, the nonce of its writer, and the state after it. It is stored in a header;
// the request or response is the body of the message.
type Event struct {
	Kind    Kind   `json:"kind"`
	Attempt int    `json:"attempt"`
	Nonce   string `json:"nonce"`
	State   State  `json:"state"`
	// Until is the local time at which the writer stops trying. The zero time means no limit besides the context. It is
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

// Folded is [Fold] for an event that is not used afterwards: it changes the attempts of e, which the state shares.
// Only this function sets the sequences of a state.
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

// Ref returns the public reference to the call.
func (s State) Ref() string { return subjects.Key{Tool: s.Tool, ID: s.ID}.Ref() }

// NotStarted reports whether the log proves that no executor started a run of attempt n. It is false if
// [Pinned.HasNoEffect], because such an attempt may be decided at the moment of its delivery.
func (s State) NotStarted(n int) bool {
	a, ok := s.Attempt(n)
	return ok && !s.HasNoEffect() && a.Decision != nil && a.Decision.NotTaken
}

// Untouched reports whether the log proves that no executor started a run of any attempt. That holds for the empty
// log.
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

// AttemptOf returns the attempt that the request with callID opened or joined. ok is false if no attempt has that
// request.
func (s State) AttemptOf(callID string) (Attempt, bool) {
	for _, a := range s.Attempts {
		if a.Has(callID) {
			return a, true
		}
	}
	return Attempt{}, false
}

// OwnedBy reports whether the actor, of the tenant of the log, opened an attempt.
func (s State) OwnedBy(actor string) bool {
	return slices.ContainsFunc(s.Attempts, func(a Attempt) bool { return a.Owner.Actor == actor })
}

// Has reports whether the request with callID opened or joined the attempt.
func (a Attempt) Has(callID string) bool {
	return a.Owner.CallID == callID || slices.Contains(a.Joined, callID)
}

// Open reports whether the attempt has no outcome yet.
func (a Attempt) Open() bool { return a.Decision == nil }

// Touched reports whether the log holds an event of an executor that may have run the attempt: a claim, or an event
// that cannot be decoded.
func (a Attempt) Touched() bool { return a.Claim != nil || a.Undecoded }

// Undecoded returns s with Undecoded set in attempt n, if that is open.
func (s State) Undecoded(n int) State {
	if a, ok := s.Attempt(n); !ok || !a.Open() {
		return s
	}
	return s.with(n, func(a *Attempt) { a.Undecoded = true })
}

// Poison reports whether the claims of the attempt count as MaxDeaths deaths.
func (a Attempt) Poison() bool { return a.Claim != nil && a.Claim.Count+a.Claim.Alone >= 2*MaxDeaths }

// Suspect reports whether attempt n may have ended two executors, so that its next run should be alone in one: it was
// claimed, which a first delivery does not need, and it may run again.
func (s State) Suspect(n int) bool {
	a, ok := s.Attempt(n)
	return ok && a.Open() && a.Claim != nil && s.MayRunAgain()
}

// claimedBy reports whether the attempt is claimed with this nonce.
func (a Attempt) claimedBy(nonce string) bool { return a.Claim != nil && a.Claim.Nonce == nonce }

// Queue returns the name of the queue that the attempt waits in, see [subjects.Queue].
func (a Attempt) Queue() string { return subjects.Queue(string(a.Priority), a.Step) }

// Due returns the attempt's deadline in bus time.
func (a Attempt) Due() time.Time { return a.Deadline.Time() }

// Final reports whether the last attempt ended with an outcome after which the call does not run again. Nothing more
// is written to such a log.
func (s State) Final() bool {
	if s.Empty() {
		return false
	}
	d := s.Last().Decision
	return d != nil && d.Status != envelope.RetryableError
}

// Wrote reports whether the event e is in the log. A writer without an acknowledgement calls it with the state that it
// reads.
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

// with returns a copy of s in which f has changed attempt n, if it exists.
func (s State) with(n int, f func(*Attempt)) State {
	s.Attempts = append([]Attempt(nil), s.Attempts...)
	if a := s.attempt(n); a != nil {
		f(a)
	}
	return s
}

// Position is the place of an event in the call log: its partition, and its sequence in the stream of the partition.
type Position struct {
	Partition subjects.Partition `json:"part,omitzero"`
	Seq       uint64             `json:"seq,omitzero"`
}

// EventID returns the id of the event at the position, for the audit record and for provenance.audit_event_id.
func (p Position) EventID() string {
	return string(strconv.AppendUint(append(append(make([]byte, 0, 64), p.Partition.Bucket()...), '.'), p.Seq, 10))
}

// At returns the position of an event of the log by its sequence number.
func (s State) At(seq uint64) Position { return Position{s.Partition, seq} }

// Key returns the key of the log.
func (s State) Key() subjects.Key {
	return subjects.Key{Tool: s.Tool, ID: s.ID, Partition: s.Partition}
}
