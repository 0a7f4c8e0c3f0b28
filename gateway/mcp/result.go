package mcp

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// result returns the MCP result of a response. report says that the client wants all members of _meta. result returns a
// protocol error only if the client made a mistake that a model cannot correct.
func (d *Definition) result(r *envelope.Response, names sdk.Meta, protocol string, report bool) (*reply, error) {
	if r.Error != nil {
		if code := codeOf(r.Error); code != 0 {
			return nil, failure(code, r.Error)
		}
	}
	res := &reply{isError: r.Status != envelope.Success, modern: protocol >= modern}
	r = d.placed(r)
	switch {
	case res.isError && r.Error.Details.ToolResult.Kind() == '{':
		res.server, r = sent(r.Error.Details.ToolResult, r)
		res.last = joined(d.inWords(r), warningsOf(r))
	case res.isError:
		res.content = []jsontext.Value{block(d.inWords(r))}
		if q, asks := r.Error.Question(); asks && len(ijson.Members(q.Requests)) > 0 {
			res.content = append(res.content, block("It asks: "+string(q.Requests)))
		}
	case d.results && r.Output.Kind() == '{':
		res.server, r = sent(r.Output, r)
		res.last = warningsOf(r)
	default:
		res.content = []jsontext.Value{block(textOf(r.Output))}
		switch {
		case len(r.Output) == 0:
		case d.wrapped && !res.modern:
			res.structured = ijson.Object(member(memberWrapped, r.Output))
		default:
			res.structured = r.Output
		}
	}
	res.Meta = metaOf(r, names)
	if !res.isError && !report { // some frameworks put the whole _meta into the context of the model
		maps.DeleteFunc(res.Meta, func(name string, _ any) bool { return name != envelope.MetaRef })
	}
	return res, nil
}

// sent returns a result as its MCP server sent it, and the response without warnings about values that the result now
// holds exactly, and about questions, which the client has seen.
func sent(result jsontext.Value, r *envelope.Response) (jsontext.Value, *envelope.Response) {
	result, ok := exactly(result)
	if !ok || len(r.Warnings) == 0 {
		return result, r
	}
	is := *r
	is.Warnings = slices.DeleteFunc(slices.Clone(r.Warnings), func(w string) bool {
		return strings.HasPrefix(w, envelope.MetaInexact) || strings.HasPrefix(w, envelope.MetaAsked)
	})
	return result, &is
}

// placed returns the response with the pointers of its violations adapted to the arguments that the client sent.
func (d *Definition) placed(r *envelope.Response) *envelope.Response {
	if !d.loose || r.Error == nil || len(r.Error.Details.Violations) == 0 {
		return r
	}
	e, is := *r.Error, *r
	e.Details.Violations = slices.Clone(e.Details.Violations)
	for i, v := range e.Details.Violations {
		if below, ok := strings.CutPrefix(v.Pointer, asInput); ok {
			e.Details.Violations[i].Pointer = asInput + "/" + input + below
		}
	}
	is.Error = &e
	return &is
}

// refused returns the result of a call that the gateway does not make because its arguments break the schema.
func refused(wrong []jsonschema.Violation, protocol string) sdk.Result {
	e := envelope.NewError(envelope.CodeSchema, "").WithViolations(wrong...)
	r := envelope.Failure("", e, envelope.Provenance{Final: true}, envelope.Metrics{})
	meta := metaOf(r, nil)
	delete(meta, envelope.MetaCallID) // no call was made
	return &reply{
		ResultBase: sdk.ResultBase{Meta: meta}, isError: true, content: []jsontext.Value{block(inWords(r, ""))},
		modern: protocol >= modern,
	}
}

// complete is a result in protocols with tasks, which have the member resultType.
type complete struct {
	sdk.ResultBase
	ResultType        string        `json:"resultType"`
	Content           []sdk.Content `json:"content"`
	StructuredContent any           `json:"structuredContent,omitempty"`
	IsError           bool          `json:"isError,omitempty"`
}

// shown returns a result in the form of a protocol.
func shown(res *sdk.CallToolResult, protocol string) sdk.Result {
	if res.Content == nil {
		res.Content = []sdk.Content{}
	}
	if protocol < modern {
		return res
	}
	return &complete{
		sdk.ResultBase{Meta: res.Meta}, resultComplete, res.Content, res.StructuredContent, res.IsError,
	}
}

// textOf returns an output as text for a model: a string as it is, any other value as JSON.
func textOf(output jsontext.Value) string {
	var text string
	if output.Kind() == '"' && json.Unmarshal(output, &text) == nil {
		return text
	}
	return string(output)
}

// metaOf returns the _meta of a response. names are the members that identify the call.
func metaOf(r *envelope.Response, names sdk.Meta) sdk.Meta {
	m := sdk.Meta{
		envelope.MetaCallID: r.CallID, envelope.MetaOutcome: string(r.Status),
	}
	maps.Copy(m, names)
	switch p := r.Provenance; {
	case !p.Final:
		m[envelope.MetaFinal] = false
	case p.Attempt == 0: // refused: the call is not in the log
		delete(m, envelope.MetaRef)
	}
	if p := r.Provenance; p.AuditEventID != "" {
		m[envelope.MetaAuditEventID] = p.AuditEventID
	}
	if r.Provenance.Attempt > 0 {
		m[envelope.MetaAttempt], m[envelope.MetaToolVersion] = r.Provenance.Attempt, r.Provenance.ToolVersion
	}
	if len(r.Warnings) > 0 {
		m[envelope.MetaWarnings] = r.Warnings
	}
	if len(r.SideEffects) > 0 {
		m[envelope.MetaSideEffects] = r.SideEffects
	}
	if e := r.Error; e != nil {
		m[envelope.MetaCode] = string(e.Code)
		if e.Details.Effect != "" {
			m[envelope.MetaEffect] = string(e.Details.Effect)
		}
		if e.Details.RetryAfterMS > 0 {
			m[envelope.MetaRetryAfterMS] = e.Details.RetryAfterMS
		}
	}
	return m
}

// JSON pointers of the input and the key in a request on the bus.
const (
	asInput = "/input"
	asKey   = "/constraints/idempotency_key"
)

// metaKey is the place of the key in a request of a client.
const metaKey = "_meta " + envelope.MetaIdempotencyKey

// placeOf returns the name of a place in the arguments for a model.
func placeOf(pointer string) string {
	switch inner, ok := strings.CutPrefix(pointer, asInput); {
	case ok && inner == "":
		return "arguments"
	case ok && inner[0] == '/':
		return "arguments" + inner
	case pointer == "":
		return "the request"
	case pointer == asKey:
		return metaKey
	}
	return pointer
}
