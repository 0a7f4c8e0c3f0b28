package toolbus

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/wait"
)

// attempts calls until an outcome stands that may not be retried, or the deadline leaves no room.
func (c *Client) attempts(e errand) (*envelope.Response, error) {
	policy := retries(e.call.Retry)
	if e.call.CallID != "" {
		policy.MaxAttempts = 1 // a retry is another asking
	}
	var before *envelope.Response // of the attempt before
	for n := 1; ; n++ {
		resp, err := c.once(e)
		if resp == nil && errors.Is(err, context.DeadlineExceeded) && e.ctx.Err() == nil {
			return cmp.Or(before, c.unsent(e.req, e.deadline, err)), nil
		}
		before = resp
		if err != nil || n >= policy.MaxAttempts || !retryable(resp, policy) {
			return resp, err
		}
		pause := backoff(policy, n, resp)
		if time.Until(e.deadline) <= pause || !wait.For(e.ctx, pause) {
			return resp, nil
		}
		again := *e.req
		again.CallID = uuid.NewString()
		left := time.Until(e.deadline).Milliseconds()
		if left < 1 {
			return resp, nil
		}
		again.Constraints.TimeoutMS = left
		e.req = &again
	}
}

func retries(p *envelope.RetryPolicy) envelope.RetryPolicy {
	if p == nil {
		p = &envelope.RetryPolicy{}
	}
	r := *p
	r.MaxAttempts, r.BaseMS, r.CapMS = cmp.Or(r.MaxAttempts, 3), cmp.Or(r.BaseMS, 200), cmp.Or(r.CapMS, 2000)
	r.Jitter, r.BackoffMultiplier = cmp.Or(r.Jitter, "full"), cmp.Or(r.BackoffMultiplier, 2)
	return r
}

// retryable says whether the library asks again by itself, after an outcome, or a refusal for the time being:
// never after what a cancel ended, and never after the word of a call that goes on.
func retryable(r *envelope.Response, p envelope.RetryPolicy) bool {
	if r.Status != envelope.RetryableError || !r.Provenance.Final && !turnedAway(r) || !r.Error.Code.AutoRetry() {
		return false
	}
	if len(p.RetryableErrors) == 0 {
		return true
	}
	for _, c := range p.RetryableErrors {
		if c == string(r.Error.Code) {
			return true
		}
	}
	return false
}

// backoff is how long to wait after the n-th attempt: base_ms, as many times longer after each as the
// policy says, with its jitter; never more than cap_ms, and never less than the hint of the answer.
func backoff(p envelope.RetryPolicy, n int, r *envelope.Response) time.Duration {
	longest := float64(p.CapMS)
	ms := min(longest, float64(p.BaseMS)*math.Pow(p.BackoffMultiplier, float64(n-1)))
	switch {
	case p.JitterPercent > 0:
		ms = min(longest, ms*(1+rand.Float64()*p.JitterPercent/100))
	case p.Jitter == "full":
		ms *= rand.Float64()
	}
	hint := min(r.Error.Details.RetryAfterMS, envelope.MaxRetryAfter.Milliseconds())
	return max(time.Duration(ms*float64(time.Millisecond)), time.Duration(hint)*time.Millisecond)
}
