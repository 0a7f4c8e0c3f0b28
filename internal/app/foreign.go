package app

import (
	"context"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/writer"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// foreign records events of executors that the call log does not allow, as refusals. A record names the executor and
// the tool, which the server has checked in the subject. The other facts of such an event may be invented.
type foreign struct {
	journal *writer.Journal
	events  chan call.Event
}

// maxForeign is the number of events that wait to be recorded. Further ones are not recorded.
const maxForeign = 64

func (f foreign) observe(e call.Event) {
	select {
	case f.events <- e:
	default:
	}
}

func (f foreign) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-f.events:
			// the journal logs what it cannot record, and a refusal that is not recorded has no other effect
			_, _, _ = f.journal.Denied(ctx, audit.Refusal{
				In: &call.IncomingRequest{
					From: call.Sender{Actor: "executor://" + call.Instance(e.Nonce)}, Tool: e.State.Tool,
				},
				Error: envelope.NewError(envelope.CodeForbidden, "the call log does not allow the event"),
				Step:  audit.StepIdentity, Rule: audit.RuleExecutor,
			})
		}
	}
}
