package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// Servers of earlier protocols ask in the middle of a call. The question comes as a chunk, and the client gets it as
// elicitation/create, with the stream of its request. The gateway sends the answer to the bus as an
// envelope.AnswerRequest.

// elicits reports whether the client can be asked while the call of req runs: it has declared elicitation with forms,
// and its protocol has requests of servers.
func (a *asked) elicits(req *sdk.CallToolRequest) bool {
	fromServer := a.tool.results || a.tool.server != nil
	if !fromServer || !a.tool.streaming || a.peer.stateless || a.peer.protocol >= modern {
		return false
	}
	params := req.Session.InitializeParams()
	if params == nil || params.Capabilities == nil || params.Capabilities.Elicitation == nil {
		return false
	}
	form := params.Capabilities.Elicitation
	return form.Form != nil || form.URL == nil // an empty object means forms
}

// elicit tells the bus that the client can be asked while the call runs.
func (a *asked) elicit(req *sdk.CallToolRequest) {
	if !a.elicits(req) {
		return
	}
	if a.call.Context.MCPInput == nil {
		a.call.Context.MCPInput = &envelope.MCPInput{}
	}
	a.call.Context.MCPInput.Elicits = true
}

// questions asks a client what the server of a running call asks. At most one question is open.
type questions struct {
	ask     func(context.Context, *sdk.ElicitParams) (*sdk.ElicitResult, error)
	answer  func(id string, result jsontext.Value)
	ctx     context.Context // of the request
	running sync.WaitGroup

	// The fields below belong to the goroutine that calls take.
	id  string // of the open question
	end context.CancelCauseFunc
}

// errWithdrawn means that the server no longer waits for an answer.
var errWithdrawn = errors.New("the question is closed")

// questions returns the questions of a call. Call stop when it has ended.
func (a *asked) questions(ctx context.Context, req *sdk.CallToolRequest) *questions {
	return &questions{
		ctx: ctx, end: func(error) {}, ask: req.Session.Elicit,
		answer: func(id string, result jsontext.Value) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
			defer cancel()
			_ = a.peer.client.Answer(ctx, envelope.AnswerRequest{Ref: a.ref(), Question: id, Result: result})
			// After an error the server waits until its time is over.
		},
	}
}

// take handles a chunk with a question. It does not wait for the client.
func (q *questions) take(o *envelope.OpenQuestion) {
	if o.Params == nil {
		if o.ID == q.id {
			q.end(errWithdrawn)
		}
		return
	}
	q.end(errWithdrawn)
	ctx, end := context.WithCancelCause(q.ctx)
	q.id, q.end = o.ID, end
	q.running.Go(func() { q.put(ctx, *o) })
}

// settle is the time before a question is put. A stored question is closed by the next chunk, and then nobody is asked.
const settle = 20 * time.Millisecond

// put asks the client and passes the answer on. A client that cannot answer has no result.
func (q *questions) put(ctx context.Context, o envelope.OpenQuestion) {
	timer := time.NewTimer(settle)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), errWithdrawn) {
		return
	}
	result := q.resultOf(ctx, o.Params)
	if result == nil && errors.Is(context.Cause(ctx), errWithdrawn) {
		return
	}
	q.answer(o.ID, result)
}

// resultOf returns the result of a client, or nil if it fails or is too large.
func (q *questions) resultOf(ctx context.Context, raw jsontext.Value) jsontext.Value {
	var params sdk.ElicitParams
	if ctx.Err() != nil || json.Unmarshal(raw, &params) != nil {
		return nil
	}
	params.Meta = nil // of the server's connection
	said, err := q.ask(ctx, &params)
	if err != nil {
		return nil
	}
	result, err := json.Marshal(&sdk.ElicitResult{Action: said.Action, Content: said.Content})
	if err != nil || len(result) > envelope.MaxOpenAnswer {
		return nil
	}
	return jsontext.Value(result)
}

// stop closes the open question, and waits until the client is not asked any more.
func (q *questions) stop() {
	q.end(errWithdrawn)
	q.running.Wait()
}
