package check

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/flow"
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
	// unproven means that the sender of a request that fails the check is not authenticated: the refusal contains
	// nothing about the call that the request names.
	unproven bool
	pass     func(*Stages, context.Context, *candidate) *envelope.Error
}

// table returns all stages in the order of the steps of the gateway contract. Insert a new stage after those of its
// step.
func table() []stage {
	return []stage{
		{1, "receive", "A dispatcher can answer only a request that it can read.", true, (*Stages).receive},
		{2, "identity", "A request must name the actor and the tool of its subject, which alone the bus enforces.", true,
			(*Stages).identity},
		{2, "token", "A token must prove the sender and the rights that a request claims.", true, (*Stages).token},
		{2, "role", "A caller may act only in a role that its token carries.", false, (*Stages).role},
		{3, "policy", "A dispatcher admits no call without a policy in force.", false, (*Stages).inForce},
		{3, "run", "A call must belong to an active run, so that an operator can stop the work as a whole.", false,
			(*Stages).inRun},
		{4, "lane", "A role may use only the lanes that the policy gives it.", false, decides(policy.StepLane)},
		{5, "registered", "A caller may call only a tool that has a manifest.", false, (*Stages).registered},
		{5, "entry", "A tool may run only if the policy registers it.", false, decides(policy.StepTool)},
		{5, "enabled", "A tool must not run while it is disabled, or while its program is missing or replaced.", false,
			(*Stages).enabled},
		{5, "version", "A caller gets only a version of a tool that it has asked for.", false, (*Stages).version},
		{5, "merged", "The policy may restrict what a manifest allows, and a lane sets how its calls are recorded.", false,
			(*Stages).merged},
		{5, "approved", "A tool must not run if its server has changed the definition that an operator approved.", false,
			(*Stages).approved},
		{6, "allowlist", "A lane permits only the tools that it lists.", false, decides(policy.StepPermit)},
		{6, "scopes", "A caller needs every scope that a tool requires.", false, (*Stages).scopes},
		{7, "scope keys", "A call must name each scope key that its lane and its tool require.", false,
			decides(policy.StepScope)},
		{7, "function", "A call must name a function that the tool has.", false, (*Stages).function},
		{7, "input", "A dispatcher can check a large input only after it has read the input from the payload store.", false,
			(*Stages).fetched},
		{7, "schema", "A tool gets only input that its schema allows.", false, (*Stages).schema},
		{7, "sanitising", "An address, path or command in the input must not reach further than the tool declares.", false,
			(*Stages).sanitising},
		{8, "prohibited", "A lane or a tool may prohibit a part of what the tool can do.", false,
			decides(policy.StepProhibit)},
		{8, "lock", "An operator may stop a tool, a lane or all calls at any time.", false, (*Stages).unlocked},
		{9, "dry run", "A tool without a dry run would carry out the real action.", false, (*Stages).dryRun},
		{9, "durability", "A server that does not sync its writes may lose a call in a power cut, which then runs again.",
			false, (*Stages).durability},
		{9, "deadline", "An executor must not start a call after its caller has stopped waiting.", false,
			(*Stages).inTime},
		{9, "fingerprint", "A dispatcher recognises a repeated call by the hash of its input.", false,
			(*Stages).fingerprint},
	}
}

func (s *Stages) receive(_ context.Context, c *candidate) (refusal *envelope.Error) {
	if c.received {
		return nil
	}
	named := Legible(c.In)
	c.In.ContentType = envelope.MediaType(c.In.ContentType) // stored with the call, so drop the parameters
	c.Req, refusal = envelope.DecodeRequest(c.In.ContentType, c.In.Body)
	switch {
	case c.In.Misnamed != nil:
		return misnamed(c.In.Misnamed)
	case refusal == nil && !named:
		return envelope.NewError(envelope.CodeMalformed,
			"the tenant, the actor or the tool in the subject is not valid UTF-8")
	}
	return refusal
}

