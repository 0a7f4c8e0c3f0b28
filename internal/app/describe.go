package app

import (
	"context"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// describe describes the tools that the sender may know. A tool that it may not know is answered as one that does not
// exist.
func (d *dispatcherParts) describe(ctx context.Context, q envelope.DescribeRequest) (
	answer envelope.DescribeResponse, _ *envelope.Error) {
	all := d.options.Tools
	shown, refusal := d.dispatcher.Checks.Listing(ctx, q)
	if refusal != nil {
		return answer, refusal
	}
	answer.Tools, answer.More = all.DescribeSome(q, shown.Shows)
	withheld(d.dispatcher, all, answer.Tools)
	for i, t := range answer.Tools {
		m, _ := all.Get(t.ToolID, "")
		if m == nil {
			continue
		}
		answer.Tools[i].Unrunnable = d.findings.Unrunnable(m.Pool, m.ToolID)
		if m.Listed != nil && m.Listed.Methods {
			answer.Tools[i].ListsChanged = d.findings.Announced(m.Listed.Server.Name)
		}
	}
	for i := range answer.Tools {
		shown.Restrict(&answer.Tools[i])
	}
	answer.NowUnixMS, answer.SilentMS = d.Clock.Now().UnixMilli(), d.Log.UnackedFor().Milliseconds()
	answer.Policies = shown.Versions
	if q.Tool == "" {
		answer.Waiting = waiting(d.dispatcher, all, shown)
		if shown.All() {
			answer.Offered = d.findings.Offered()
		}
	}
	return answer, nil
}

// waiting returns the number of waiting calls of each pool that has a tool which is shown.
func waiting(d *dispatcher.Dispatcher, all *tool.Set, shown check.Listing) map[string]int {
	waits, some := d.Deadlines.Waiting(), map[string]int{}
	if shown.All() {
		return waits
	}
	for _, m := range all.List() {
		if n := waits[m.Pool]; n > 0 && shown.Shows(m) {
			some[m.Pool] = n
		}
	}
	return some
}

// withheld marks the tools whose changed definition waits for approval, for all executors or for some.
func withheld(d *dispatcher.Dispatcher, all *tool.Set, tools []envelope.ToolInfo) {
	for i, t := range tools {
		if m, _ := all.Get(t.ToolID, ""); m != nil {
			tools[i].Changed, tools[i].Differs = d.Checks.Changed(m)
		}
	}
}
