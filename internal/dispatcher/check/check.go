package check

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/policy/lock"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Catalog finds tools.
type Catalog interface {
	// Get returns the version of a tool for the version range want. If no version matches, it returns a refusal, and the
	// version to check the request against all the same. If the tool does not exist, the Manifest is nil.
	Get(id, want string) (*tool.Manifest, *envelope.Error)
}

// Payloads fetches inputs that are too large to travel inline.
type Payloads interface {
	Get(ctx context.Context, of subjects.PayloadOwner, ref envelope.PayloadRef) ([]byte, error)
}

// Definitions reports imported tools whose definition at their MCP server differs from the approved one.
type Definitions interface {
	// Changed reports whether all executors of the pool that have compared the definition of a tool with the approved
	// digest found a difference, or only some of them. Both are false if no executor has compared it. It sends no
	// messages.
	Changed(pool, server, tool, definition string) (all, some bool)
}

// Options configures [Stages]. Catalog and Payloads are required.
type Options struct {
	Catalog     Catalog
	Payloads    Payloads
	Policy      Policy         // nil: every request is refused
	Runs        Runs           // nil: no run exists, so a policy allows no call
	Tokens      *auth.Verifier // nil: the actor in the subject is not verified
	Locks       *lock.Board    // nil: no call is ever locked
	Definitions Definitions    // reports tools whose calls are refused until they are approved; nil: none
	// DefaultRole is the role of tokens without roles, and DefaultLane the lane of calls that name none, unless another
	// lane is the only one that allows the tool to the role; defaults "agent" and "default".
	DefaultRole, DefaultLane string
	// Fsync states that the servers sync every write. If it is false, calls of side-effectful tools are refused unless
	// their manifest accepts a rerun after a power cut.
	Fsync  bool
	Strict bool // executors start a call only after the audit record holds its request
	Intact bool // calls of tools whose files differ from what was loaded are refused
	// PayloadMemory is the memory, in bytes, for large inputs that are being checked; others wait. Default 128 MiB.
	PayloadMemory int64
	// OverQuota returns the time for which large inputs of an actor are refused because it has filled the payload store,
	// or 0. nil refuses none.
	OverQuota func(subjects.Owner) time.Duration
}

// Stages checks the requests of one dispatcher. Make one with [New]. Its methods are safe for concurrent use.
type Stages struct {
	*Options
	now      func() time.Time
	newNonce func() string
	stages   []stage
	inputs   *inputs
	slow     *flow.Turns // of checks of inputs that take long
	verdicts *flow.TTLMap[*verdict]
}

// New returns Stages that read o, in which it sets the defaults. now is the bus time, and newNonce returns a new nonce
// for each event.
func New(o *Options, now func() time.Time, newNonce func() string) *Stages {
	o.DefaultRole, o.DefaultLane = cmp.Or(o.DefaultRole, DefaultRole), cmp.Or(o.DefaultLane, DefaultLane)
	return &Stages{o, now, newNonce, table(), newInputs(o.PayloadMemory), slowTurns(),
		flow.NewTTLMap[*verdict](maxVerdicts, printsTime)}
}

// Request is a received message, and what the stages have found out about it. Req is incomplete or nil if the message
// is invalid.
type Request struct {
	In  *call.IncomingRequest
	Req *envelope.Request
	// Principal is the verified sender; nil without tokens. A request that has one before the check comes from this
	// process, and needs no token.
	Principal *auth.Principal
	Step      int              // step of the gateway contract that is under way, or that refused the request
	Tool      *tool.Manifest   // nil until a stage has found it
	Policy    *policy.Snapshot // in force when the request was checked; nil before the stage that finds it
	Denial    *policy.Decision // set if the policy denies the call
	Run       *policy.Run      // that the call belongs to; nil without a policy
	Lock      *envelope.Lock   // that denies the call; nil without one

	arrived  time.Time // when the first round of the stages began
	checked  time.Time // when the last one began
	received bool      // the first two stages have passed it: what it says does not change
	proven   bool      // a stage has set Principal
	implicit bool      // a stage has set the run that Req names
	laneless bool      // a stage has set the lane that Req names
	refused  *Refusal  // by the last round; nil if it was not
	verdict  verdict
	coerced  jsontext.Value // the input as the tool gets it; nil before the stage that coerces it
}

// Call is a checked request on its way into the log.
type Call struct {
	*Request
	Ask call.AdmitRequest
	// Stored is the request as the log gets it; nil if it may only be answered, not admitted. It leaves out the run, the
	// role and the lane that the caller left out: those are in Ask.Owner.
	Stored       jsontext.Value
	WriteTargets []string // for the executor; nil if every target is allowed
}

