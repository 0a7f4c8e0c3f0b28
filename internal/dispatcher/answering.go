package dispatcher

import (
	"context"
	"fmt"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Answer passes the answer to a question of a running call to the executor that runs it. It refuses all but the actor
// that opened the attempt. The executor knows the question by its id, and ignores unknown ones. So a second answer has
// no effect, and neither has one to a question that is closed.
func (d *Dispatcher) Answer(
	ctx context.Context, from call.Sender, q envelope.AnswerRequest,
) (none struct{}, _ *envelope.Error) {
	if len(q.Result) > envelope.MaxOpenAnswer {
		return none, envelope.NewError(envelope.CodeLimit,
			fmt.Sprintf("an answer is at most %d bytes", envelope.MaxOpenAnswer))
	}
	last, a, refusal := d.attempt(ctx, subjects.OpAnswer, from, envelope.CallRef{Ref: q.Ref})
	if refusal != nil {
		return none, refusal
	}
	s := last.State
	if subjects.Token(a.Owner.Actor) != from.Actor || !a.Open() {
		return none, envelope.NewError(envelope.CodeInputState, "")
	}
	by, runs := "", a.Claim != nil
	if runs {
		by = a.Claim.By
	} else {
		by, _, runs = d.Control.Locate(ctx, s.Pool, s.ID, a.N)
	}
	if !runs {
		return none, envelope.NewError(envelope.CodeInputState, "no executor runs the call now")
	}
	if err := d.Control.Answer(by, q.Question, call.Answer{ID: s.ID, Attempt: a.N, Result: q.Result}); err != nil {
		return none, envelope.NewError(envelope.CodeInputState, "").WithCause(err.Error())
	}
	return none, nil
}
