package executor

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// answer returns what raw, the member mcp_input of the request, has for the server of the tool. If the request answers
// a question, the state of the server comes from the outcome of the call that asked: the client has only the reference
// of that call. So it cannot change the state, and the answer is refused unless caller, tool, function and input are
// the same. With responses alone the server gets no state. The error is a faultError.
func (r *run) answer(ctx context.Context, raw jsontext.Value) (in tool.MCPInput, err error) {
	var given envelope.MCPInput
	if err := json.Unmarshal(raw, &given); err != nil { // a dispatcher of a build that does not know it lets it pass
		return in, faultError{envelope.NewError(envelope.CodeInputState, "").WithCause(err.Error())}
	}
	in = tool.MCPInput{Responses: given.Responses, Capabilities: given.Capabilities}
	if given.Elicits && r.Question != nil {
		in.Caller = &tool.Caller{Name: r.job.state.Tenant + " " + r.job.current().Owner.Actor, Ask: r.job.question}
	}
	if given.State == "" { // the server may ask without a state, and clients may answer before they are asked
		return in, nil
	}
	question, err := r.question(ctx, given.State)
	if err != nil {
		return in, err
	}
	in.ServerState = question.ServerState
	return in, nil
}

// question returns the question of the call with the reference ref, if this call may answer it.
func (r *run) question(ctx context.Context, ref string) (envelope.InputQuestion, error) {
	none, mine := envelope.InputQuestion{}, r.job.state
	refused := faultError{envelope.NewError(envelope.CodeInputState, "")}
	key, err := subjects.ParseRef(ref)
	if err != nil || (subjects.Key{Tool: mine.Tool, ID: key.ID}).Ref() != ref {
		return none, refused
	}
	last, err := r.CallLog.Read(ctx, mine.Tool, key.ID)
	if err != nil {
		return none, unread(err)
	}
	if !r.job.mayAnswer(last.State) {
		return none, refused
	}
	stored, err := outcome.Load(ctx, r.CallLog, last.State, last.State.Last().N)
	if err != nil {
		return none, unread(err)
	}
	question, ok := stored.Response.Error.Question()
	if !ok {
		return none, refused
	}
	return question, nil
}

// mayAnswer reports whether this call may answer a question of the call with the log asked.
func (j *job) mayAnswer(asked call.State) bool {
	if asked.Empty() {
		return false
	}
	mine, last := j.state, asked.Last()
	return asked.Tenant == mine.Tenant && last.Owner.Actor == j.current().Owner.Actor &&
		asked.Fn == mine.Fn && asked.ArgsHash == mine.ArgsHash && asked.DryRun == mine.DryRun &&
		last.Decision != nil && last.Decision.Code == envelope.CodeInputRequired
}

// unread is the error for a question that could not be read. The tool was not started, and the call may be repeated.
func unread(err error) error {
	return faultError{envelope.NewError(envelope.CodeUnavailable, "the question that the call answers could not be read").
		WithCause(err.Error())}
}
