package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/audit"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/app"
)

func auditCmd(g *global) *cobra.Command {
	cmd := family(&cobra.Command{Use: "audit", Short: "Read the audit record", GroupID: "operate"})
	f := &auditFlags{}
	replay := &cobra.Command{
		Use: "replay", Short: "Replay the audit record, filtered", Args: noArgs,
		Example: `  toolbus audit replay --since 1h --tool fs.write
  toolbus audit replay --call <reference or call id> --json
  toolbus audit replay --event tool_denied --follow`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.replay(cmd.Context(), g) },
	}
	f.flags(g, replay)
	replay.Flags().StringVar(&f.since, "since", "", "from this time on: RFC 3339, or how long ago (1h)")
	replay.Flags().BoolVarP(&f.follow, "follow", "f", false, "go on with new records")
	t := &auditFlags{fromNow: true, follow: true}
	tail := &cobra.Command{
		Use: "tail", Short: "Follow the audit record from now on", Args: noArgs,
		Example: `  toolbus audit tail --tool fs.write
  toolbus audit tail --tenant acme --json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return t.replay(cmd.Context(), g) },
	}
	t.flags(g, tail)
	cmd.AddCommand(replay, tail)
	return cmd
}

type auditFlags struct {
	since, until, tool, actor, call, event string
	follow, fromNow                        bool
}

func (f *auditFlags) flags(g *global, cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.until, "until", "", "up to this time: RFC 3339, or how long ago")
	fl.StringVar(&f.tool, "tool", "", "only this tool")
	fl.StringVar(&f.actor, "for-actor", "", "only calls of this actor; --actor does the same")
	fl.StringVar(&f.call, "call", "", "only this call: its reference or call id")
	fl.StringVar(&f.event, "event", "", "only this event, for example tool_denied")
	completeWith(cmd, "event", audit.Events())
	completeTool(g, cmd, "tool")
}

// filter is what the flags say at a point in bus time.
func (f *auditFlags) filter(g *global, now time.Time) (bus.AuditFilter, error) {
	since, err := pointInTime(f.since, now)
	if err != nil {
		return bus.AuditFilter{}, err
	}
	until, err := pointInTime(f.until, now)
	if err != nil {
		return bus.AuditFilter{}, err
	}
	if f.event != "" && !slices.Contains(audit.Events(), audit.Event(f.event)) {
		return bus.AuditFilter{}, usagef("there is no event %q; the events are %v", f.event, audit.Events())
	}
	filter := bus.AuditFilter{
		Since: since, Until: until, Tool: f.tool, Actor: f.actor, Call: f.call, Event: audit.Event(f.event),
		FromNow: f.fromNow, Follow: f.follow,
	}
	if g.given("tenant") {
		filter.Tenant = g.tenant
	}
	switch {
	case !since.IsZero() && !until.IsZero() && until.Before(since):
		return bus.AuditFilter{}, usagef("--until %s is before --since %s", f.until, f.since)
	case !g.given("actor"):
	case f.actor != "" && f.actor != g.actor:
		return bus.AuditFilter{}, usagef("--actor and --for-actor name two actors: one is enough")
	default:
		filter.Actor = g.actor
	}
	return filter, nil
}

func pointInTime(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(s); err == nil {
		return now.Add(-ago), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, usagef("%q is neither a time (2026-11-20T15:04:05Z) nor how long ago (90m)", s)
	}
	return t, nil
}

func (f *auditFlags) replay(ctx context.Context, g *global) error {
	if _, err := f.filter(g, time.Time{}); err != nil { // before anybody is asked for the time
		return err
	}
	guest, err := g.visit(ctx)
	if err != nil {
		return err
	}
	defer guest.Close()
	clock, err := bus.NewClock(ctx, guest.JS, nil)
	if err != nil {
		return err
	}
	filter, err := f.filter(g, clock.Now())
	if err != nil {
		return err
	}
	if !filter.Follow {
		if err := upToDate(ctx, g, guest); err != nil {
			return err
		}
	}
	header := !g.json
	for r, err := range bus.ReplayAudit(ctx, guest.JS, filter) {
		if err != nil {
			return err
		}
		if header {
			if err := printRow(g.env.stdout, "TIME", "EVENT", "TOOL", "ATT", "STATUS", "CODE", "EFFECT", "CALL", "TENANT", ""); err != nil {
				return err
			}
			header = false
		}
		if err := printRecord(g, r); err != nil {
			return err
		}
	}
	return nil
}

// upToDate waits until the record has caught up with the call log, so that a call that has just
// ended is in it.
func upToDate(ctx context.Context, g *global, guest *app.Guest) error {
	ctx, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	err := bus.AwaitAudit(ctx, guest.JS)
	if errors.Is(err, context.DeadlineExceeded) {
		fmt.Fprintln(g.env.stderr, "toolbus: the record is behind the calls; is a dispatcher running? `toolbus doctor` looks")
		return nil
	}
	return err
}

// catchUp bounds the wait for the record.
const catchUp = 5 * time.Second

const auditRow = "%-24s  %-15s  %-18s  %-3v  %-15s  %-22s  %-7s  %-36s  %s  %s"

func printRow(w io.Writer, cells ...any) error {
	_, err := fmt.Fprintln(w, strings.TrimRight(plain(fmt.Sprintf(auditRow, cells...)), " "))
	return err
}

func printRecord(g *global, r audit.Record) error {
	if g.json {
		return printLine(g.env.stdout, r)
	}
	dry := ""
	if r.DryRun {
		dry = "dry run"
	}
	return printRow(g.env.stdout, r.Timestamp.Format("2006-01-02T15:04:05.000Z"), r.Event, r.ToolName,
		r.Attempt, dash(string(r.Status)), dash(string(r.Code)), dash(string(r.Effect)), r.CallID, unusual(r.Tenant), dry)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func doctorCmd(g *global) *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Check a deployment and say what to do about it", GroupID: "operate", Args: noArgs,
		Long:    "Looks at the server, the streams, executors, dispatchers and clocks. The exit code is 1 when a check fails.",
		Example: "  toolbus doctor\n  toolbus doctor --server nats://bus:4222 --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks := bus.Diagnose(cmd.Context(), g.url(), bus.ClientOptions{Tenant: g.tenant, Actor: g.actor})
			show := printChecks
			if g.json {
				show = func(w io.Writer, checks []bus.Check) error { return printJSON(w, checks) }
			}
			if err := show(g.env.stdout, checks); err != nil {
				return err
			}
			for _, c := range checks {
				if c.Status == bus.CheckFailed {
					return exitError(1)
				}
			}
			return nil
		},
	}
}

func printChecks(w io.Writer, checks []bus.Check) error {
	var text strings.Builder
	for _, c := range checks {
		fmt.Fprintf(&text, "%-4s  %-22s %s\n", strings.ToUpper(string(c.Status)), c.Name, plain(c.Says))
		if c.Fix != "" {
			fmt.Fprintf(&text, "%30s%s\n", "fix: ", c.Fix)
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}
