package audit

import (
	"fmt"
	"slices"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
)

// Event is the kind of a record.
type Event string

// Events of records in form 3.
const (
	ToolRequested Event = "tool_requested"
	// ToolAllowed depends on the form of the record, see [Record.Meaning]: in form 3 a caller joined a call or got its
	// stored outcome, from form 4 on a dispatcher allowed the call.
	ToolAllowed   Event = "tool_allowed"
	ToolDenied    Event = "tool_denied"
	ToolExecuted  Event = "tool_executed"
	ToolFailed    Event = "tool_failed"
	ToolTimeout   Event = "tool_timeout"
	ToolCancelled Event = "tool_cancelled"
	LateResult    Event = "late_result"
	// Events of credentials. The record names the actor of the credential, and [Credential.By] who requested the
	// operation.
	CredentialIssued   Event = "credential_issued"
	CredentialNarrowed Event = "credential_narrowed"
	CredentialRenewed  Event = "credential_renewed"
	CredentialRevoked  Event = "credential_revoked"
	CredentialsListed  Event = "credentials_listed"
	KeyRotated         Event = "key_rotated"
	// DeadReplayed is recorded before a dead letter is replayed; see [Replay].
	DeadReplayed Event = "dead_replayed"
)

// Further events of records in form 4.
const (
	ToolJoined    Event = "tool_joined"    // a caller joined a call that another caller had opened
	ToolReplayed  Event = "tool_replayed"  // a caller got the stored outcome of a call
	Skipped       Event = "SKIPPED"        // an agent did not make a call, because of a policy or of its confidence
	OwnerReported Event = "owner_reported" // a call of a key ended with a fault of the tool again; names its owner

	Committed         Event = "committed"
	RolledBack        Event = "rolled_back"
	WriteViolation    Event = "write_violation"
	ApprovalRequested Event = "approval_requested"
	ApprovalGranted   Event = "approval_granted"
	ApprovalDenied    Event = "approval_denied"

	ToolRegistered    Event = "tool_registered"
	ToolStatusChanged Event = "tool_status_changed"
	PolicyPushed      Event = "policy_pushed"
	PolicyApplied     Event = "policy_applied" // see [EntryRestored]
	RunStarted        Event = "run_started"
	RunPaused         Event = "run_paused"
	RunResumed        Event = "run_resumed"
	RunRepinned       Event = "run_repinned"
	RunClosed         Event = "run_closed"
	LockSet           Event = "lock_set"
	LockCleared       Event = "lock_cleared"
	RolloutStarted    Event = "rollout_started"
	RolloutAdvanced   Event = "rollout_advanced"
	RolloutRolledBack Event = "rollout_rolled_back"
	RolloutCompleted  Event = "rollout_completed"
)

// Events returns all events that this build reads: those of a call, in the order of its life, then those of
// credentials, dead letters and operators.
func Events() []Event {
	return []Event{
		ToolRequested, ToolAllowed, ToolJoined, ToolReplayed, ToolDenied, Skipped, ToolExecuted, ToolFailed, ToolTimeout,
		ToolCancelled, LateResult, OwnerReported, Committed, RolledBack, WriteViolation, ApprovalRequested,
		ApprovalGranted, ApprovalDenied, CredentialIssued, CredentialNarrowed, CredentialRenewed, CredentialRevoked,
		CredentialsListed, KeyRotated, DeadReplayed, ToolRegistered, ToolStatusChanged, PolicyPushed, PolicyApplied,
		RunStarted, RunPaused, RunResumed, RunRepinned, RunClosed, LockSet, LockCleared, RolloutStarted, RolloutAdvanced,
		RolloutRolledBack, RolloutCompleted,
	}
}

// allowsSince is the first form in which [ToolAllowed] means that a dispatcher allowed the call.
const allowsSince = 4

// Meaning returns the event of the record in the words of form 4. It differs from r.Event if form 3 has the record:
// there [ToolAllowed] stands for [ToolReplayed] if the record has an outcome, and for [ToolJoined] otherwise.
func (r *Record) Meaning() Event {
	switch {
	case r.Event != ToolAllowed || r.Form >= allowsSince:
		return r.Event
	case r.Status != "":
		return ToolReplayed
	}
	return ToolJoined
}

// checkValues returns a [format.Error] if the record has a value that its form does not have, because a newer build
// wrote it. Earlier forms are open: their unknown values are read as they are.
func (r *Record) checkValues() error {
	switch {
	case r.Form < allowsSince:
	case r.Event != "" && !slices.Contains(Events(), r.Event):
		return r.unknown("event", string(r.Event))
	case r.Determinism != "" && !isEffectName(r.Determinism):
		return r.unknown("determinism", string(r.Determinism))
	}
	return nil
}

func (r *Record) unknown(member, value string) error {
	return &format.Error{Kind: format.Record, Version: r.Form, Detail: fmt.Sprintf("%s %.100q", member, value)}
}

// isEffectName reports whether c names an effect class, as manifests do or by one of the four names of records in form
// 4.
func isEffectName(c call.EffectClass) bool {
	switch c {
	case call.Pure, call.Idempotent, call.SideEffectful,
		call.EffectPure, call.EffectIdempotentWrite, call.EffectNonIdempotentWrite, call.EffectExternal:
		return true
	}
	return false
}
