package admin

import (
	"context"
	"iter"

	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// StartRun starts a run, with a new id if r has none. It is pinned to the policy in force.
func (c *Client) StartRun(ctx context.Context, r envelope.RunStartRequest) (envelope.RunResponse, error) {
	if r.ID == "" {
		r.ID = uuid.NewString()
	}
	return ask(ctx, c, operation.RunStart, r)
}

// ChangeRun pauses, resumes or closes a run. Within 1 s, dispatchers decide its calls by the new state. Calls that
// were admitted go on. Without a deadline of ctx it tries for 20 s. If r expects no revision, it expects that of the
// run as an operator finds it now, so that a copy that a dispatcher carries out late undoes nothing newer; the error
// then has [envelope.CodeChanged]. After any other error that is no refusal, it is not known whether the run has
// changed.
func (c *Client) ChangeRun(ctx context.Context, r envelope.RunChangeRequest) (envelope.RunResponse, error) {
	ctx, cancel := urgently(ctx)
	defer cancel()
	if r.Expect == nil {
		now, err := ask(ctx, c, operation.RunShow, envelope.RunRequest{ID: r.ID, Tenant: r.Tenant})
		switch toolbus.CodeOf(err) {
		case "":
			if err != nil {
				return now, err
			}
			r.Expect = now.Revision
		case envelope.CodeForbidden: // an agent closes a run of its own, and a closed one stays closed
		default:
			return now, err
		}
	}
	a, err := ask(ctx, c, operation.RunChange, r)
	return a, unsettled(err, "`toolbus runs show` prints the run")
}

// RepinRun pins a run to the policy in force, after a push has stopped it.
func (c *Client) RepinRun(ctx context.Context, r envelope.RunRequest) (envelope.RunResponse, error) {
	return ask(ctx, c, operation.RunRepin, r)
}

// Run returns the record of a run, and its segments as far as they are in the audit record, oldest first.
func (c *Client) Run(ctx context.Context, r envelope.RunRequest) (envelope.Run, []envelope.RunSegment, error) {
	run, err := c.RunRecord(ctx, r)
	if err != nil {
		return run, nil, err
	}
	from, done, err := c.archive(ctx)
	if err != nil {
		return run, nil, err
	}
	defer done()
	segments, err := reader.RunSegments(ctx, from, run.Tenant, run.ID)
	return run, segments, refused(err)
}

// RunRecord returns the record of a run without its segments.
func (c *Client) RunRecord(ctx context.Context, r envelope.RunRequest) (envelope.Run, error) {
	a, err := ask(ctx, c, operation.RunShow, r)
	return a.Run, err
}

// Runs yields the runs that r selects, the one changed longest ago first. After an error it ends.
func (c *Client) Runs(ctx context.Context, r envelope.RunListRequest) iter.Seq2[envelope.Run, error] {
	return client.Pages(r, func(q *envelope.RunListRequest) ([]envelope.Run, bool, error) {
		page, err := ask(ctx, c, operation.RunList, *q)
		q.After = page.Next
		return page.Runs, page.Next != 0, err
	})
}

// RunsPinnedTo returns the active runs that are pinned to a version of the policy, without implicit ones. A push of
// another policy stops them. It reads only the digests of v.
func (c *Client) RunsPinnedTo(ctx context.Context, v PolicyVersion) (all []envelope.Run, err error) {
	for r, err := range c.Runs(ctx, envelope.RunListRequest{State: string(policy.RunActive)}) {
		if err != nil {
			return nil, err
		}
		if r.Policies == v.Versions {
			all = append(all, r)
		}
	}
	return all, nil
}
