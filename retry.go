package toolbus

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/flight"
)

// policyOf is the retry policy of a call, with the defaults.
func policyOf(call Call) envelope.RetryPolicy {
	r := *cmp.Or(call.Retry, &envelope.RetryPolicy{})
	r.MaxAttempts, r.BaseMS, r.CapMS = cmp.Or(r.MaxAttempts, 3), cmp.Or(r.BaseMS, 200), cmp.Or(r.CapMS, 2000)
	r.Jitter, r.BackoffMultiplier = cmp.Or(r.Jitter, "full"), cmp.Or(r.BackoffMultiplier, 2)
	if call.CallID != "" {
		r.MaxAttempts = 1 // a retry is another asking
	}
	return r
}

// again says how long to wait after the n-th attempt before the next one, and whether there is one.
func again(call Call, n int, r *envelope.Response) (time.Duration, bool) {
	policy := policyOf(call)
	if n >= policy.MaxAttempts || !retryable(r, policy) {
		return 0, false
	}
	return backoff(policy, n, r), true
}

// retryable says whether the library asks again by itself, after an outcome, or a refusal for the time being:
// never after what a cancel ended, and never after the word of a call that goes on.
func retryable(r *envelope.Response, p envelope.RetryPolicy) bool {
	if r.Status != envelope.RetryableError || !r.Provenance.Final && !flight.TurnedAway(r) || !r.Error.Code.AutoRetry() {
		return false
	}
	return len(p.RetryableErrors) == 0 || slices.Contains(p.RetryableErrors, string(r.Error.Code))
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
