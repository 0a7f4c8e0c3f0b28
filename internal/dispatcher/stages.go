package dispatcher

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/policy/lock"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// stage is one check of a request before its admission.
type stage struct {
	step int // of the gateway contract (003), which the check is part of
	name string
	why  string // reason for the check
	// unproven means that the sender of a request that fails the check is not authenticated: the refusal contains nothing
	// about the call that the request names.
	unproven bool
	pass     func(*Dispatcher, context.Context, *candidate) *envelope.Error
}

// stages returns all stages in the order of the steps of the gateway contract. Insert a new stage after those of its
// step.
func stages() []stage {
	return []stage{
		{1, "receive", "nothing can be said of a request that cannot be read", true, (*Dispatcher).receive},
		{2, "identity", "a request comes from the actor of its subject, which the bus enforces", true,
			(*Dispatcher).identity},
		{2, "token", "what a request says of its sender, and of its rights, a token proves", true,
			func(d *Dispatcher, _ context.Context, c *candidate) *envelope.Error { return d.credential(c) }},
		{2, "role", "a call has one role, and its caller must have it", false, (*Dispatcher).role},
		{3, "policy", "what holds now must be known", false, (*Dispatcher).inForce},
		{3, "run", "a call belongs to work that somebody has started, and can stop", false, (*Dispatcher).inRun},
		{4, "lane", "a role is for some lanes only", false, decides(policy.StepLane)},
		{5, "registered", "a tool without a manifest promises nothing", false, (*Dispatcher).registered},
		{5, "entry", "a tool that the policy does not register must not run", false, decides(policy.StepTool)},
		{5, "enabled", "a tool may be withdrawn, or its program missing or exchanged", false, (*Dispatcher).enabled},
		{5, "version", "a caller may insist on the tool that it was written for", false, (*Dispatcher).version},
		{5, "merged", "an entry restricts a manifest, and a lane how its calls are recorded", false, (*Dispatcher).merged},
		{5, "approved", "what a server has made of a tool since it was approved may do harm", false, (*Dispatcher).approved},
		{6, "allowlist", "a lane is for some tools only", false, decides(policy.StepPermit)},
		{6, "scopes", "a tool may be for some callers only", false, (*Dispatcher).scopes},
		{7, "scope keys", "a call says what it is for", false, decides(policy.StepScope)},
		{7, "function", "what a tool does is one of its functions", false, (*Dispatcher).function},
		{7, "input", "what is to be checked has to be here", false, (*Dispatcher).fetched},
		{7, "schema", "tools get what they declare, and need not check it", false, (*Dispatcher).schema},
		{7, "sanitising", "what is used as an address, a path or a command may reach further than meant", false,
			(*Dispatcher).sanitising},
		{8, "prohibited", "a lane or a tool may forbid a part of what a tool can do", false, decides(policy.StepProhibit)},
		{8, "lock", "an operator may stop a tool, a lane or everything at any time", false, (*Dispatcher).unlocked},
		{9, "dry run", "a tool that knows none would do the real thing", false, (*Dispatcher).dryRun},
		{9, "durability", "what a power cut takes from the log would run again", false, (*Dispatcher).durability},
		{9, "deadline", "nobody may start a call that nobody waits for", false, (*Dispatcher).inTime},
		{9, "fingerprint", "repeats of a call are known by their input", false, (*Dispatcher).fingerprint},
	}
}

// Names for the refusals that no stage makes.
const (
	stageIntake    = "intake"    // before the request was decoded
	stageAdmission = "admission" // when it was placed in the log of its key
	stageFailure   = "failure"   // handling it panicked
)

// Steps of the gateway contract for the refusals that no stage makes.
const (
	stepReceive = 1
	stepRecord  = 9
)

// request is a received message and its decoded request. req is incomplete or nil if the message is invalid.
type request struct {
	in  *call.IncomingRequest
	req *envelope.Request
	// principal is the verified sender; nil without tokens. A replay has one from the start.
	principal *auth.Principal
	step      int // step of the gateway contract that is under way, or that refused the request
	// m is the tool; nil until a stage has found it.
	m      *tool.Manifest
	policy *policy.Snapshot // in force when the request was checked; nil before the stage that finds it
	denial *policy.Decision // set if the policy denies the call
	run    *policy.Run      // that the call belongs to; nil without a policy
}

// candidate is a request in the stages, with their results.
type candidate struct {
	request
	missed   *envelope.Error // refusal if no version matches; m is then another version
	rules    *policy.Case    // decides the call by policy; nil before the first step
	terms    terms
	fn       *tool.Function
	input    jsontext.Value
	large    *large // set if the input is in the payload store
	accepted bool   // the input is valid
	deadline time.Time
	caller   *caller // set by the last stage
}

// check runs the stages, and returns the stage that refused the request with its refusal.
func (d *Dispatcher) check(ctx context.Context, c *candidate) (at stage, refusal *envelope.Error) {
	defer d.release(c)
	for _, s := range d.stages {
		c.step = s.step
		if refusal := s.pass(d, ctx, c); refusal != nil {
			return s, refusal
		}
	}
	return stage{}, nil
}

func (d *Dispatcher) receive(_ context.Context, c *candidate) (refusal *envelope.Error) {
	legible := legible(c.in)
	c.in.ContentType = envelope.MediaType(c.in.ContentType) // stored with the call, so drop the parameters
	c.req, refusal = envelope.DecodeRequest(c.in.ContentType, c.in.Body)
	switch {
	case c.in.Misnamed != nil:
		return misnamed(c.in.Misnamed)
	case refusal == nil && !legible:
		return envelope.NewError(envelope.CodeMalformed,
			"the tenant, the actor or the tool in the subject is not valid UTF-8")
	}
	return refusal
}

