package client

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/client/catalogue"
	"github.com/seed-018f16cc/toolbus/internal/client/exchange"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// retry makes the call again until it has an outcome that may not be retried, or the deadline leaves no time. r is the
// outcome of the first attempt. It returns nil if an attempt gets no answer.
func (p *pendingCall) retry(r *envelope.Response) (*envelope.Response, error) {
	for n := 1; r.Status != envelope.Success; n++ {
		p.learnTime(r)
		pause, more := p.again(n, r)
		if !more || time.Until(p.Deadline) <= pause || !timer.Sleep(p.Context(), pause) {
			break
		}
		left := time.Until(p.Deadline).Milliseconds()
		if left < 1 {
			break
		}
		req := *p.req
		req.CallID, req.Constraints.TimeoutMS = freshID(), left
		req.Constraints.DeadlineUnixMS = p.client.BusTime().UnixMilli() + left
		next, err := p.attempt(&req)
		if next == nil && errors.Is(err, context.DeadlineExceeded) && p.Cancelled() == nil {
			break
		}
		if err != nil || next == nil {
			return nil, err
		}
		r = next
	}
	return r, nil
}

// learnTime asks a dispatcher for bus time if r refuses the call because of its deadline, which has not passed here.
// Then the clock of the server was set, and this client would send every call too late until it asks again.
func (p *pendingCall) learnTime(r *envelope.Response) {
	if left := time.Until(p.Deadline); r.Error.Code == envelope.CodeTimeout && r.Provenance.Attempt == 0 && left > 0 {
		_, _ = p.client.Fetch(p.Context(), p.call.key(), min(catalogue.MaxWait, left)) // the next call asks again
	}
}

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

// again returns whether there is an attempt after the n-th one, which had the outcome r, and the pause before it. It
// fetches the description of the tool again if another build than the described one has run.
func (p *pendingCall) again(n int, r *envelope.Response) (time.Duration, bool) {
	if !p.mayRetry(n, r) || isTooLate(r, time.Until(p.Deadline)) || !p.isKnownBuild(r) || !mayRunAgain(p.fn, r) {
		return 0, false
	}
	return backoff(policyOf(p.call), n, r), true
}

// mayRetry reports whether the library may make the call again after the n-th attempt, which had the outcome r, as far
// as that is known without a request to a dispatcher.
func (p *pendingCall) mayRetry(n int, r *envelope.Response) bool {
	policy := policyOf(p.call)
	return n < policy.MaxAttempts && isRetryable(r, policy) && (mayRunAgain(p.fn, r) || isOtherBuild(p.fn, r))
}

// isTooLate reports whether less time is left than the attempt with the outcome r ran until its deadline. A tool ends
// some time before the deadline of the call. A further attempt in the rest would only hide its standard error.
func isTooLate(r *envelope.Response, left time.Duration) bool {
	return r.Error.Code == envelope.CodeTimeout && r.Provenance.Attempt > 0 && left.Milliseconds() < r.Metrics.DurationMS
}

// isRetryable reports whether the library makes the call again by itself after r. It does so after a retryable outcome
// or a refusal that another dispatcher may contradict. It does not after a cancel, or while the call goes on.
func isRetryable(r *envelope.Response, p envelope.RetryPolicy) bool {
	if r.Status != envelope.RetryableError || !r.Error.Code.AutoRetry() ||
		!r.Provenance.Final && !exchange.IsProvisionalRefusal(r) {
		return false
	}
	return len(p.RetryableErrors) == 0 || slices.Contains(p.RetryableErrors, string(r.Error.Code))
}

// mayRunAgain reports whether the library may make a call of fn with the outcome r again by itself: fn is pure or
// idempotent, or no executor started the call. It returns false if the class of fn is not known.
func mayRunAgain(fn *catalogue.Function, r *envelope.Response) bool {
	return r.Provenance.NotStarted || fn != nil && !isOtherBuild(fn, r) && fn.Class.MayRunAgain()
}

// isOtherBuild reports whether another build of the tool than the one that fn describes made the outcome r.
func isOtherBuild(fn *catalogue.Function, r *envelope.Response) bool {
	return fn != nil && r.Provenance.Digest != "" && r.Provenance.Digest != fn.Digest
}

// isKnownBuild reports whether the class of the build that made r is known, or does not matter. It asks a dispatcher
// for the description of that build if p has another one.
func (p *pendingCall) isKnownBuild(r *envelope.Response) bool {
	if r.Provenance.NotStarted || !isOtherBuild(p.fn, r) {
		return true
	}
	t, err := p.client.Fetch(p.Context(), p.call.key(), min(catalogue.MaxWait, time.Until(p.Deadline)))
	if err != nil || t == nil {
		return false
	}
	fn, refusal := t.Function(p.req.Fn)
	if refusal != nil || isOtherBuild(fn, r) {
		return false
	}
	p.fn = fn
	return true
}

// backoff returns the pause after the n-th attempt. It is base_ms after the first one, and grows by backoff_multiplier
// up to cap_ms. The jitter of the policy shortens or extends it. It is never shorter than retry_after_ms of the
// answer.
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
