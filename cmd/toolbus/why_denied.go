package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

// denied is the record of a denied call as `toolbus why` prints it. The names of its members are those of the record.
type denied struct {
	Sentence string                  `json:"sentence"`
	EventID  string                  `json:"audit_event_id"`
	Time     time.Time               `json:"timestamp_utc"`
	Tenant   string                  `json:"tenant"`
	Actor    string                  `json:"actor_id"`
	RunID    string                  `json:"run_id"`
	RoleID   string                  `json:"role_id"`
	LaneID   string                  `json:"lane_id"`
	Tool     string                  `json:"tool_name"`
	CallID   string                  `json:"call_id,omitzero"`
	Step     int                     `json:"step"`
	Rule     string                  `json:"rule"`
	Code     envelope.Code           `json:"error_code"`
	Effect   envelope.Effect         `json:"effect"`
	Fix      string                  `json:"fix"`
	Policies envelope.PolicyVersions `json:"policy_versions"`
	Basis    *audit.Basis            `json:"decided_on,omitzero"`
	Count    *audit.Count            `json:"count,omitzero"`
	Lock     *audit.SafetyLock       `json:"lock,omitzero"`
}

// whyDenied prints why the call was denied whose denial has this id.
func (g *global) whyDenied(ctx context.Context, from reader.Source, id string) error {
	r, err := newestRecord(ctx, from, reader.Filter{EventID: id, Event: audit.ToolDenied})
	if no, ok := errors.AsType[envelope.Fault](err); ok && no.Fault().Code.Class() == envelope.ClassAuth {
		return toolbus.NewError(no.Fault().WithFix("do what the fix of the denied call says; for the rule that denied it, "+
			"give the id to an operator or auditor, who may read the record: toolbus why "+id), nil)
	}
	if err != nil {
		return err
	}
	if r == nil {
		return noRecord("the record has no denial " + id)
	}
	d := denied{
		Sentence: deniedSentence(r), EventID: r.EventID, Time: r.Timestamp, Tenant: r.Tenant, Actor: r.Actor,
		RunID: r.RunID, RoleID: r.RoleID, LaneID: r.LaneID, Tool: r.ToolName, CallID: r.CallID, Step: r.Step, Rule: r.Rule,
		Code: r.Code, Effect: r.Effect, Fix: fixOfRecord(r.Code), Policies: r.Policies, Basis: r.Basis,
		Count: r.Count, Lock: r.Lock,
	}
	return g.print(d, d.write)
}

// newestRecord returns the newest record that a filter selects, or nil.
func newestRecord(ctx context.Context, from reader.Source, f reader.Filter) (newest *audit.Record, err error) {
	f.Last = 1
	for r, err := range reader.Replay(ctx, from, f) {
		if err != nil {
			return nil, err
		}
		newest = &r
	}
	return newest, nil
}

func noRecord(says string) error {
	return toolbus.NewError(envelope.NewError(envelope.CodeNotFound, says).
		WithFix("give the record that `toolbus call` names, in JSON provenance.audit_event_id; "+
			"records are kept for a limited time, see docs/limits.md"), nil)
}

// fixOfRecord returns the fix of a code for the reader of a record, which has no violations.
func fixOfRecord(code envelope.Code) string {
	fix := envelope.Lookup(code).Fix
	if strings.HasSuffix(fix, "details.violations") {
		fix += " of the answer to the call; the record has only the hash of the input"
	}
	return fix
}

// shortened cuts a digest as `toolbus policy history` does; --json prints it whole.
func shortened(digest string) string { return digest[:min(len(digest), shortDigest)] }

func deniedSentence(r *audit.Record) string {
	return fmt.Sprintf("%s may not call %s: step %d of the gateway contract denies it by %s (%s: %s)", r.Actor, r.ToolName,
		r.Step, cmp.Or(r.LockedBy(), r.Rule), r.Code, envelope.Lookup(r.Code).Message)
}

func (d denied) write(to io.Writer) error {
	run := d.RunID
	if d.Basis != nil && run != "" {
		run = runSays(run, d.Basis.Run)
	}
	fmt.Fprintln(to, cli.EscapeText(d.Sentence))
	w := tabwriter.NewWriter(to, 0, 4, 2, ' ', 0)
	for _, line := range [][2]string{
		{"time", d.Time.UTC().Format(time.RFC3339Nano)}, {"actor", d.Tenant + "/" + d.Actor}, {"tool", d.Tool},
		{"call", d.CallID}, {"role", d.RoleID}, {"lane", d.LaneID}, {"run", run}, {"effect", string(d.Effect)},
		{"step", fmt.Sprint(d.Step)}, {"rule", d.Rule}, {"code", string(d.Code)}, {"roles", shortened(d.Policies.Roles)},
		{"lanes", shortened(d.Policies.Lanes)}, {"tool registry", shortened(d.Policies.ToolRegistry)},
	} {
		fmt.Fprintf(w, "  %s\t%s\n", line[0], orDash(cli.EscapeCell(line[1])))
	}
	if d.Count != nil {
		fmt.Fprintf(w, "  counted\t%s\n", cli.EscapeCell(d.Count.String()))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(to, "  fix: %s\n", cli.EscapeText(d.Fix))
	return err
}
