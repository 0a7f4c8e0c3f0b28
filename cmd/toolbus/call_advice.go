package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
)

// adviceTime is how long a command asks the bus about a call that has ended.
const adviceTime = time.Second

// largerTimeout is the advice in a fix for a call that had too little time.
const largerTimeout = "a larger timeout_ms"

// nameTimeout lets a fix that advises a larger timeout_ms name the flag instead, with the longest time that the tool
// gives if a dispatcher says it soon. Role is that of the call, or "".
func nameTimeout(ctx context.Context, g *global, c *toolbus.Client, role string, r *envelope.Response) {
	e := r.Error
	if g.json || e == nil || !strings.Contains(e.Fix, largerTimeout) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, adviceTime)
	defer cancel()
	longest := time.Duration(0)
	if r.Provenance.Final { // otherwise no dispatcher answered
		t, err := c.DescribeTool(ctx, envelope.DescribeRequest{Tool: r.Provenance.ToolID, RoleID: role})
		if err == nil {
			longest = time.Duration(t.TimeoutMaxMS) * time.Millisecond
		}
	}
	had := time.Duration(r.Metrics.QueueMS+r.Metrics.DurationMS) * time.Millisecond
	e.WithFix(withTimeout(e.Fix, had, longest))
}

// withTimeout returns the fix for a call that had some time, of a tool that gives the longest time, which is 0 if it is
// not known. It advises no call that had nearly the longest time to take more: connecting took the rest.
func withTimeout(fix string, had, longest time.Duration) string {
	flag := "a longer --timeout"
	switch {
	case longest > 0 && had >= longest*9/10:
		return strings.Replace(fix, ", and with "+largerTimeout,
			fmt.Sprintf("; the tool gives no call more than %s, the timeout_ms_max of its manifest", longest), 1)
	case longest > 0:
		flag += fmt.Sprintf(", at most %s, the timeout_ms_max of the tool", longest)
	}
	return strings.Replace(fix, largerTimeout, flag, 1)
}

// sayWhyAgain prints why the last of several attempts was made. all holds the attempts that were accepted.
func sayWhyAgain(ctx context.Context, g *global, c *toolbus.Client, all []envelope.Accepted) {
	if g.json || len(all) < 2 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, adviceTime)
	defer cancel()
	before, last := all[len(all)-2], all[len(all)-1]
	a, err := c.State(ctx, envelope.CallRef{Ref: before.Ref, CallID: before.CallID})
	if err == nil && a.Response != nil && a.Response.Error != nil {
		e := a.Response.Error
		fmt.Fprintf(g.env.stderr, "attempt %d was made because attempt %d ended with %s: %s (--attempts 1 makes one only)\n",
			last.Attempt, before.Attempt, e.Code, e.Message)
	}
}
