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

// Event names what happened.
type Event string

// The events of the record.
const (
	ToolRequested Event = "tool_requested"
	ToolAllowed   Event = "tool_allowed" // a caller was let join a call, or have its stored outcome
	ToolDenied    Event = "tool_denied"
	ToolExecuted  Event = "tool_executed"
	ToolFailed    Event = "tool_failed"
	ToolTimeout   Event = "tool_timeout"
	ToolCancelled Event = "tool_cancelled"
	LateResult    Event = "late_result"
	// Of credentials, which name whose they are; [Credential.By] says at whose word.
	CredentialIssued   Event = "credential_issued"
	CredentialNarrowed Event = "credential_narrowed"
	CredentialRenewed  Event = "credential_renewed"
	CredentialRevoked  Event = "credential_revoked"
	CredentialsListed  Event = "credentials_listed"
	KeyRotated         Event = "key_rotated"
	// DeadReplayed is the replay of a dead letter, just before it is made; see [Replay].
	DeadReplayed Event = "dead_replayed"
)

// Events returns all events, in the order of a call's life, and then those of credentials.
func Events() []Event {
	return []Event{ToolRequested, ToolAllowed, ToolDenied, ToolExecuted, ToolFailed, ToolTimeout, ToolCancelled,
		LateResult, CredentialIssued, CredentialNarrowed, CredentialRenewed, CredentialRevoked, CredentialsListed,
		KeyRotated, DeadReplayed}
}

// ContractVersion is the version of the gateway contract that the records follow.
const ContractVersion = "v1"

// Record is one entry of the audit stream. Its field names are a contract with auditors.
type Record struct {
	Form          int                `json:"form"` // see internal/encoding/format
	Event         Event              `json:"event"`
	Name          string             `json:"event_name"` // the same as the name of a business event: ToolInvoked, …
	Timestamp     time.Time          `json:"timestamp_utc"`
	Tenant        string             `json:"tenant"`
	Actor         string             `json:"actor_id"`
	RunID         string             `json:"run_id"`
	RoleID        string             `json:"role_id"`
	LaneID        string             `json:"lane_id"`
	ToolName      string             `json:"tool_name"`
	Fn            string             `json:"fn,omitzero"`
	ToolVersion   string             `json:"tool_version,omitzero"`
	Digest        string             `json:"digest,omitzero"`
	Determinism   call.EffectClass   `json:"determinism,omitzero"`
	Ref           string             `json:"ref,omitzero"` // <tool>.<id>, as `why` takes it
	CallID        string             `json:"call_id,omitzero"`
	Attempt       int                `json:"attempt,omitzero"`
	TraceID       string             `json:"trace_id,omitzero"`
	ArgumentsHash string             `json:"arguments_hash_sha256"`
	OutputHash    string             `json:"output_hash_sha256,omitzero"`
	Contract      string             `json:"contract_version"`
	Policies      map[string]string  `json:"policy_versions"`
	Status        envelope.Status    `json:"status,omitzero"`
	Code          envelope.Code      `json:"error_code,omitzero"`
	Effect        envelope.Effect    `json:"effect,omitzero"`
	DecidedBy     call.Decider       `json:"decided_by,omitzero"`
	Fence         uint64             `json:"fence,omitzero"`
	DryRun        bool               `json:"dry_run,omitzero"`
	LogPart       subjects.Partition `json:"log_part,omitzero"` // partition of the call log
	LogSeq        uint64             `json:"log_seq,omitzero"`  // position in it
	// Count is there where the record stands for more than one refusal.
	Count *Count `json:"count,omitzero"`
	// Credential is there where the record is about one, and not about a call.
	Credential *Credential `json:"credential,omitzero"`
	// Replay is there where the record is about the replay of a dead letter.
	Replay *Replay `json:"replay,omitzero"`
	// EventID names what is no event of the call log, as answers do.
	EventID string `json:"audit_event_id,omitzero"`
	// Salt is random, so that the hash of a record says nothing of it.
	Salt string `json:"salt,omitzero"`
	// Extra are members that a newer build has added.
	Extra map[string]jsontext.Value `json:",embed"`
}

// Count says which refusals a record stands for: of a flood so many a second are recorded one by one, and the others
// are counted. The opening record is of the first one that is counted, and the answers to all of them name it. The
// closing record, which may be missing where the process died, is the same but for this and its time.
type Count struct {
	State   string `json:"state"`            // one of CountOpened and CountClosed
	Over    string `json:"over"`             // one of OverActor and OverDispatcher
	Opening string `json:"opening,omitzero"` // id of the opening record, in the closing one
	Denials uint64 `json:"denials,omitzero"` // how many were counted, the first among them, in the closing one
}

// String says it in few words.
func (c *Count) String() string {
	if c.State == CountClosed {
		return fmt.Sprintf("× %d", c.Denials)
	}
	return "and more"
}