// Refusal is the reason for which a stage refuses a request.
type Refusal struct {
	Stage string
	// Unproven means that the sender is not authenticated: the answer must contain nothing about the call that the
	// request names.
	Unproven bool
	Error    *envelope.Error
}

// candidate is a request in the stages, with their results.
type candidate struct {
	*Request
	missed   *envelope.Error // refusal if no version matches; Tool is then another version
	rules    *policy.Case    // decides the call by policy; nil before the first step
	terms    terms
	fn       *tool.Function
	input    jsontext.Value // as sent, and as the tool gets it from the stage that coerces it on
	large    *large         // set if the input is in the payload store
	deadline time.Time
	call     Call // set by the last stage
}

// verdict has the result of checking the input by the schema of a function. It stays the same in every round.
type verdict struct {
	of       *tool.Function
	valid    bool            // the input is valid
	accepted bool            // and has nothing to sanitise
	refusal  *envelope.Error // or it is not valid
}

// copy returns v with a refusal of its own, which the answer adds to.
func (v verdict) copy() verdict {
	if v.refusal != nil {
		v.refusal = new(*v.refusal)
	}
	return v
}

// maxVerdicts is the number of results of slow checks that are kept, for copies of a request.
const maxVerdicts = 256

// maxSlow is the largest number of slow checks at a time. Each may decode an inline input, into 24 MB.
const maxSlow = 8

// slowTurns returns the turns of the checks that take up to a third of a second of processor time. Half of the
// processors stay free for everything else.
func slowTurns() *flow.Turns {
	return flow.NewTurns(min(maxSlow, max(1, int64(runtime.GOMAXPROCS(0))/2)))
}

// useTime is how long the result of a check may be used. Its facts about tokens, policies, runs and locks are at most
// [timer.LeaseTime] old at first, and so at most a second.
const useTime = time.Second - timer.LeaseTime

// maxRounds is how often the stages run at most, if each round takes longer than useTime.
const maxRounds = 4

// stageStale is the name of the refusal of a request whose rounds all took too long.
const stageStale = "stale"

// Check runs the stages, until one refuses the request. It sets the fields of r. If the request had to wait, for
// example for memory, it runs them again, because what the first of them found may have changed meanwhile.
func (s *Stages) Check(ctx context.Context, r *Request) (_ *Call, refusal *Refusal) {
	c := &candidate{Request: r}
	defer c.release()
	settled := false
	for range maxRounds {
		refusal = s.round(ctx, c)
		if settled = r.Holds() || !c.received || wished(r.In, r.Req).Before(s.now()); settled {
			break
		}
	}
	if !settled {
		r.Policy, r.Denial, r.Lock = nil, nil, nil // what refused or allowed it may have changed by now
		refusal = &Refusal{stageStale, false, envelope.NewError(envelope.CodeUnavailable,
			"what the bus knows about the call could not be read in time").WithRetryAfter(time.Second)}
	}
	r.refused = refusal
	if refusal != nil {
		return nil, refusal
	}
	return &c.call, nil
}

// Holds reports whether the result of the last [Stages.Check] may still be used. If not, the request must be checked
// again before it is admitted or denied.
func (r *Request) Holds() bool { return timer.Age(r.checked) <= useTime }

// Recheck returns c, or the refusal of its last check. If that no longer holds, it checks the request again.
func (s *Stages) Recheck(ctx context.Context, c *Call) (*Call, *Refusal) {
	if c.Holds() {
		return c, c.refused
	}
	return s.Check(ctx, c.Request)
}

// round runs the stages once. It keeps what the request itself says, and memory and inputs of the round before.
func (s *Stages) round(ctx context.Context, c *candidate) *Refusal {
	c.checked, c.rules, c.Denial, c.Lock = time.Now(), nil, nil, nil
	c.arrived = cmp.Or(c.arrived, c.checked)
	if c.proven {
		c.Principal = nil
	}
	if c.implicit {
		c.Req.Context.RunID = ""
	}
	if c.laneless {
		c.Req.Context.LaneID = ""
	}
	for _, stage := range s.stages {
		c.Step = stage.step
		if refusal := stage.pass(s, ctx, c); refusal != nil {
			return &Refusal{stage.name, stage.unproven, refusal}
		}
	}
	return nil
}

// Late reports whether the deadline of the call has passed at now, in bus time.
func (c *Call) Late(now time.Time) bool { return !c.Ask.Deadline.Time().After(now) }

// TooLate returns the refusal of a request whose deadline passed while it waited in a dispatcher.
func TooLate() *envelope.Error {
	return envelope.NewError(envelope.CodeTimeout, "the deadline had passed before the call was admitted")
}

