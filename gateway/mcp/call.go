package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// callTool answers tools/call.
func (s *Server) callTool(ctx context.Context, peer *sender, req *sdk.CallToolRequest) (sdk.Result, error) {
	ctx, leave, err := s.enter(ctx, peer)
	if err != nil {
		return nil, err
	}
	defer leave()
	if peer = s.reached(ctx, peer); !s.isConnected(peer) {
		return unsent(peer, req)
	}
	if req.Params.Name == nameCall {
		within, wrong, err := s.short.called(req, peer.protocol)
		if within == nil {
			return wrong, err
		}
		req = within
	}
	if req.Params.Name == nameSearch {
		return s.search(ctx, peer, req)
	}
	a, err := s.ask(ctx, peer, req)
	if wrong, ok := errors.AsType[misplaced](err); ok {
		return refused(wrong, peer.protocol), nil
	}
	if err != nil {
		return nil, err
	}
	streamed, stop := a.stream(ctx, req)
	defer stop()
	if s.becomesTask(a, req) {
		resp, later, err := s.await(ctx, a)
		if later != nil {
			return later, nil
		}
		return s.answer(ctx, a, req, resp, err, streamed)
	}
	resp, err := a.run(ctx)
	return s.answer(ctx, a, req, resp, err, streamed)
}

// enter counts a request that makes calls, and refuses it if there are too many. The context that it returns also ends
// with the connection, and with the gateway. Call leave when the request has ended.
func (s *Server) enter(ctx context.Context, peer *sender) (_ context.Context, leave func(), err error) {
	left, err := occupy(s, peer)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.open, func() { cancel(errClosed) })
	lost := func() bool { return true }
	if peer.over != nil {
		lost = context.AfterFunc(peer.over, func() { cancel(context.Cause(peer.over)) })
	}
	return ctx, func() {
		lost()
		stop()
		cancel(nil)
		left()
	}, nil
}

// occupy counts calls that are made for a client, until left is called. Until then the client of the caller stays open.
func occupy(s *Server, peer *sender) (left func(), err error) {
	select {
	case s.calls <- struct{}{}:
	default:
		return nil, &jsonrpc.Error{Code: codeUnavailable, Message: "too many calls at once: try again later"}
	}
	if peer.caller != nil && !s.callers.calling(peer.caller) {
		<-s.calls
		return nil, &jsonrpc.Error{Code: codeUnavailable, Message: "too many calls of yours at once: try again later"}
	}
	return func() {
		if peer.caller != nil {
			s.callers.called(peer.caller)
		}
		<-s.calls
	}, nil
}

// answer is a.answer, but for a tool that the caller may not know any more. Then it is the answer for a name that no
// tool has.
func (s *Server) answer(ctx context.Context, a *asked, req *sdk.CallToolRequest, resp *envelope.Response, err error,
	streamed *pieces) (sdk.Result, error) {
	if err == nil && resp.Error != nil && len(req.Params.Arguments) == 0 {
		noArguments(resp.Error)
	}
	if err != nil || resp.Error == nil || resp.Error.Code != envelope.CodeToolUnknown {
		return a.answer(ctx, resp, err, streamed)
	}
	v, err := s.catalogue.refresh(ctx, a.peer.tools)
	if err != nil {
		return nil, unlisted(err)
	}
	return nil, unknown(req.Params.Name, v, s.short.searches(v, a.peer, req.ClientInfo()))
}

// noArguments adds to the error of a refused input that the request has no arguments at all: its client may have sent
// them under another name, which the library drops.
func noArguments(e *envelope.Error) {
	inInput := func(v jsonschema.Violation) bool { return strings.HasPrefix(v.Pointer, asInput) }
	if slices.ContainsFunc(e.Details.Violations, inInput) {
		e.Details.Violations = slices.Insert(e.Details.Violations, 0, jsonschema.Violation{
			Pointer: "/params/arguments", Rule: "required", Message: "is missing",
		})
	}
}

// answer returns the result of a call for the client, or the protocol error.
func (a *asked) answer(
	ctx context.Context, resp *envelope.Response, err error, streamed *pieces,
) (sdk.Result, error) {
	if err != nil && ctx.Err() != nil {
		return nil, a.unwaited(context.Cause(ctx))
	}
	if err != nil {
		return nil, protocolError(err)
	}
	if question := a.question(resp); question != nil {
		return question, nil
	}
	res, err := a.tool.result(resp, a.names(), a.peer.protocol, a.report)
	if err != nil {
		return nil, err
	}
	if streamed != nil && !a.tool.results {
		streamed.before(res)
	}
	return res, nil
}

