package dispatcher

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// caller is a checked request on its way into the log.
type caller struct {
	request
	ask call.AdmitRequest
	// stored is the request as the log gets it; nil if it may only be answered, not admitted. It leaves out the run, the
	// role and the lane that the caller left out: those are in ask.Owner.
	stored jsontext.Value
	terms  terms
	known  call.State    // of its log, if that has been read
	unsure bool          // its admission may be in the log, or come into it
	held   *flow.Counter // that counts it while it is opened
}

// legible makes the names of the subject fit to be put on record, and reports whether they were.
func legible(in *call.IncomingRequest) bool {
	all := true
	for _, name := range []*string{&in.From.Tenant, &in.From.Actor, &in.Tool} {
		if !utf8.ValidString(*name) {
			*name, all = strings.ToValidUTF8(*name, "\uFFFD"), false
		}
	}
	return all
}

// misnamed refuses a request whose subject was written by somebody that does not know how.
func misnamed(err error) *envelope.Error {
	return envelope.NewError(envelope.CodeMalformed, "the subject of the request cannot be read: "+err.Error()).
		WithFix(`write each name in the subject as one token: letters, digits and "-" as they are, every other byte ` +
			`as "_" and two lower-case hex digits (web.fetch is web_2efetch), none as "_e"; one longer than 100 bytes ` +
			`is digested, see package subjects`)
}

// fingerprint makes what the log is asked of the candidate.
func (d *Dispatcher) fingerprint(_ context.Context, c *candidate) *envelope.Error {
	in, req, m := c.in, c.req, c.m
	fingerprint, args, err := d.hashes(c)
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
		Policy: call.NotePolicy(c.policy.Versions()),
	}
	if c.principal != nil {
		owner.Scopes = call.NoteScopes(slices.Concat(req.Context.Scopes, m.Security.RequiredScopes)...)
	}
	facts := call.Pinned{
		Tenant: in.From.Tenant, Tool: m.ToolID, ID: envelope.CallKeyID(in.From.Tenant, req), Fn: req.Fn,
		Version: m.Semver, Digest: m.Digest, Class: c.terms.class, Pool: m.Pool,
		Fingerprint: fingerprint, ArgsHash: args, KeepSeconds: int64(m.Retention / time.Second), DryRun: req.DryRun,
		External: m.Effect == tool.EffectExternal,
	}
	if !facts.MayRunAgain() && !d.OlderBuilds {
		facts.Lookup = call.LookupNo
		if m.Capability.Lookup {
			facts.Lookup = call.LookupYes
		}
	}
	ask := call.AdmitRequest{
		Owner: owner, Pinned: facts, Fingerprint: fingerprint, Deadline: call.At(c.deadline),
		Priority: cmp.Or(req.Constraints.Priority, envelope.PriorityNormal), Now: call.At(in.Received), Nonce: d.NewNonce(),
		Strict: d.Strict || c.terms.strict, Writes: len(c.terms.writeTargets) > 0,
		Ignored: outcome.IgnoredFields(req, c.deadline, wished(in, req)),
	}
	c.caller = &caller{request: c.request, ask: ask, stored: stored, terms: c.terms}
	return nil
}

// wished is when the caller wants to have its answer, in bus time.
func wished(in *call.IncomingRequest, req *envelope.Request) time.Time {
	due := in.Received.Add(time.Duration(req.Constraints.TimeoutMS) * time.Millisecond)
	if abs := req.Constraints.DeadlineUnixMS; abs > 0 && time.UnixMilli(abs).Before(due) {
		due = time.UnixMilli(abs)
	}
	return due
}
