package client

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// LargerTimeout is the advice in a fix for a call that had too little time.
const LargerTimeout = "a larger timeout_ms"

// nameLimit lets a fix of r that advises a larger timeout name what limited the time until the deadline: the context of
// the call, its timeout, or the tool, which gives a call the time longest. That is 0 if it is not known.
func (p *pendingCall) nameLimit(r *envelope.Response, deadline time.Time, longest time.Duration) {
	if r == nil || r.Error == nil || !strings.Contains(r.Error.Fix, LargerTimeout) {
		return
	}
	longer, had := LargerTimeout, deadline.Sub(p.started)
	if p.within > 0 && had >= p.within {
		longer = "a later deadline of ctx"
	}
	r.Error.WithFix(WithLongest(r.Error.Fix, longer, had, longest))
}

// WithLongest returns the fix with another name for a larger timeout, for a call that had some time, of a tool that
// gives the time longest, which is 0 if it is not known. It advises no call that had nearly that time to take more.
func WithLongest(fix, longer string, had, longest time.Duration) string {
	switch {
	case longest > 0 && had >= longest*9/10:
		return strings.Replace(fix, ", and with "+LargerTimeout,
			fmt.Sprintf("; the tool gives no call more than %s, the timeout_ms_max of its manifest", longest), 1)
	case longest > 0:
		longer += fmt.Sprintf(", at most %s, the timeout_ms_max of the tool", longest)
	}
	return strings.Replace(fix, LargerTimeout, longer, 1)
}