// What is said of a [Count].
const (
	CountOpened    = "opened"
	CountClosed    = "closed"
	OverActor      = "actor"      // more than are recorded of one tenant, actor and code: all are of these
	OverDispatcher = "dispatcher" // more than one dispatcher records: of whatever tenant, actor and code
)

// Project returns the record of an event of the call log, stored at sequence seq at time at; ok
// is false for events that auditors are not told of (joins and claims), and for what no event of ours is.
func Project(kind call.Kind, attempt int, s call.State, seq uint64, at time.Time) (r Record, ok bool) {
	a, found := s.Attempt(attempt)
	if !found || kind != call.Requested && (kind != call.Decided || a.Open()) {
		return Record{}, false
	}
	r = about(s, a)
	r.Timestamp, r.LogPart, r.LogSeq = at.UTC(), s.Partition, seq
	if kind == call.Requested {
		r.Event, r.Name = ToolRequested, "ToolInvoked"
		return r, true
	}
	d := a.Decision
	r.Event, r.Name = ending(d)
	r.Status, r.Code, r.Effect, r.DecidedBy = d.Status, d.Code, d.Effect, d.By
	r.Fence, r.OutputHash = d.Fence, d.OutputHash
	return r, true
}

// ErrRefused means that the server takes no record: AUDIT has no room, say.
var ErrRefused = errors.New("the audit record takes nothing")

// Denied is the record of a refusal e of what came in; req is nil where it cannot be read.
func Denied(in *call.IncomingRequest, req *envelope.Request, e *envelope.Error, at time.Time) Record {
	r := Record{
		Event: ToolDenied, Name: "PolicyApplied", Timestamp: at.UTC(), Tenant: in.From.Tenant, Actor: in.From.Actor,
		ToolName: in.Tool, Contract: ContractVersion,
		Status: e.Code.Status(), Code: e.Code, Effect: e.Details.Effect, ArgumentsHash: argumentsHash(in, req),
	}
	if e.Code == envelope.CodeQueue { // it was not even read
		r.ArgumentsHash = ""
	}
	if req != nil {
		r.Fn, r.ToolVersion, r.CallID, r.TraceID = req.Fn, req.ToolVersion, req.CallID, req.Context.TraceID
		r.RunID, r.RoleID, r.LaneID = req.Context.RunID, req.Context.RoleID, req.Context.LaneID
	}
	return r
}

// argumentsHash is the hash of what was to be called with: of an input that lies in the payload store as
// it stands, and of a request without an input that can be read as it came.
func argumentsHash(in *call.IncomingRequest, req *envelope.Request) string {
	switch ref := envelope.ParsePayloadRef(in.InputRef); {
	case ref != nil:
		return ref.SHA256
	case req == nil || req.Input == nil:
		return envelope.ArgumentsHash(in.Body)
	}
	return envelope.ArgumentsHash(req.Input)
}

// Allowed returns the record of a caller that was let join attempt n, which another has opened, or was told
// its outcome if there is one already.
func Allowed(s call.State, n int, who call.Owner, at time.Time) Record {
	a, _ := s.Attempt(n)
	a.Owner = who
	r := about(s, a)
	r.Event, r.Name, r.Timestamp = ToolAllowed, "PolicyApplied", at.UTC()
	if d := a.Decision; d != nil {
		r.Status, r.Code, r.Effect, r.Fence, r.OutputHash = d.Status, d.Code, d.Effect, d.Fence, d.OutputHash
	}
	return r
}

// Late returns the record of a result that came after its attempt was decided otherwise.
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
		LaneID:   a.Owner.Lane,
		ToolName: s.Tool, Fn: s.Fn, ToolVersion: s.Version, Digest: s.Digest, Determinism: s.Class, Ref: s.Ref(),
		CallID: a.Owner.CallID, Attempt: a.N, TraceID: a.Owner.Trace, ArgumentsHash: s.ArgsHash,
		Contract: ContractVersion, DryRun: s.DryRun,
	}
}

func ending(d *call.Decision) (Event, string) {
	switch {
	case d.Status == envelope.Success:
		return ToolExecuted, "ToolSucceeded"
	case d.Code == envelope.CodeTimeout || d.Code == envelope.CodeTimeoutUnknown:
		return ToolTimeout, "ToolFailed"
	case d.Code == envelope.CodeCancelled || d.Code == envelope.CodeCancelledUnknown:
		return ToolCancelled, "ToolFailed"
	}
	return ToolFailed, "ToolFailed"
}

// records are written and read as [ijson.Table] does it: there are two for every call, and audits read a million.
var records = ijson.TableOf[Record]()

// Append appends the record as a line of JSON, without its end. What is no text in it is replaced: one record that
// could not be written would keep all others waiting behind it.
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
