package admin

import (
	"context"
	"iter"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
)

// StartRun starts a run, with a new id if r has none. It is pinned to the policy in force.
func (c *Client) StartRun(ctx context.Context, r envelope.RunStartRequest) (envelope.RunResponse, error) {
	a, err := c.own.StartRun(ctx, r)
	return a, refused(err)
}

// ChangeRun pauses, resumes or closes a run. Within 1 s, dispatchers decide its calls by the new state. Calls that were
// admitted go on.
func (c *Client) ChangeRun(ctx context.Context, r envelope.RunChangeRequest) (envelope.RunResponse, error) {
	a, err := c.own.ChangeRun(ctx, r)
	return a, refused(err)
}

// RepinRun pins a run to the policy in force, after a push has stopped it.
func (c *Client) RepinRun(ctx context.Context, r envelope.RunRequest) (envelope.RunResponse, error) {
	a, err := c.own.RepinRun(ctx, r)
	return a, refused(err)
}

// Run returns the record of a run, and its segments as far as they are in the audit record, oldest first.
func (c *Client) Run(ctx context.Context, r envelope.RunRequest) (envelope.Run, []envelope.RunSegment, error) {
	run, err := c.own.Run(ctx, r)
	if err != nil {
		return run, nil, refused(err)
	}
	from, err := c.own.Archive(ctx)
	if err != nil {
		return run, nil, refused(err)
	}
	segments, err := reader.RunSegments(ctx, from, run.Tenant, run.ID)
	return run, segments, refused(err)
}

// Runs yields the runs that r selects, the one changed longest ago first. After an error it ends.
func (c *Client) Runs(ctx context.Context, r envelope.RunListRequest) iter.Seq2[envelope.Run, error] {
	return func(yield func(envelope.Run, error) bool) {
		for run, err := range c.own.Runs(ctx, r) {
			if !yield(run, refused(err)) {
				return
			}
		}
	}
}
