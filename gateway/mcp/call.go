package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/question"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// asked is a call on its way.
type asked struct {
	by   *caller
	of   *Definition
	call toolbus.Call
	// lasting says that whoever asked may ask again, and is then told the same: nothing is lost when it goes away.
	lasting bool
}

// ask makes a call of a request.
func (d *Door) ask(ctx context.Context, by *caller, req *sdk.CallToolRequest) (*asked, error) {
	says, err := read(req.Params.GetMeta(), by.header)
	if err != nil {
		return nil, err
	}
	of, err := d.catalogue.find(ctx, by.client, req.Params.Name)
	if err != nil {
		return nil, protocolError(err)
	}
	given, err := of.given(req.Params.Arguments)
	if err != nil {
		return nil, err
	}
	a := &asked{by: by, of: of, lasting: says.key != "" || by.stateless && by.asking.recognizable()}
	a.call = toolbus.Call{
		Tool: of.Tool, Fn: of.Fn, Version: says.version, Input: given, Timeout: says.within, Key: says.key,
		Context: envelope.Context{RunID: says.run, LaneID: says.lane, TraceID: says.trace, ParentSpanID: says.span},
	}
	if by.guest != nil { // a token may be for one alone
		to := &a.call.Context
		to.RunID, to.LaneID = cmp.Or(to.RunID, by.guest.says.Run), cmp.Or(to.LaneID, by.guest.says.Lane)
	}
	if a.call.Key == "" {
		a.call.Key = by.asking.key(of, given)
	}
	return a, nil
}

// given returns the input that arguments are.
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
	if members[input] == nil || len(members) > 1 {
		return nil, invalid("arguments have one member, %s", input)
	}
	return jsontext.Value(members[input]), nil
}

// run makes the call and returns its outcome. When ctx ends, the call of whoever cannot ask for it again is cancelled,
// but for when the door closes.
func (a *asked) run(ctx context.Context) (*envelope.Response, error) {
	resp, err := a.by.client.Call(ctx, a.call)
	if err != nil && ctx.Err() != nil && !a.lasting && !errors.Is(context.Cause(ctx), errClosed) {
		a.cancel(ctx)
	}
	return resp, err
}

// cancelTime is how long a dispatcher is waited for that is to cancel a call.
const cancelTime = 5 * time.Second

// cancel ends the work of a call that nobody waits for any more. Where the bus cannot be told, its deadline ends it.
func (a *asked) cancel(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer cancel()
	_, _ = a.by.client.Cancel(ctx, question.Call{Ref: a.ref()})
}

// ref names the call on the bus.
func (a *asked) ref() string {
	id := envelope.CallKeyID(a.by.client.Tenant, &envelope.Request{
		ToolID: a.of.Tool, Fn: a.of.Fn, Context: envelope.Context{ActorID: a.by.client.Actor},
		Constraints: envelope.Constraints{IdempotencyKey: a.call.Key},
	})
	return subjects.Key{Tool: a.of.Tool, ID: id}.Ref()
}
