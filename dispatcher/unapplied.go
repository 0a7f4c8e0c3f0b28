package dispatcher

import (
	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/settle"
)

// draft is what a deadline or a cancel knows of the response to attempt n: what its request asks for in vain, where
// that request is the last event of the log, and so at hand. The executor knows it always.
func draft(last call.Entry, n int) settle.Draft {
	a, ok := last.State.Attempt(n)
	if !ok || last.Kind != call.Requested || last.Attempt != n {
		return settle.Draft{}
	}
	body, err := call.DecodeRequestBody(last.Body)
	if err != nil {
		return settle.Draft{}
	}
	req := new(envelope.Request)
	if err := json.Unmarshal(body.Request, req); err != nil { // a warning less: the deadline does not wait for it
		return settle.Draft{}
	}
	return settle.Draft{}.Unapplied(req, a)
}
