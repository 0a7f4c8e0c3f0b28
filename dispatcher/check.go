package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/ijson"
	"github.com/seed-018f16cc/toolbus/question"
	"github.com/seed-018f16cc/toolbus/schema"
	"github.com/seed-018f16cc/toolbus/subjects"
	"github.com/seed-018f16cc/toolbus/tool"
)

// asker is a checked request on its way into the log.
type asker struct {
	ask     call.Ask
	in      *question.Incoming
	req     *envelope.Request
	request jsontext.Value // as it is stored; nil if it may only be answered, not admitted
	known   call.State     // of its log, if that has been read
	unsure  bool           // its admission may be in the log, or come into it
}

// legible makes the names of the subject fit to be put on record, and reports whether they were.
func legible(in *question.Incoming) bool {
	all := true
	for _, name := range []*string{&in.From.Tenant, &in.From.Actor, &in.Tool} {
		if !utf8.ValidString(*name) {
			*name, all = strings.ToValidUTF8(*name, "\uFFFD"), false
		}
	}
	return all
}

// read decodes the request and proves that it is who its subject says.
func (d *Dispatcher) read(in *question.Incoming) (*envelope.Request, *envelope.Error) {
	legible := legible(in)
	in.ContentType = envelope.MediaType(in.ContentType) // it is kept with the call: parameters may be long
	req, refusal := envelope.DecodeRequest(in.ContentType, in.Body)
	switch {
	case in.Misnamed != nil:
		return req, misnamed(in.Misnamed)
	case refusal != nil:
		return req, refusal
	}
	named := in.From.Actor == req.Context.ActorID && in.Tool == req.ToolID // not so where one is too long to be read back
	switch {
	case !legible:
		return req, envelope.NewError(envelope.CodeMalformed, "the tenant, the actor or the tool in the subject is not valid UTF-8")
	case in.From.Tenant == "" && in.Subject != subjects.Call("", req.Context.ActorID, req.ToolID):
		return req, envelope.NewError(envelope.CodeLimit, "the name of the tenant is longer than 100 bytes as a token of the subject")
	case named, in.Subject == subjects.Call(in.From.Tenant, req.Context.ActorID, req.ToolID):
		in.From.Actor, in.Tool = req.Context.ActorID, req.ToolID
	case req.Context.ActorID != in.From.Actor:
		return req, envelope.NewError(envelope.CodeIdentity,
			fmt.Sprintf("context.actor_id is %q, but the request came from %q", req.Context.ActorID, in.From.Actor))
	default:
		return req, envelope.NewError(envelope.CodeIdentity,
			fmt.Sprintf("tool_id is %q, but the request was sent to %q", req.ToolID, in.Tool))
	}
	return req, nil
}

// misnamed refuses a request whose subject was written by somebody who does not know how.
func misnamed(err error) *envelope.Error {
	return envelope.NewError(envelope.CodeMalformed, "the subject of the request cannot be read: "+err.Error()).
		WithFix(`write each name in the subject as one token: letters, digits and "-" as they are, every other byte as "_" and two ` +
			`lower-case hex digits (web.fetch is web_2efetch), none as "_e"; one longer than 100 bytes is digested, see package subjects`)
}

// check asks, in order, whether the tool may be called and whether the request fits its schema,
// its version and its deadline. Nothing has been written when it refuses.
func (d *Dispatcher) check(ctx context.Context, in *question.Incoming, req *envelope.Request) (*asker, *envelope.Error) {
	m, missed := d.Catalog.Get(req.ToolID, req.ToolVersion)
	if m == nil {
		return nil, missed
	}
	fn, refusal := find(m, req)
	if refusal != nil {
		return nil, refusal
	}
	input, free, refusal := d.input(ctx, in, req)
	if refusal != nil {
		return nil, refusal
	}
	defer free()
	if bad := fn.Request.ValidateChecked(input); len(bad) > 0 {
		return nil, envelope.NewError(envelope.CodeSchema, "").WithViolations(under("/input", bad)...)
	}
	if missed != nil { // only now: a caller whose input fits no schema is told that first
		return nil, missed
	}
	if refusal := d.permits(m, req); refusal != nil {
		return nil, refusal
	}
	return d.asker(in, req, m, input)
}

// find returns the function of a tool that may be called.
func find(m *tool.Manifest, req *envelope.Request) (*tool.Function, *envelope.Error) {
	if !m.Callable() {
		return nil, envelope.NewError(envelope.CodeToolDisabled, fmt.Sprintf("tool %q is %s", m.ToolID, m.Status))
	}
	fn, ok := m.Function(req.Fn)
	if !ok {
		return nil, envelope.NoFunction(m.ToolID, req.Fn, slices.Collect(maps.Keys(m.Functions)))
	}
	return fn, nil
}

// input returns the request's input, fetching one that travels by claim-check; free says that it is not
// needed any more.
func (d *Dispatcher) input(ctx context.Context, in *question.Incoming, req *envelope.Request) (input jsontext.Value, free func(), refusal *envelope.Error) {
	if in.InputRef == "" {
		return req.Input, func() {}, fitsInline(req.Input)
	}
	ref := envelope.ParsePayloadRef(in.InputRef)
	if ref == nil || ref.Bytes > envelope.MaxPayload {
		return nil, nil, envelope.NewError(envelope.CodeLimit, "the reference to the input is malformed or too large")
	}
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	free, ok := d.inputs.reserve(ctx, ref.Bytes)
	if !ok {
		return nil, nil, noRoomForInput()
	}
	if input, refusal = d.fetch(ctx, *ref); refusal != nil {
		free()
		return nil, nil, refusal
	}
	return input, free, nil
}