func (d *Dispatcher) identity(_ context.Context, c *candidate) *envelope.Error {
	in, actor, tool := c.in, c.req.Context.ActorID, c.req.ToolID
	named := in.From.Actor == actor && in.Tool == tool // false if a name is too long to be decoded
	switch {
	case in.From.Tenant == "" && in.Subject != subjects.Call("", actor, tool):
		return envelope.NewError(envelope.CodeLimit,
			"the name of the tenant is longer than 100 bytes as a token of the subject")
	case named, in.Subject == subjects.Call(in.From.Tenant, actor, tool):
		in.From.Actor, in.Tool = actor, tool
		return nil
	case actor != in.From.Actor:
		return envelope.NewError(envelope.CodeIdentity,
			fmt.Sprintf("context.actor_id is %q, but the request came from %q", actor, in.From.Actor))
	}
	return envelope.NewError(envelope.CodeIdentity,
		fmt.Sprintf("tool_id is %q, but the request was sent to %q", tool, in.Tool))
}

func (d *Dispatcher) registered(_ context.Context, c *candidate) *envelope.Error {
	if c.m, c.missed = d.Catalog.Get(c.req.ToolID, c.req.ToolVersion); c.m == nil {
		return c.noTool()
	}
	return nil
}

func (d *Dispatcher) enabled(_ context.Context, c *candidate) *envelope.Error {
	if !c.m.Callable() {
		return envelope.NewError(envelope.CodeToolDisabled, fmt.Sprintf("tool %q is %s", c.m.ToolID, c.m.Status))
	}
	return c.m.NeverRuns()
}

func (d *Dispatcher) version(_ context.Context, c *candidate) *envelope.Error {
	return c.missed
}

func (d *Dispatcher) approved(_ context.Context, c *candidate) *envelope.Error {
	if all, _ := d.Changed(c.m); all {
		return envelope.ToolChanged(c.m.ToolID)
	}
	return nil
}

// Changed reports whether the definition of m at its MCP server differs from the approved one. all: all executors that
// have compared it found a difference, so its calls are refused. some: only some did, and those refuse its calls
// themselves.
func (d *Dispatcher) Changed(m *tool.Manifest) (all, some bool) {
	server, definition := m.Approved()
	if d.Definitions == nil || definition == "" {
		return false, false
	}
	return d.Definitions.Changed(m.Pool, server, m.ToolID, definition)
}

func (d *Dispatcher) function(_ context.Context, c *candidate) *envelope.Error {
	fn, ok := c.m.Function(c.req.Fn)
	if !ok {
		return envelope.NoFunction(c.m.ToolID, c.req.Fn, slices.Collect(maps.Keys(c.m.Functions)))
	}
	c.fn = fn
	return nil
}

func (d *Dispatcher) schema(_ context.Context, c *candidate) *envelope.Error {
	if c.accepted || c.large != nil && c.large.prints != nil {
		return nil
	}
	if bad := c.fn.Request.ValidateChecked(c.input); len(bad) > 0 {
		return envelope.NewError(envelope.CodeSchema, "").WithViolations(jsonschema.Below("/input", bad)...)
	}
	return nil
}

// sanitising refuses unsafe addresses, paths and commands. It never rewrites them: a caller must know what was done.
func (d *Dispatcher) sanitising(_ context.Context, c *candidate) *envelope.Error {
	if c.large != nil && c.large.prints != nil {
		return nil
	}
	if bad := c.fn.Unsafe(c.input, c.terms.folders(c.m.Capability.FS)); len(bad) > 0 {
		return envelope.NewError(envelope.CodeUnsafe, "").WithViolations(jsonschema.Below("/input", bad)...)
	}
	return nil
}

// unlocked refuses a call that an operator has locked, and any call while it is not known which locks are in force.
func (d *Dispatcher) unlocked(ctx context.Context, c *candidate) *envelope.Error {
	l, err := d.Locks.Find(ctx, c.m.ToolID, c.req.Context.LaneID)
	switch {
	case err != nil:
		return envelope.NewError(envelope.CodeUnavailable, err.Error()).WithRetryAfter(time.Second)
	case l != nil:
		return lock.Refusal(l)
	}
	return nil
}

func (d *Dispatcher) dryRun(_ context.Context, c *candidate) *envelope.Error {
	if c.req.DryRun && !c.m.Capability.DryRun {
		return envelope.NewError(envelope.CodeDryRun, fmt.Sprintf("tool %q has no dry run", c.m.ToolID))
	}
	return nil
}

func (d *Dispatcher) durability(_ context.Context, c *candidate) *envelope.Error {
	if c.terms.class == call.SideEffectful && !c.req.DryRun && !d.Fsync && !c.m.AcceptRerun {
		return envelope.NewError(envelope.CodeDurability, "")
	}
	return nil
}

// inTime sets the deadline in bus time, the earlier one of the caller's deadline and the maximum timeout of the tool.
func (d *Dispatcher) inTime(_ context.Context, c *candidate) *envelope.Error {
	c.deadline = wished(c.in, c.req)
	if longest := c.in.Received.Add(c.m.Limits.Longest()); longest.Before(c.deadline) {
		c.deadline = longest
	}
	if !c.deadline.After(d.Now()) {
		return tooLate()
	}
	return nil
}
