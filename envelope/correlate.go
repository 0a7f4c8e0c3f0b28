package envelope

import (
	"maps"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// Members of error.details that only Toolbus sets, in [Details].Extra: stored details of a tool of an older build may
// have a value of another type in them.
const (
	detailCallID      = "call_id"
	detailTraceID     = "trace_id"
	detailAttempt     = "attempt"
	detailToolID      = "tool_id"
	detailToolVersion = "tool_version"
	detailOwner       = "owner"
)

// Correlated returns the response with the members of its error's details by which people find the call in logs,
// records and traces: call_id, tool_id, tool_version and attempt of the response, and traceID. It leaves out members
// that are not known: an attempt of 0, NoCallID, an empty text, and a trace id that is not a UUID. If the response has
// no error, it returns r. It does not change r, because observers of one outcome have different call ids. Call it for
// each answer, and not for a response that is stored.
func (r *Response) Correlated(traceID string) *Response {
	if r.Error == nil {
		return r
	}
	c, e := *r, *r.Error
	e.Details.Extra = maps.Clone(e.Details.Extra)
	if e.Details.Extra == nil {
		e.Details.Extra = map[string]jsontext.Value{}
	}
	callID := r.CallID
	if callID == NoCallID {
		callID = ""
	}
	if !jsonschema.IsUUID(traceID) {
		traceID = ""
	}
	if e.Details.attach(detailAttempt, ""); r.Provenance.Attempt > 0 {
		e.Details.Extra[detailAttempt] = jsontext.Value(strconv.Itoa(r.Provenance.Attempt))
	}
	e.Details.attach(detailCallID, callID)
	e.Details.attach(detailTraceID, traceID)
	e.Details.attach(detailToolID, r.Provenance.ToolID)
	e.Details.attach(detailToolVersion, r.Provenance.ToolVersion)
	c.Error = &e
	return &c
}

// attach sets a member of Extra to text, cut to MaxID bytes, or removes the member if text is empty.
func (d *Details) attach(name, text string) {
	if text == "" {
		delete(d.Extra, name)
		return
	}
	d.Extra[name] = ijson.Quote(ijson.Clip(text, MaxID))
}

// ToolOwner returns the owner of a tool as errors and records name it: without control characters, cut to MaxID bytes.
func ToolOwner(owner string) string { return sanitise(owner, MaxID) }

// WithOwner sets the member owner of the details: the owner of the tool, see [ToolOwner], who gets reports of its
// repeated faults. It changes no map that e shares with another error.
func (e *Error) WithOwner(owner string) *Error {
	if e.Details.Extra = maps.Clone(e.Details.Extra); e.Details.Extra == nil {
		e.Details.Extra = map[string]jsontext.Value{}
	}
	e.Details.attach(detailOwner, ToolOwner(owner))
	return e
}

// OfTool returns the members of the details that the tool added, without those that Toolbus sets.
func (d Details) OfTool() map[string]jsontext.Value {
	members := maps.Clone(d.Extra)
	for _, ours := range correlation() {
		delete(members, ours)
	}
	return members
}

// correlation returns the names of the members in [Details].Extra that only Toolbus sets.
func correlation() [6]string {
	return [...]string{detailCallID, detailTraceID, detailAttempt, detailToolID, detailToolVersion, detailOwner}
}