// fitsInline refuses an input that has to go through the payload store. With it the event of its admission
// could be larger than the server takes, above all where it carries the outcomes of earlier attempts.
func fitsInline(input jsontext.Value) *envelope.Error {
	if len(input) <= envelope.MaxInline {
		return nil
	}
	return envelope.NewError(envelope.CodeLimit,
		fmt.Sprintf("the input is %d bytes of JSON, at most %d fit into a request: a larger one is put into the payload store", len(input), envelope.MaxInline))
}

// fetch reads a large input and checks that it is one.
func (d *Dispatcher) fetch(ctx context.Context, ref envelope.PayloadRef) (jsontext.Value, *envelope.Error) {
	data, err := d.Payloads.Get(ctx, ref)
	switch {
	case err != nil && ctx.Err() != nil: // it may be there; the caller asks again
		return nil, envelope.NewError(envelope.CodeUnavailable, "the input could not be read from the payload store").WithRetryAfter(time.Second)
	case err != nil:
		return nil, payloadFault(err).WithCause(err.Error()).WithEffect(envelope.EffectNone)
	}
	if bad := ijson.Check(data); len(bad) > 0 {
		return nil, envelope.InputFault(under("/input", bad))
	}
	return data, nil
}

// payloadFault is what is wrong with a payload: what its error says of itself, else that it is missing.
func payloadFault(err error) *envelope.Error {
	if known, ok := errors.AsType[Fault](err); ok {
		return known.Fault()
	}
	return envelope.NewError(envelope.CodePayloadMissing, "")
}

// permits holds the request against what the tool and the deployment can do.
func (d *Dispatcher) permits(m *tool.Manifest, req *envelope.Request) *envelope.Error {
	switch {
	case req.DryRun && !m.Capability.DryRun:
		return envelope.NewError(envelope.CodeDryRun, fmt.Sprintf("tool %q has no dry run", m.ToolID))
	case m.Class == call.SideEffectful && !req.DryRun && !d.Fsync && !m.AcceptRerun:
		return envelope.NewError(envelope.CodeDurability, "")
	}
	return nil
}

// room says whether the deployment can take one more attempt; repeats of what it has taken
// already are not asked.
func (d *Dispatcher) room() *envelope.Error {
	switch {
	case d.Health.AuditLag() > d.AuditLag:
		return envelope.NewError(envelope.CodeAuditLag, "").WithRetryAfter(time.Second)
	case d.Health.StoreFull():
		return storeFull()
	}
	return nil
}

func (d *Dispatcher) asker(in *question.Incoming, req *envelope.Request, m *tool.Manifest, input jsontext.Value) (*asker, *envelope.Error) {
	deadline, refusal := d.deadline(in, req, m)
	if refusal != nil {
		return nil, refusal
	}
	fingerprint, args, err := envelope.Hashes(req, input)
	if err != nil {
		return nil, envelope.NewError(envelope.CodeMalformed, "").WithCause(err.Error())
	}
	raw := jsontext.Value(in.Body)
	if in.ContentType == envelope.ContentMsgpack {
		if raw, err = json.Marshal(req); err != nil {
			return nil, envelope.NewError(envelope.CodeMalformed, "").WithCause(err.Error())
		}
	}
	owner := call.Owner{
		CallID: req.CallID, Actor: in.From.Actor, Reply: in.Reply, ContentType: in.ContentType, Trace: req.Context.TraceID,
		Run: req.Context.RunID, Role: req.Context.RoleID, Lane: req.Context.LaneID,
	}
	facts := call.Facts{
		Tenant: in.From.Tenant, Tool: m.ToolID, ID: envelope.CallKeyID(in.From.Tenant, req), Fn: req.Fn,
		Version: m.Semver, Digest: m.Digest, Class: m.Class, Pool: m.Pool,
		Fingerprint: fingerprint, ArgsHash: args, KeepSeconds: int64(m.Retention / time.Second), DryRun: req.DryRun,
	}
	ask := call.Ask{
		Owner: owner, Facts: facts, Fingerprint: fingerprint, Deadline: call.At(deadline),
		Priority: req.Constraints.Priority, Now: call.At(in.Received), Nonce: d.NewNonce(),
	}
	if ask.Priority == "" {
		ask.Priority = envelope.PriorityNormal
	}
	return &asker{ask: ask, in: in, req: req, request: raw}, nil
}

// deadline is the earliest of what the caller and the tool allow, in bus time (design §6).
func (d *Dispatcher) deadline(in *question.Incoming, req *envelope.Request, m *tool.Manifest) (time.Time, *envelope.Error) {
	due := wished(in, req)
	if longest := in.Received.Add(m.Limits.TimeoutMax); longest.Before(due) {
		due = longest
	}
	if !due.After(d.Now()) {
		return due, tooLate()
	}
	return due, nil
}

// wished is when the caller wants to have its answer, in bus time.
func wished(in *question.Incoming, req *envelope.Request) time.Time {
	due := in.Received.Add(time.Duration(req.Constraints.TimeoutMS) * time.Millisecond)
	if abs := req.Constraints.DeadlineUnixMS; abs > 0 && time.UnixMilli(abs).Before(due) {
		due = time.UnixMilli(abs)
	}
	return due
}

// under moves violations below a prefix of the document.
func under(prefix string, bad []schema.Violation) []schema.Violation {
	for i := range bad {
		bad[i].Pointer = prefix + bad[i].Pointer
	}
	return bad
}
