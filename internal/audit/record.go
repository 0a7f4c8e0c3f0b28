package audit

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// ContractVersion is the version of the gateway contract that records follow.
const ContractVersion = "v1"

// Record is one entry of the audit record. Its JSON names are a contract with auditors.
type Record struct {
	Form          int              `json:"form"` // format number, see internal/encoding/format
	Event         Event            `json:"event"`
	Name          string           `json:"event_name"` // name of the business event: ToolInvoked, …
	Timestamp     time.Time        `json:"timestamp_utc"`
	Tenant        string           `json:"tenant"`
	Actor         string           `json:"actor_id"`
	RunID         string           `json:"run_id"`
	RoleID        string           `json:"role_id"`
	LaneID        string           `json:"lane_id"`
	ToolName      string           `json:"tool_name"`
	Fn            string           `json:"fn,omitzero"`
	ToolVersion   string           `json:"tool_version,omitzero"`
	Digest        string           `json:"digest,omitzero"`
	Determinism   call.EffectClass `json:"determinism,omitzero"` // in form 4 a canonical name, see [call.Pinned]
	Ref           string           `json:"ref,omitzero"`         // <tool>.<id>, the argument of `toolbus why`
	CallID        string           `json:"call_id,omitzero"`
	Attempt       int              `json:"attempt,omitzero"`
	TraceID       string           `json:"trace_id,omitzero"`
	ArgumentsHash string           `json:"arguments_hash_sha256"`
	OutputHash    string           `json:"output_hash_sha256,omitzero"`
	Contract      string           `json:"contract_version"`
	// Policies are the digests of the policy set that decided; zero on a record that no policy decided.
	Policies  envelope.PolicyVersions `json:"policy_versions"`
	Status    envelope.Status         `json:"status,omitzero"`
	Code      envelope.Code           `json:"error_code,omitzero"`
	Effect    envelope.Effect         `json:"effect,omitzero"`
	DecidedBy call.Decider            `json:"decided_by,omitzero"`
	Step      int                     `json:"step,omitzero"` // of the gateway contract; of refusals, see [Refusal]
	Rule      string                  `json:"rule,omitzero"` // of refusals, see [Refusal]
	Fence     uint64                  `json:"fence,omitzero"`
	Owner     string                  `json:"owner,omitzero"` // of the tool, in [OwnerReported]
	DryRun    bool                    `json:"dry_run,omitzero"`
	// Writes is a JSON list of what the call wrote, by the side effects that the tool reported: their kind, target and
	// bytes. WritesLeft is the number of side effects for which it has no room.
	Writes     jsontext.Value `json:"writes,omitzero"`
	WritesLeft int            `json:"writes_left_out,omitzero"`
	// ServerVersion is the version of the MCP server that ran the call, as the executor that ended it says.
	ServerVersion string             `json:"server_version,omitzero"`
	LogPart       subjects.Partition `json:"log_part,omitzero"` // partition of the call log
	LogSeq        uint64             `json:"log_seq,omitzero"`  // sequence in that partition
	// Scope has the keys that the lane and the tool of a call required, as in [Basis]. It is not set on the record of a
	// denial, nor by builds up to 8574dee6.
	Scope map[string]string `json:"scope_sha256,omitzero"`
	// Basis is set on the record of a denial, if the policy had decided about the run of the call.
	Basis *Basis `json:"decided_on,omitzero"`
	// Count is set if the record stands for more than one refusal.
	Count *Count `json:"count,omitzero"`
	// Credential is set if the record describes an operation on a credential. Such a record describes no call.
	Credential *Credential `json:"credential,omitzero"`
	// Replay is set if the record describes the replay of a dead letter.
	Replay *Replay `json:"replay,omitzero"`
	// Lock is set if the record describes the setting or clearing of a safety lock, or a call that one has denied.
	Lock *SafetyLock `json:"lock,omitzero"`
	// Repair is set if the record describes a decision about a call whose log is damaged.
	Repair *Repair `json:"repair,omitzero"`
	// Restored is set if the record describes an entry that a dispatcher has stored again from its copy.
	Restored *RestoredEntry `json:"restored,omitzero"`
	// Push is set if the record describes the push of a policy set.
	Push *PolicyPush `json:"policy_push,omitzero"`
	// Run is set if the record describes a change of a run.
	Run *RunChange `json:"run,omitzero"`
	// Act is set if the record describes the intent or the result of an operation of the service.
	Act *Act `json:"act,omitzero"`
	// EventID is the id of a record that has no event in the call log. Answers name the same id.
	EventID string `json:"audit_event_id,omitzero"`
	// Salt is random, so that the hash of a record reveals nothing about its content.
	Salt string `json:"salt,omitzero"`
	// Extra holds members that a newer build has added.
	Extra map[string]jsontext.Value `json:",embed"`
}