// unwaited returns the error for a request whose wait has ended because of cause. The client gets it if it still reads.
func (a *asked) unwaited(cause error) error {
	data, _ := json.Marshal(map[string]any{
		"effect": envelope.EffectUnknown, "fix": "ask again with the same idempotency key",
		"idempotency_key": a.call.Key, "ref": a.ref(),
	}) // never fails: the values are strings
	switch {
	case errors.Is(cause, errClosed):
		return &jsonrpc.Error{
			Code: codeUnavailable, Data: data,
			Message: "the gateway closes and the call goes on: send the request again, here or to another gateway, with this " +
				"idempotency key in _meta " + envelope.MetaIdempotencyKey + ": " + a.call.Key,
		}
	case a.lasting:
		return &jsonrpc.Error{Code: codeCancelled, Message: "the request was cancelled, and the call goes on", Data: data}
	}
	return &jsonrpc.Error{Code: codeCancelled, Message: "the request was cancelled, and the work of its call with it"}
}

// stream prepares the call of a tool that streams: progress goes to the client as notifications, if the request has a
// progress token, and the chunks of data come with the answer. Questions of the server go to the client. stop ends
// both.
func (a *asked) stream(ctx context.Context, req *sdk.CallToolRequest) (streamed *pieces, stop func()) {
	if !a.tool.streaming {
		return nil, func() {}
	}
	streamed, stop = &pieces{}, func() {}
	tell := func(envelope.Chunk) error { return nil }
	if token := req.Params.GetProgressToken(); token != nil {
		p := newProgress(func(p *sdk.ProgressNotificationParams) {
			p.ProgressToken = token
			_ = req.Session.NotifyProgress(ctx, p) // an error means that the client has gone
		})
		tell, stop = p.chunk, p.stop
	}
	questions := a.questions(ctx, req)
	a.call.OnChunk = func(c envelope.Chunk) error {
		if q := envelope.QuestionOf(c); q != nil {
			questions.take(q)
			return nil
		}
		streamed.chunk(c)
		return tell(c)
	}
	progress := stop
	return streamed, func() {
		questions.stop()
		progress()
	}
}

// asked is a call that the gateway makes for a request.
type asked struct {
	peer *sender
	tool *Definition
	call toolbus.Call
	// lasting means that the client can send the request again and get the same outcome: the call goes on if the client
	// disconnects.
	lasting bool
	report  bool           // the client wants all members of _meta in the result
	able    map[string]any // capabilities of the client, see ableTo
}

// ask returns the call for a request.
func (s *Server) ask(ctx context.Context, peer *sender, req *sdk.CallToolRequest) (*asked, error) {
	meta, err := read(req.Params.GetMeta(), peer.header)
	if err != nil {
		return nil, err
	}
	tool, err := s.catalogue.find(ctx, peer.tools, req.Params.Name)
	if err != nil {
		if isUnknown(err) {
			name := &Definition{Tool: asToolID(req.Params.Name)}
			s.asks(peer, name, meta, deniedInput(req.Params.Arguments)).recordDenied(ctx)
			v := peer.tools.last.Load() // which find has asked for
			err = unknown(req.Params.Name, v, s.short.searches(v, peer, req.ClientInfo()))
		}
		return nil, unlisted(err)
	}
	given, err := tool.given(req.Params.Arguments)
	if err != nil {
		return nil, err
	}
	a := s.asks(peer, tool, meta, given)
	if err := a.answering(req.Params.GetMeta(), req.Params.RequestState, req.Params.InputResponses); err != nil {
		return nil, err
	}
	a.elicit(req)
	switch {
	case a.call.Context.MCPInput.Answers():
		a.call.Key, a.lasting = a.answerKey(meta.key), true
	case a.call.Key == "" && !tool.keyRequired: // dispatchers refuse the call without a key
		a.call.Key = peer.asking.key(tool, given)
	}
	return a, nil
}

