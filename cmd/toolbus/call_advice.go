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

// nameTimeout lets a fix that advises a larger timeout_ms name the flag instead, with the longest time that the tool
// gives if a dispatcher says it soon. Role is that of the call, or "".
func nameTimeout(ctx context.Context, g *global, c *toolbus.Client, role string, r *envelope.Response) {
	const member = "a larger timeout_ms"
	e := r.Error
	if g.json || e == nil || !strings.Contains(e.Fix, member) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, adviceTime)
	defer cancel()
	flag := "a longer --timeout"
	t, err := c.DescribeTool(ctx, envelope.DescribeRequest{Tool: r.Provenance.ToolID, RoleID: role})
	if err == nil && t.TimeoutMaxMS > 0 {
		longest := time.Duration(t.TimeoutMaxMS) * time.Millisecond
		flag += fmt.Sprintf(", at most %s, the timeout_ms_max of the tool", longest)
	}
	e.WithFix(strings.Replace(e.Fix, member, flag, 1))
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