// Count states which refusals a record stands for. In a flood, a limited number of refusals per second is recorded one
// by one, and the others are counted. The opening record describes the first counted refusal, and the answers to all
// counted ones name it. The closing record equals it except for Count, EventID and Timestamp. It is missing if the
// process died.
type Count struct {
	State   string `json:"state"`            // CountOpened or CountClosed
	Over    string `json:"over"`             // OverActor or OverDispatcher
	Opening string `json:"opening,omitzero"` // in the closing record: id of the opening record
	Denials uint64 `json:"denials,omitzero"` // in the closing record: number of counted refusals, including the first
}

// String returns a short text for tables.
func (c *Count) String() string {
	if c.State == CountClosed {
		return fmt.Sprintf("× %d", c.Denials)
	}
	return "and more"
}

// Values of the fields of [Count].
const (
	CountOpened    = "opened"
	CountClosed    = "closed"
	OverActor      = "actor"      // above the limit of one tenant, actor and code; all counted refusals have these
	OverDispatcher = "dispatcher" // above the limit of one dispatcher; of any tenant, actor and code
)

// Project returns the records of an event of the call log, in order. The event is stored at sequence seq at time at. A
// request has the records [ToolRequested] and [ToolAllowed], because a dispatcher writes it after all checks of the
// gateway. Joins and claims, and an event that does not fit the state s, have none.
func Project(kind call.Kind, attempt int, s call.State, seq uint64, at time.Time) []Record {
	a, found := s.Attempt(attempt)
	if !found || kind != call.Requested && (kind != call.Decided || a.Open()) {
		return nil
	}
	r := about(s, a)
	r.Timestamp, r.LogPart, r.LogSeq = at.UTC(), s.Partition, seq
	if kind == call.Requested {
		allowed := r
		r.Event, r.Name = ToolRequested, "ToolInvoked"
		allowed.Event, allowed.Name = ToolAllowed, "PolicyApplied"
		return []Record{r, allowed}
	}
	d, reported := a.Decision, r
	r.Event, r.Name = ending(d)
	r.Status, r.Code, r.Effect, r.DecidedBy = d.Status, d.Code, d.Effect, d.By
	if r.Event == ToolDenied {
		r.Step, r.Rule = stepLock, ruleLock
	}
	r.Fence, r.OutputHash = d.Fence, d.OutputHash
	r.Writes, r.WritesLeft = d.Written()
	if d.Server != "" {
		r.ServerVersion = call.PlainVersion(d.Server) // an executor may have written any text
	}
	all := []Record{r}
	if reported.Code, reported.Effect = d.Code, d.Effect; d.Owner != "" {
		fault := reported
		fault.Event, fault.Name, fault.Owner = OwnerReported, "ToolOwnerReported", d.Owner
		all = append(all, fault)
	}
	if d.Code == envelope.CodeWriteTarget {
		reported.Event, reported.Name = WriteViolation, "ToolWriteViolated"
		reported.Writes, reported.WritesLeft = r.Writes, r.WritesLeft
		all = append(all, reported)
	}
	return all
}

// GatePrefix is the beginning of the EventID of each denial, and of other records of dispatchers.
const GatePrefix = "gate."

// Position returns the position of the event of the call log that r is about, if LogSeq is not 0.
func (r *Record) Position() call.Position { return call.Position{Partition: r.LogPart, Seq: r.LogSeq} }

// FirstOfEvent reports whether a record of an event of the call log is the first that [Project] returns for its event.
func (r *Record) FirstOfEvent() bool {
	return r.Event != ToolAllowed && r.Event != OwnerReported && r.Event != WriteViolation
}

// ErrRefused means that the server rejected a record and will not store it, for example because AUDIT is full.
var ErrRefused = errors.New("the audit record takes nothing")

// Refusal describes a refused request.
type Refusal struct {
	In    *call.IncomingRequest
	Req   *envelope.Request // nil if the request could not be decoded
	Error *envelope.Error
	Step  int    // step of the gateway contract whose check refused the request
	Rule  string // name of the check: a stage of the dispatcher, a rule of the policy, or one of the Rule constants
	// Policies are the digests of the policy in force; zero without a policy, or if the request failed before.
	Policies envelope.PolicyVersions
	Basis    *Basis // see [Record]
	Lock     *SafetyLock
	Of       *Record // of the refused operation, see [Act]; nil for other requests
}

// Rules of refusals that concern no call: requests to the service of the dispatchers, and requests of executors.
const (
	RuleService  = "service"
	RuleExecutor = "executor"
)

// The step and the rule of denials by a safety lock, in the queue as well as by a dispatcher.
const (
	stepLock = 8
	ruleLock = "lock"
)

// StepIdentity is the step of the gateway contract that verifies the identity of a caller.
const StepIdentity = 2