// asks returns the call of a function with an input and the options that the client has sent.
func (s *Server) asks(peer *sender, tool *Definition, meta said, given jsontext.Value) *asked {
	a := &asked{
		peer: peer, tool: tool, report: meta.report,
		lasting: meta.key != "" || peer.stateless && peer.asking.recognizable(),
	}
	a.call = toolbus.Call{
		Tool: tool.Tool, Function: tool.Fn, Version: meta.version, Input: given, Timeout: meta.within, Key: meta.key,
		Context: envelope.RequestContext{
			RunID: meta.run, RoleID: meta.role, LaneID: meta.lane, Scope: meta.scope,
			TraceID: meta.trace, ParentSpanID: meta.span, MCPMeta: meta.server,
		},
	}
	run, lane := peer.client.Bound()
	facts := &a.call.Context
	facts.RunID, facts.LaneID = cmp.Or(facts.RunID, run), cmp.Or(facts.LaneID, lane, s.o.Lane)
	if facts.RoleID = cmp.Or(facts.RoleID, s.o.Role); facts.Scope == nil {
		facts.Scope = s.o.Scope
	}
	return a
}

// given returns the input of the function for the arguments.
func (d *Definition) given(arguments json.RawMessage) (jsontext.Value, error) {
	if len(arguments) == 0 || string(arguments) == "null" {
		arguments = json.RawMessage("{}")
	}
	if arguments[0] != '{' {
		return nil, invalid("arguments are an object")
	}
	if !d.loose {
		return jsontext.Value(arguments), nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(arguments, &members); err != nil {
		return nil, invalid("arguments: %v", err)
	}
	if wrong := around(members); len(wrong) > 0 {
		return nil, misplaced(wrong)
	}
	return jsontext.Value(members[input]), nil
}

// misplaced holds the violations of arguments that must have the input as their only member.
type misplaced []jsonschema.Violation

// Error implements error.
func (misplaced) Error() string { return "the arguments break their schema" }

// around returns the violations of arguments that must have the member input and no other.
func around(members map[string]json.RawMessage) (wrong []jsonschema.Violation) {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if name != input {
			wrong = append(wrong, jsonschema.Violation{
				Pointer: string(jsontext.Pointer(asInput).AppendToken(name)), Rule: "additionalProperties",
				Message: "is not allowed here",
			})
		}
	}
	if members[input] == nil {
		wrong = append(wrong, jsonschema.Violation{Pointer: asInput + "/" + input, Rule: "required", Message: "is missing"})
	}
	return wrong
}

// run makes the call and returns its outcome. When ctx ends, it cancels a call that the client cannot ask for again,
// unless the gateway closes or the call becomes a task.
func (a *asked) run(ctx context.Context) (*envelope.Response, error) {
	resp, err := toolbus.Outcome(a.peer.client.Call(ctx, a.call))
	if err != nil && ctx.Err() != nil && !a.lasting && !leaves(context.Cause(ctx)) {
		a.cancel(ctx)
	}
	return resp, err
}

// cancelTime is the longest wait for the answer of a dispatcher to a cancel.
const cancelTime = 5 * time.Second

// cancel cancels a call that no client waits for. If no dispatcher can be reached, the call ends at its deadline.
func (a *asked) cancel(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer cancel()
	_, _ = a.peer.client.Cancel(ctx, envelope.CallRef{Ref: a.ref()})
}

// leaves reports whether a call goes on after its wait has ended because of cause.
func leaves(cause error) bool { return errors.Is(cause, errClosed) || errors.Is(cause, errLater) }

// ref returns the reference of the call.
func (a *asked) ref() string { return subjects.Key{Tool: a.tool.Tool, ID: a.id()}.Ref() }

// names returns the _meta members that identify the call: key, reference, run and lane. A call without a key is refused
// by dispatchers, and has neither key nor reference.
func (a *asked) names() sdk.Meta {
	names, facts := sdk.Meta{}, a.call.Context
	if a.call.Key != "" {
		names[envelope.MetaIdempotencyKey], names[envelope.MetaRef] = a.call.Key, a.ref()
	}
	for name, value := range map[string]string{envelope.MetaRunID: facts.RunID, envelope.MetaLaneID: facts.LaneID} {
		if value != "" {
			names[name] = value
		}
	}
	return names
}

// id returns the id of the call, the last part of ref.
func (a *asked) id() string {
	caller := a.peer.client.Options()
	return envelope.CallKeyID(caller.Tenant, &envelope.Request{
		ToolID: a.tool.Tool, Fn: a.tool.Fn, Context: envelope.RequestContext{ActorID: caller.Actor},
		Constraints: envelope.Constraints{IdempotencyKey: a.call.Key},
	})
}