// expiryMargin covers the differences between bus time and the clock of the server, which expires events.
const expiryMargin = 10 * time.Second

// MayHaveExpired reports whether an empty log does not prove that no attempt of the request was admitted: the request
// is so old that the event of one may have expired. A request that a client repeats for some seconds is that old if the
// server's clock was set forward meanwhile.
func (r *Request) MayHaveExpired(now time.Time) bool {
	return !wished(r.In, r.Req).Add(call.DefaultExpiry.Grace - expiryMargin).After(now)
}

// Harmless reports whether a run of the call is known to have no effect.
func (r *Request) Harmless() bool { return r.Req.DryRun || r.Tool != nil && r.Tool.Class == call.Pure }

// Recall returns a Call for a refused request that may only be answered about its existing attempt in s, and not be
// admitted.
func (r *Request) Recall(s call.State) *Call {
	return &Call{Request: r, Ask: call.AdmitRequest{
		Owner: call.Owner{CallID: r.Req.CallID, Actor: r.In.From.Actor}, Pinned: s.Pinned, Fingerprint: s.Fingerprint,
		Deadline: call.At(wished(r.In, r.Req)),
	}}
}

// Describe returns e with id, version, effect and origin of the tool, if that is known.
func (r *Request) Describe(e call.TraceEvent) call.TraceEvent {
	if r.Tool != nil {
		e.State.Tool, e.State.Version = r.Tool.ToolID, r.Tool.Semver
		e.Effect, e.Origin = r.Tool.CanonicalEffect(), r.Tool.Origin()
	}
	return e
}

// fingerprint makes the Call: what the log is asked about the candidate.
func (s *Stages) fingerprint(_ context.Context, c *candidate) *envelope.Error {
	in, req, m := c.In, c.Req, c.Tool
	fingerprint, args, err := s.hashes(c)
	if err != nil {
		return envelope.NewError(envelope.CodeMalformed, "").WithCause(err.Error())
	}
	stored := jsontext.Value(in.Body)
	if in.ContentType == envelope.ContentMsgpack {
		if stored, err = envelope.EncodeRequest(envelope.ContentJSON, req); err != nil {
			return envelope.NewError(envelope.CodeMalformed, "").WithCause(err.Error())
		}
	}
	owner := call.Owner{
		CallID: req.CallID, Actor: in.From.Actor, Reply: in.Reply, ContentType: in.ContentType, Trace: req.Context.TraceID,
		Run: req.Context.RunID, Role: req.Context.RoleID, Lane: req.Context.LaneID,
		Policy: call.NotePolicy(c.Policy.Versions()),
	}
	if len(req.Context.Scope) > 0 {
		owner.Scope = call.NoteScope(c.Policy.Facts(c.question()).Scope)
	}
	if c.Principal != nil {
		owner.Scopes = call.NoteScopes(slices.Concat(req.Context.Scopes, m.Security.RequiredScopes)...)
	}
	facts := call.Pinned{
		Tenant: in.From.Tenant, Tool: m.ToolID, ID: envelope.CallKeyID(in.From.Tenant, req), Fn: req.Fn,
		Version: m.Semver, Digest: m.Digest, Class: c.terms.class, Pool: m.Pool,
		Fingerprint: fingerprint, ArgsHash: args, KeepSeconds: int64(m.Retention / time.Second), DryRun: req.DryRun,
		External: m.Effect == tool.EffectExternal,
	}
	if !facts.MayRunAgain() {
		facts.Lookup = call.LookupNo
		if m.Capability.Lookup {
			facts.Lookup = call.LookupYes
		}
	}
	ask := call.AdmitRequest{
		Owner: owner, Pinned: facts, Fingerprint: fingerprint, Deadline: call.At(c.deadline),
		Priority: cmp.Or(req.Constraints.Priority, envelope.PriorityNormal), Now: call.At(in.Received), Nonce: s.newNonce(),
		Strict: s.Strict || c.terms.strict, Writes: len(c.terms.writeTargets) > 0,
		Ignored: outcome.IgnoredFields(req, c.deadline, wished(in, req)),
	}
	c.call = Call{Request: c.Request, Ask: ask, Stored: stored, WriteTargets: c.terms.bounds()}
	return nil
}

// wished returns the deadline that the caller asks for, in bus time.
func wished(in *call.IncomingRequest, req *envelope.Request) time.Time {
	due := in.Received.Add(time.Duration(req.Constraints.TimeoutMS) * time.Millisecond)
	if abs := req.Constraints.DeadlineUnixMS; abs > 0 && time.UnixMilli(abs).Before(due) {
		due = time.UnixMilli(abs)
	}
	return due
}