// Denied returns the record of a refusal.
func Denied(refusal Refusal, at time.Time) Record {
	in, req, e := refusal.In, refusal.Req, refusal.Error
	r := Record{
		Event: ToolDenied, Name: "PolicyApplied", Timestamp: at.UTC(), Tenant: in.From.Tenant, Actor: in.From.Actor,
		ToolName: in.Tool, Contract: ContractVersion,
		Status: e.Code.Status(), Code: e.Code, Effect: e.Details.Effect, ArgumentsHash: argumentsHash(in, req),
		Step: refusal.Step, Rule: refusal.Rule, Policies: refusal.Policies, Basis: refusal.Basis,
		Lock: refusal.Lock,
	}
	if e.Code == envelope.CodeQueue { // such a request was not even decoded
		r.ArgumentsHash = ""
	}
	if req != nil {
		r.Fn, r.ToolVersion, r.CallID, r.TraceID = req.Fn, req.ToolVersion, req.CallID, req.Context.TraceID
		r.RunID, r.RoleID, r.LaneID = req.Context.RunID, req.Context.RoleID, req.Context.LaneID
	}
	if refusal.Of != nil {
		r.describe(refusal.Of)
	}
	return r
}

// argumentsHash returns the hash of the input of a request. It is the hash in the reference if the input is in the
// payload store, and the hash of the whole body if the body has no readable input.
func argumentsHash(in *call.IncomingRequest, req *envelope.Request) string {
	switch ref := envelope.ParsePayloadRef(in.InputRef); {
	case ref != nil:
		return ref.SHA256
	case req == nil || req.Input == nil:
		return envelope.ArgumentsHash(in.Body)
	}
	return envelope.ArgumentsHash(req.Input)
}

// Shared returns the record of a caller that joins attempt n, which another caller has opened, or that gets its
// outcome.
func Shared(s call.State, n int, who call.Owner, at time.Time) Record {
	a, _ := s.Attempt(n)
	a.Owner = who
	r := about(s, a)
	r.Event, r.Name, r.Timestamp = ToolJoined, "PolicyApplied", at.UTC()
	if d := a.Decision; d != nil {
		r.Event = ToolReplayed
		r.Status, r.Code, r.Effect, r.Fence, r.OutputHash = d.Status, d.Code, d.Effect, d.Fence, d.OutputHash
	}
	return r
}

// Late returns the record of a result that arrived after its attempt was decided otherwise.
func Late(s call.State, attempt int, said call.Completion, at time.Time) Record {
	a, _ := s.Attempt(attempt)
	r := about(s, a)
	r.Event, r.Name, r.Timestamp = LateResult, "ToolLateResult", at.UTC()
	r.Code, r.Effect, r.Status = said.Error, said.Effect, envelope.Success
	r.Fence, r.OutputHash = said.Fence, said.Output
	if said.Error != "" {
		r.Status = said.Error.Status()
	}
	if s.HasNoEffect() {
		r.Effect = envelope.EffectNone
	}
	return r
}

func about(s call.State, a call.Attempt) Record {
	return Record{
		Form: format.Record.Current(), Tenant: s.Tenant, Actor: a.Owner.Actor, RunID: a.Owner.Run, RoleID: a.Owner.Role,
		LaneID: a.Owner.Lane, Policies: a.Owner.Policy.Versions(),
		ToolName: s.Tool, Fn: s.Fn, ToolVersion: s.Version, Digest: s.Digest,
		Determinism: call.EffectClass(s.CanonicalEffect()), Ref: s.Ref(),
		CallID: a.Owner.CallID, Attempt: a.N, TraceID: a.Owner.Trace, ArgumentsHash: s.ArgsHash,
		Contract: ContractVersion, DryRun: s.DryRun, Scope: a.Owner.Scope.Hashes(),
	}
}

// ending returns the event of a decision and its name. A lock that ends a call in the queue denies it, unless an
// earlier delivery may have had an effect.
func ending(d *call.Decision) (Event, string) {
	switch {
	case d.Status == envelope.Success:
		return ToolExecuted, "ToolSucceeded"
	case d.Code == envelope.CodeLocked && d.Effect == envelope.EffectNone:
		return ToolDenied, "PolicyApplied"
	case d.Code == envelope.CodeTimeout || d.Code == envelope.CodeTimeoutUnknown:
		return ToolTimeout, "ToolFailed"
	case d.Code == envelope.CodeCancelled || d.Code == envelope.CodeCancelledUnknown:
		return ToolCancelled, "ToolFailed"
	}
	return ToolFailed, "ToolFailed"
}

// records encodes and decodes records faster than package json: each call has two, and an audit reads a million.
var records = ijson.TableOf[Record]()

// Append appends r as one line of JSON, without newline. It replaces invalid UTF-8: a record that could not be encoded
// would block all later ones.
func (r *Record) Append(b []byte) ([]byte, error) {
	r.Form = format.Record.Current()
	if out, ok := records.Append(b, r, nil); ok {
		return out, nil
	}
	line, err := json.Marshal(r, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, fmt.Errorf("audit record: %w", err)
	}
	return append(b, line...), nil
}
