package client

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// largerTimeout is the advice in a fix for a call that had too little time.
const largerTimeout = "a larger timeout_ms"

// nameLimit changes a fix of r that advises a larger timeout. It names the deadline of the context instead, if that was
// the limit, and longest, the most time that the tool gives a call; 0 if it is not known. It leaves the fix of a call
// that had nearly that time.
func (p *pendingCall) nameLimit(r *envelope.Response, deadline time.Time, longest time.Duration) {
	had := deadline.Sub(p.started)
	if !strings.Contains(r.Error.Fix, largerTimeout) {
		return
	}
	if longest > 0 && had >= longest*9/10 {
		return
	}
	longer := largerTimeout
	if p.within > 0 && had >= p.within {
		longer = "a later deadline of ctx"
	}
	if longest > 0 {
		longer += fmt.Sprintf(", at most %s, the timeout_ms_max of the tool", timer.Text(longest))
	}
	r.Error.WithFix(strings.Replace(r.Error.Fix, largerTimeout, longer, 1))
}