func (s *Stages) identity(_ context.Context, c *candidate) *envelope.Error {
	in, actor, tool := c.In, c.Req.Context.ActorID, c.Req.ToolID
	named := in.From.Actor == actor && in.Tool == tool // false if a name is too long to be decoded
	switch {
	case in.From.Tenant == "" && in.Subject != subjects.Call("", actor, tool):
		return envelope.NewError(envelope.CodeLimit,
			"the name of the tenant is longer than 100 bytes as a token of the subject")
	case named, in.Subject == subjects.Call(in.From.Tenant, actor, tool):
		in.From.Actor, in.Tool, c.received = actor, tool, true
		return nil
	case actor != in.From.Actor:
		return envelope.NewError(envelope.CodeIdentity,
			fmt.Sprintf("context.actor_id is %q, but the request came from %q", actor, in.From.Actor))
	}
	return envelope.NewError(envelope.CodeIdentity,
		fmt.Sprintf("tool_id is %q, but the request was sent to %q", tool, in.Tool))
}

func (s *Stages) registered(_ context.Context, c *candidate) *envelope.Error {
	if c.Tool, c.missed = s.Catalog.Get(c.Req.ToolID, c.Req.ToolVersion); c.Tool == nil {
		return c.noTool()
	}
	return nil
}

func (s *Stages) enabled(_ context.Context, c *candidate) *envelope.Error {
	if !c.Tool.Callable() {
		return envelope.NewError(envelope.CodeToolDisabled, fmt.Sprintf("tool %q is %s", c.Tool.ToolID, c.Tool.Status))
	}
	if refusal := c.Tool.NeverRuns(); refusal != nil || !s.Intact {
		return refusal
	}
	if err := c.Tool.Intact(); err != nil {
		return tool.BeingLoaded(c.Tool.ToolID, err)
	}
	return nil
}

func (s *Stages) version(_ context.Context, c *candidate) *envelope.Error {
	return c.missed
}

func (s *Stages) approved(_ context.Context, c *candidate) *envelope.Error {
	if all, _ := s.Changed(c.Tool); all {
		return envelope.ToolChanged(c.Tool.ToolID)
	}
	return nil
}

// Changed reports whether the definition of m at its MCP server differs from the approved one. all: all executors that
// have compared it found a difference, so its calls are refused. some: only some did, and those refuse its calls
// themselves.
func (s *Stages) Changed(m *tool.Manifest) (all, some bool) {
	server, definition := m.Approved()
	if s.Definitions == nil || definition == "" {
		return false, false
	}
	return s.Definitions.Changed(m.Pool, server, m.ToolID, definition)
}

func (s *Stages) function(_ context.Context, c *candidate) *envelope.Error {
	fn, ok := c.Tool.Function(c.Req.Fn)
	if !ok {
		return envelope.NoFunction(c.Tool.ToolID, c.Req.Fn, slices.Collect(maps.Keys(c.Tool.Functions)))
	}
	if c.fn = fn; c.verdict.of != fn {
		c.verdict, c.coerced = verdict{of: fn}, nil
	}
	return nil
}

func (s *Stages) schema(ctx context.Context, c *candidate) *envelope.Error {
	v := &c.verdict
	if c.coerced != nil { // in a round before
		c.input = c.coerced
	}
	if v.valid || v.refusal != nil || c.large != nil && c.large.prints != nil {
		return v.refusal
	}
	if c.large == nil { // for a large input, fetch has asked
		v.accepted = c.fn.Request.Accepts(c.input)
	}
	if v.accepted {
		v.valid = true
		return nil
	}
	ctx, done, err := s.slowly(ctx, c)
	if err != nil {
		return TooLate()
	}
	defer done()
	if c.large == nil {
		c.coerced = c.Tool.Coerced(c.Req.Fn, c.input)
		c.input = c.coerced
		if v.accepted = c.fn.Request.Accepts(c.input); v.accepted {
			v.valid = true
			return nil
		}
	}
	key := keyOfSlow(c)
	if known := s.verdicts.Get(key, s.now()); known != nil && known.of == c.fn { // of a copy of the request
		*v = known.copy()
		return v.refusal
	}
	bad, err := c.fn.Request.ValidateFully(ctx, c.input)
	switch {
	case err != nil:
		return TooLate()
	case len(bad) > 0:
		v.refusal = envelope.NewError(envelope.CodeSchema, "").WithViolations(jsonschema.Below("/input", bad)...)
	}
	v.valid = v.refusal == nil
	s.verdicts.Put(key, new(v.copy()), s.now())
	return v.refusal
}

