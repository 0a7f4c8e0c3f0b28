package toolbus

import (
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// Every copy of a request may meet another dispatcher. A refusal of one that another may contradict is the answer
// only where nothing was accepted, and where every copy was turned away; one that stands is at once.
func TestRefusedCopies(t *testing.T) {
	refusal := func(id string, code envelope.Code) *envelope.Response {
		return envelope.Failure("", envelope.NewError(code, ""),
			envelope.Provenance{Final: !code.Retryable(), AuditEventID: id}, envelope.Metrics{})
	}
	full, other := refusal("gate.1", envelope.CodeStoreFull), refusal("gate.2", envelope.CodeAuditLag)
	late, denied := refusal("gate.3", envelope.CodeTimeout), refusal("gate.4", envelope.CodeToolDisabled)
	unrecorded := refusal("", envelope.CodeAuditLag)
	outcome := &envelope.Response{Status: envelope.Success, Provenance: envelope.Provenance{Final: true, Attempt: 1}}
	inCount := func(n uint64) *envelope.Response {
		return &envelope.Response{Status: envelope.RetryableError,
			Provenance: envelope.Provenance{AuditEventID: "count", Counted: n}}
	}
	first, second := inCount(1), inCount(2)
	for name, c := range map[string]struct {
		accepted bool
		copies   int
		answers  []*envelope.Response
		want     *envelope.Response
	}{
		"one, turned away":        {copies: 1, answers: []*envelope.Response{full}, want: full},
		"one of two, turned away": {copies: 2, answers: []*envelope.Response{full, outcome}, want: outcome},
		"the same refusal twice":  {copies: 2, answers: []*envelope.Response{full, full, outcome}, want: outcome},
		"both, turned away":       {copies: 2, answers: []*envelope.Response{full, other}, want: other},
		"both, in one count":      {copies: 2, answers: []*envelope.Response{first, second}, want: second},
		"both, without a record": {copies: 2, answers: []*envelope.Response{unrecorded, unrecorded},
			want: unrecorded},
		"one of two, too late": {copies: 2, answers: []*envelope.Response{late, outcome}, want: outcome},
		"both, too late":       {copies: 2, answers: []*envelope.Response{late, other}, want: other},
		"one of two, denied":   {copies: 2, answers: []*envelope.Response{denied}, want: denied},
		"accepted, and a copy too late": {accepted: true, copies: 2, answers: []*envelope.Response{late, outcome},
			want: outcome},
		"accepted, and a copy is full": {accepted: true, copies: 1, answers: []*envelope.Response{full, outcome},
			want: outcome},
		"accepted, and a copy is denied": {accepted: true, copies: 2, answers: []*envelope.Response{denied, outcome},
			want: outcome},
	} {
		for range 20 { // what is there first is chosen at random
			client := &Client{resend: make(chan struct{})}
			x := &exchange{accepted: make(chan *envelope.Accepted, 1), outcome: make(chan *envelope.Response, len(c.answers))}
			if c.accepted {
				x.accepted <- &envelope.Accepted{Attempt: 1}
			}
			for _, r := range c.answers {
				x.outcome <- r
			}
			got := client.wait(t.Context(), Call{}, x, nil, nil, copies{sent: c.copies}, time.Now().Add(time.Minute))
			if got != c.want {
				t.Fatalf("%s: %+v", name, got)
			}
		}
	}
}

// Chunks that must be stored and are missing are given up well before the deadline, however short the call is.
func TestPatience(t *testing.T) {
	for timeout, want := range map[int64]time.Duration{1: 500 * time.Microsecond, 3000: 1500 * time.Millisecond,
		4000: 2 * time.Second, 60_000: 2 * time.Second} {
		req := &envelope.Request{Constraints: envelope.Constraints{TimeoutMS: timeout}}
		if got := patience(req); got != want {
			t.Errorf("in a call of %d ms: %s, want %s", timeout, got, want)
		}
	}
}
