package check

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

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
