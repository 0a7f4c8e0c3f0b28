package admin

import (
	"context"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/operation"
)

// Repairs returns the calls whose logs dispatchers have found damaged, oldest first, until they expire.
func (c *Client) Repairs(ctx context.Context) ([]envelope.DamagedCall, error) {
	a, err := ask(ctx, c, operation.Repairs, struct{}{})
	return a.Calls, err
}

// Repair decides about a call whose log is damaged: it may run again, or its key ends for good. Without a deadline of
// ctx it tries for 20 s. If the log is not damaged, the error has [envelope.CodeNotFound]. After any error that is no
// refusal, it is not known whether the decision was made; the same request may be sent again.
func (c *Client) Repair(ctx context.Context, r envelope.RepairRequest) (envelope.RepairsResponse, error) {
	ctx, cancel := urgently(ctx)
	defer cancel()
	a, err := ask(ctx, c, operation.Repair, r)
	return a, unsettled(err, "`toolbus repair list` lists the damaged calls")
}
