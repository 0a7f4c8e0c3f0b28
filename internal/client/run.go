package client

import (
	"context"
	"iter"

	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// StartRun starts a run, with a new id if q has none.
func (c *Client) StartRun(ctx context.Context, q envelope.RunStartRequest) (envelope.RunResponse, error) {
	if q.ID == "" {
		q.ID = uuid.NewString()
	}
	return answer[envelope.RunResponse](ctx, c, subjects.OpRunStart, q)
}

// ChangeRun pauses, resumes or closes a run.
func (c *Client) ChangeRun(ctx context.Context, q envelope.RunChangeRequest) (envelope.RunResponse, error) {
	return answer[envelope.RunResponse](ctx, c, subjects.OpRunChange, q)
}

// RepinRun pins a run to the policy in force. It is for operators, as are the functions below.
func (c *Client) RepinRun(ctx context.Context, q envelope.RunRequest) (envelope.RunResponse, error) {
	return answer[envelope.RunResponse](ctx, c, subjects.OpRunRepin, q)
}

// Run returns the record of a run.
func (c *Client) Run(ctx context.Context, q envelope.RunRequest) (envelope.Run, error) {
	a, err := answer[envelope.RunResponse](ctx, c, subjects.OpRunShow, q)
	return a.Run, err
}

// Runs yields the runs that q selects. After an error it ends.
func (c *Client) Runs(ctx context.Context, q envelope.RunListRequest) iter.Seq2[envelope.Run, error] {
	return func(yield func(envelope.Run, error) bool) {
		for {
			page, err := answer[envelope.RunListResponse](ctx, c, subjects.OpRunList, q)
			if err != nil {
				yield(envelope.Run{}, err)
				return
			}
			for _, r := range page.Runs {
				if !yield(r, nil) {
					return
				}
			}
			if q.After = page.Next; page.Next == 0 {
				return
			}
		}
	}
}

// RunsPinnedTo returns the ids, by tenant, of the active runs that are pinned to a policy and no implicit ones. A push
// of another policy stops them.
func (c *Client) RunsPinnedTo(ctx context.Context, v envelope.PolicyVersions) (all []envelope.Run, err error) {
	for r, err := range c.Runs(ctx, envelope.RunListRequest{State: runActive}) {
		if err != nil {
			return nil, err
		}
		if r.Policies == v {
			all = append(all, r)
		}
	}
	return all, nil
}

const runActive = "active" // a state of runs
