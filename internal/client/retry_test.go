package client

import (
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// A pause lies within what the policy says, and is never shorter than the hint.
func TestBackoff(t *testing.T) {
	failed := func(hint int64) *envelope.Response {
		return &envelope.Response{Error: &envelope.Error{Details: envelope.Details{RetryAfterMS: hint}}}
	}
	for name, test := range map[string]struct {
		policy      *envelope.RetryPolicy
		n           int
		hint        int64
		least, most time.Duration
	}{
		"default":         {nil, 1, 0, 0, 200 * time.Millisecond},
		"default, capped": {nil, 9, 0, 0, 2 * time.Second},
		"none":            {&envelope.RetryPolicy{Jitter: "none"}, 3, 0, 800 * time.Millisecond, 800 * time.Millisecond},
		"multiplier": {&envelope.RetryPolicy{Jitter: "none", BackoffMultiplier: 1.5}, 3, 0, 450 * time.Millisecond,
			450 * time.Millisecond},
		"percent": {&envelope.RetryPolicy{BaseMS: 100, CapMS: 5000, JitterPercent: 20}, 2, 0, 200 * time.Millisecond,
			240 * time.Millisecond},
		"percent, capped": {&envelope.RetryPolicy{BaseMS: 100, CapMS: 150, JitterPercent: 20}, 2, 0, 150 * time.Millisecond,
			150 * time.Millisecond},
		"many attempts": {&envelope.RetryPolicy{Jitter: "none", BackoffMultiplier: 100}, 1000, 0, 2 * time.Second,
			2 * time.Second},
		"hint":        {nil, 1, 3000, 3 * time.Second, 3 * time.Second},
		"absurd hint": {nil, 1, 1 << 53, time.Hour, 1<<63 - 1},
	} {
		for range 100 {
			if pause := backoff(policyOf(Call{Retry: test.policy}), test.n, failed(test.hint)); pause < test.least ||
				pause > test.most {
				t.Errorf("%s: %s, want %s to %s", name, pause, test.least, test.most)
			}
		}
	}
}

// What was turned away is asked again like what has failed; what was only said of a call that goes on is not.
func TestRetryable(t *testing.T) {
	for name, c := range map[string]struct {
		code envelope.Code
		p    envelope.Provenance
		want bool
	}{
		"an outcome":                  {envelope.CodeUpstream, envelope.Provenance{Attempt: 1, Final: true}, true},
		"a refusal for now":           {envelope.CodeAuditLag, envelope.Provenance{}, true},
		"a refusal that stands":       {envelope.CodeToolDisabled, envelope.Provenance{Final: true}, false},
		"an output that was not read": {envelope.CodePayloadMissing, envelope.Provenance{}, false},
		"an input that was missing":   {envelope.CodeInputMissing, envelope.Provenance{}, true},
		"cancelled":                   {envelope.CodeCancelled, envelope.Provenance{Attempt: 1, Final: true}, false},
		"a fault of the bus":          {envelope.CodeInternal, envelope.Provenance{}, false},
		"the call goes on":            {envelope.CodeTimeout, envelope.Provenance{Attempt: 1}, false},
	} {
		r := envelope.Failure("", envelope.NewError(c.code, ""), c.p, envelope.Metrics{})
		if got := isRetryable(r, envelope.RetryPolicy{}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
