package mcp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/mcpmeta"
	"github.com/seed-018f16cc/toolbus/schema"
)

// result returns an outcome as MCP has it: an error only where the fault is the peer's, and not one that a model can
// do something about.
func (d *Definition) result(r *envelope.Response, names sdk.Meta, protocol string) (*sdk.CallToolResult, error) {
	meta := metaOf(r, names)
	if r.Status == envelope.Success {
		res, err := d.success(r.Output, protocol)
		if err == nil {
			res.Meta = merged(res.Meta, meta)
		}
		return res, err
	}
	if code := codeOf(r.Error); code != 0 {
		return nil, failure(code, r.Error)
	}
	text := inWords(d.placed(r))
	return &sdk.CallToolResult{Meta: meta, IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
}

// placed returns a response whose violations are where the client has what is wrong.
func (d *Definition) placed(r *envelope.Response) *envelope.Response {
	if !d.loose || len(r.Error.Details.Violations) == 0 {
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

// refused is the result of a call that is not sent, since its arguments break the schema that the client was shown.
func refused(wrong []schema.Violation, protocol string) sdk.Result {
	e := envelope.NewError(envelope.CodeSchema, "").WithViolations(wrong...)
	r := envelope.Failure("", e, envelope.Provenance{Final: true}, envelope.Metrics{})
	meta := metaOf(r, nil)
	delete(meta, mcpmeta.CallID) // there is no call
	text := &sdk.TextContent{Text: inWords(r)}
	return shown(&sdk.CallToolResult{Meta: meta, IsError: true, Content: []sdk.Content{text}}, protocol)
}

// complete is a result of the protocols that tell one from a task.
type complete struct {
	sdk.ResultBase
	ResultType        string        `json:"resultType"`
	Content           []sdk.Content `json:"content"`
	StructuredContent any           `json:"structuredContent,omitempty"`
	IsError           bool          `json:"isError,omitempty"`
}

// shown is a result as a protocol has it.
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

// success returns an output, structured and as text; or the result that it is.
func (d *Definition) success(output jsontext.Value, protocol string) (*sdk.CallToolResult, error) {
	if d.results {
		res := &sdk.CallToolResult{}
		if err := json.Unmarshal(output, res); err != nil {
			return nil, internal("the output is no result of MCP: %v", err)
		}
		return res, nil
	}
	res := &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: textOf(output)}}}
	switch {
	case len(output) == 0:
	case d.wrapped && protocol < modern:
		res.StructuredContent = map[string]jsontext.Value{memberWrapped: output}
	default:
		res.StructuredContent = json.RawMessage(output)
	}
	return res, nil
}

// textOf is an output as a model reads it: a text as it is, anything else as JSON.
func textOf(output jsontext.Value) string {
	var text string
	if output.Kind() == '"' && json.Unmarshal(output, &text) == nil {
		return text
	}
	return string(output)
}

func merged(a, b sdk.Meta) sdk.Meta {
	for name, value := range a {
		if _, ours := b[name]; !ours {
			b[name] = value
		}
	}
	return b
}

// metaOf is what is said of an outcome beside it; names are those of the call.
func metaOf(r *envelope.Response, names sdk.Meta) sdk.Meta {
	m := sdk.Meta{
		mcpmeta.CallID: r.CallID, mcpmeta.Outcome: string(r.Status),
	}
	maps.Copy(m, names)
	switch p := r.Provenance; {
	case !p.Final:
		m[mcpmeta.Final] = false
	case p.Attempt == 0: // it was refused, and is not in the log
		delete(m, mcpmeta.Ref)
	}
	if p := r.Provenance; p.AuditEventID != "" {
		m[mcpmeta.AuditEventID] = p.AuditEventID
	}
	if r.Provenance.Attempt > 0 {
		m[mcpmeta.Attempt], m[mcpmeta.ToolVersion] = r.Provenance.Attempt, r.Provenance.ToolVersion
	}
	if len(r.Warnings) > 0 {
		m[mcpmeta.Warnings] = r.Warnings
	}
	if len(r.SideEffects) > 0 {
		m[mcpmeta.SideEffects] = r.SideEffects
	}
	if e := r.Error; e != nil {
		m[mcpmeta.Code] = string(e.Code)
		if e.Details.Effect != "" {
			m[mcpmeta.Effect] = string(e.Details.Effect)
		}
		if e.Details.RetryAfterMS > 0 {
			m[mcpmeta.RetryAfterMS] = e.Details.RetryAfterMS
		}
	}
	return m
}

// inWords says to a model what went wrong, whether anything was done, and what to do about it.
func inWords(r *envelope.Response) string {
	e, w := r.Error, &strings.Builder{}
	fmt.Fprintf(w, "%s (%s)", strings.TrimSuffix(e.Message, "."), e.Code)
	if e.Cause != "" {
		fmt.Fprintf(w, ": %s", e.Cause)
	}
	w.WriteString(".\n")
	for _, v := range e.Details.Violations {
		fmt.Fprintf(w, "- %s: %s\n", placeOf(v.Pointer), v.Message)
	}
	switch e.Details.Effect {
	case envelope.EffectNone:
		w.WriteString("Nothing was done.\n")
	case envelope.EffectApplied:
		w.WriteString("What it does has been done: do not do it again.\n")
	default:
		w.WriteString("Whether it was done is not known: find out before you do it again.\n")
	}
	switch {
	case e.Code == envelope.CodeSchema:
		w.WriteString("What to do: correct these places.\n")
	case e.Fix != "":
		fmt.Fprintf(w, "What to do: %s.\n", strings.TrimSuffix(e.Fix, "."))
	}
	w.WriteString(again(r))
	return strings.TrimSuffix(w.String(), "\n")
}

// again says to a model whether to try again.
func again(r *envelope.Response) string {
	e, after := r.Error, ""
	if e.Retryable && e.Details.RetryAfterMS > 0 {
		after = " after " + (time.Duration(e.Details.RetryAfterMS) * time.Millisecond).String()
	}
	switch p := r.Provenance; {
	case !p.Final && p.Attempt == 0 && e.Details.Effect == envelope.EffectNone:
		return fmt.Sprintf("It was turned away for now: try again%s, with the same idempotency key if there is one.\n", after)
	case !p.Final:
		return "The call may still go on: whoever asks again with the same idempotency key finds it.\n"
	case after != "":
		return fmt.Sprintf("It may succeed if tried again%s.\n", after)
	case !e.Retryable && r.Status == envelope.TerminalError:
		return "The same call would end the same way.\n"
	}
	return ""
}

// asInput is where the input is in a request of the bus, as a JSON pointer.
const asInput = "/input"

// placeOf names a place in the arguments as a model knows them.
func placeOf(pointer string) string {
	switch inner, ok := strings.CutPrefix(pointer, asInput); {
	case ok && inner == "":
		return "arguments"
	case ok && inner[0] == '/':
		return "arguments" + inner
	case pointer == "":
		return "the request"
	}
	return pointer
}
