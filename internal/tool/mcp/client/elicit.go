package client

import (
	"context"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxLeft is the number of unanswered requests of which a router keeps the callers.
const maxLeft = 1000

// refusedQuestion is the answer to a question that no caller gets. The SDK gives the same one if elicitation is not
// offered.
var refusedQuestion = &jsonrpc.Error{
	Code: jsonrpc.CodeInvalidParams, Message: "client does not support elicitation",
}

// leave records a request that is given up without an answer. The server may still work on it, and ask. Callers hold
// r.mu.
func (r *pendingRequests) leave(f *flight) {
	if len(r.left) == maxLeft {
		r.crowded = true
		return
	}
	r.left[f.id] = f.caller
}

// asker returns the only request from which a question of the server can come, or nil. A server does not say to which
// request a question belongs. So no other request may be open, and those of other callers must be answered.
func (r *pendingRequests) asker() *flight {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.tokens) != 1 || r.crowded {
		return nil
	}
	for _, f := range r.tokens {
		for _, caller := range r.left {
			if caller != f.caller {
				return nil
			}
		}
		if f.elicit != nil {
			return f
		}
	}
	return nil
}

// elicit answers elicitation/create. The SDK checks the answer against the schema of the question.
func (r *pendingRequests) elicit(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	f := r.asker()
	if f == nil || req.Params.URL != "" { // URLs are not offered
		return nil, refusedQuestion
	}
	params, err := json.Marshal(req.Params)
	if err != nil {
		return nil, refusedQuestion
	}
	answer, err := f.elicit(jsontext.Value(params))
	if err != nil {
		return nil, refusedQuestion
	}
	var result mcp.ElicitResult
	if err := json.Unmarshal(answer, &result); err != nil {
		return nil, refusedQuestion
	}
	switch result.Action {
	case "accept", "decline", "cancel":
		return &result, nil
	}
	return nil, refusedQuestion
}