// keyOfSlow returns the cache key of the verdict on an input. It contains the sender, so that a caller cannot find out
// what another has sent.
func keyOfSlow(c *candidate) string {
	sum := sha256.Sum256(c.input)
	owner := c.owner()
	return owner.Tenant + "\x00" + owner.Actor + "\x00" + c.Req.Fn + "\x00" + string(sum[:])
}

// slowly waits for the turn of the sender to have an input checked, which ends with done. The context that it returns
// ends at the caller's deadline, and not before.
func (s *Stages) slowly(ctx context.Context, c *candidate) (_ context.Context, done func(), _ error) {
	left, cancel := context.WithTimeout(context.WithoutCancel(ctx), wished(c.In, c.Req).Sub(s.now()))
	end, err := s.slow.Take(left, flow.Sender(c.In.From.Family()), c.In.OnlyWaits)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	return left, func() { end(); cancel() }, nil
}

// sanitising refuses unsafe addresses, paths and commands. It never rewrites them: a caller must know what was done.
func (s *Stages) sanitising(ctx context.Context, c *candidate) *envelope.Error {
	// An accepted input has nothing to sanitise.
	if c.verdict.accepted || !c.fn.Request.HasFormats() || c.large != nil && c.large.prints != nil {
		return nil
	}
	ctx, done, err := s.slowly(ctx, c)
	if err != nil {
		return TooLate()
	}
	defer done()
	if bad := c.fn.Unsafe(ctx, c.input, c.terms.folders(c.Tool.Capability.FS)); len(bad) > 0 {
		return envelope.NewError(envelope.CodeUnsafe, "").WithViolations(jsonschema.Below("/input", bad)...)
	}
	return nil
}

// unlocked refuses a call that an operator has locked, and any call while it is not known which locks are in force.
func (s *Stages) unlocked(ctx context.Context, c *candidate) *envelope.Error {
	l, err := s.Locks.Find(ctx, c.Tool.ToolID, c.Req.Context.LaneID)
	switch {
	case err != nil:
		return envelope.NewError(envelope.CodeUnavailable, err.Error()).WithRetryAfter(time.Second)
	case l != nil:
		c.Lock = l
		return lock.Refusal(l)
	}
	return nil
}

func (s *Stages) dryRun(_ context.Context, c *candidate) *envelope.Error {
	if c.Req.DryRun && !c.Tool.Capability.DryRun {
		return envelope.NewError(envelope.CodeDryRun, fmt.Sprintf("tool %q has no dry run", c.Tool.ToolID))
	}
	return nil
}

func (s *Stages) durability(_ context.Context, c *candidate) *envelope.Error {
	harmless := c.Req.DryRun || c.Tool.Class == call.Pure // the policy may have made a pure tool side-effectful
	if c.terms.class == call.SideEffectful && !harmless && !s.Fsync && !c.Tool.AcceptRerun {
		return envelope.NewError(envelope.CodeDurability, "")
	}
	return nil
}

// inTime sets the deadline in bus time, the earlier one of the caller's deadline and the maximum timeout of the tool.
func (s *Stages) inTime(_ context.Context, c *candidate) *envelope.Error {
	c.deadline = wished(c.In, c.Req)
	if longest := c.In.Received.Add(c.Tool.Limits.Longest()); longest.Before(c.deadline) {
		c.deadline = longest
	}
	if !c.deadline.After(s.now()) {
		return TooLate()
	}
	return nil
}

// Legible replaces bytes of the names in the subject that are not UTF-8, so that the names can be recorded. It returns
// true if it has replaced none.
func Legible(in *call.IncomingRequest) bool {
	all := true
	for _, name := range []*string{&in.From.Tenant, &in.From.Actor, &in.Tool} {
		if !utf8.ValidString(*name) {
			*name, all = strings.ToValidUTF8(*name, "\uFFFD"), false
		}
	}
	return all
}

// misnamed returns the refusal of a request whose subject cannot be parsed.
func misnamed(err error) *envelope.Error {
	return envelope.NewError(envelope.CodeMalformed, "the subject of the request cannot be read: "+err.Error()).
		WithFix(`write each name in the subject as one token: letters, digits and "-" as they are, every other byte ` +
			`as "_" and two lower-case hex digits (web.fetch is web_2efetch), none as "_e"; one longer than 100 bytes ` +
			`is digested, see package subjects`)
}
