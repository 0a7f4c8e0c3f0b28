package admin

import (
	"context"
	"fmt"
	"strings"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
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

// diagnoseLogs returns the check that no log of a call is damaged. It returns nil if this user may not ask, or no
// dispatcher answers.
func diagnoseLogs(ctx context.Context, inbox *rpc.Inbox) []Check {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	a, refusal, err := operation.Repairs.Ask(ctx, inbox, struct{}{})
	if refusal != nil || err != nil {
		return nil
	}
	var open []string
	for _, c := range a.Calls {
		if c.Decision == "" {
			open = append(open, fmt.Sprintf("%s of tenant %s", c.Ref, c.Tenant))
		}
	}
	if len(open) == 0 {
		return []Check{envelope.Well("damaged logs", fmt.Sprintf("decided about: %d, open: 0", len(a.Calls)))}
	}
	says := fmt.Sprintf("the logs of %d calls have lost events at rest, and requests for them are refused: %s", len(open),
		strings.Join(open[:min(len(open), maxDifferences)], ", "))
	if len(open) > maxDifferences {
		says += " …"
	}
	return []Check{envelope.Failed("damaged logs", says,
		"see `toolbus repair list`, and docs/operations.md, \"A damaged call log\"; replace the disk")}
}
