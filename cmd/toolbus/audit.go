package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/audit"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/record"
)

func auditCmd(g *global) *cobra.Command {
	cmd := family(&cobra.Command{Use: "audit", Short: "Read the audit record", GroupID: "operate"})
	f := &auditFlags{}
	replay := &cobra.Command{
		Use: "replay", Short: "Replay the audit record, filtered", Args: cli.NoArgs,
		Long: `Prints the records that fit, oldest first; with --follow those that were there and then all that come, in
the order in which they come on record. Times are UTC. A call is shown by the beginning of its call id, which
--call takes; --json shows all of a record, with the reference of its call. Nothing is printed where no record fits. The
exit code is 1 when the record was behind the calls, so that some may be missing.`,
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
		Use: "tail", Short: "Follow the audit record from now on", Args: cli.NoArgs,
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
	fl.StringVar(&f.call, "call", "", "only this call: its reference, its call id, or its first 8 characters or more")
	fl.StringVar(&f.event, "event", "", "only this event, for example tool_denied")
	completeFlag(cmd, "event", values(audit.Events()))
	completeFlag(cmd, "tool", g.completeTools(1))
}

// filter is what the flags say at a point in bus time.
func (f *auditFlags) filter(g *global, now time.Time) (record.Filter, error) {
	since, err := pointInTime(f.since, now)
	if err != nil {
		return record.Filter{}, err
	}
	until, err := pointInTime(f.until, now)
	if err != nil {
		return record.Filter{}, err
	}
	if f.event != "" && !slices.Contains(audit.Events(), audit.Event(f.event)) {
		return record.Filter{}, usagef("there is no event %q; the events are %v", f.event, audit.Events())
	}
	filter := record.Filter{
		Since: since, Until: until, Tool: f.tool, Actor: f.actor, Call: f.call, Event: audit.Event(f.event),
		FromNow: f.fromNow, Follow: f.follow,
	}
	if g.given("tenant") {
		filter.Tenant = g.tenant
	}
	switch {
	case !since.IsZero() && !until.IsZero() && until.Before(since):
		return record.Filter{}, usagef("--until %s is before --since %s", f.until, f.since)
	case !g.given("actor"):
	case f.actor != "" && f.actor != g.actor:
		return record.Filter{}, usagef("--actor and --for-actor name two actors: one is enough")
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
	guest, err := g.connect(ctx)
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
	if filter.Follow {
		_, err := printRecords(g, guest.Audit(ctx, filter))
		return err
	}
	behind := upToDate(ctx, g, guest)
	if behind != nil && !errors.Is(behind, errBehind) {
		return behind
	}
	n, err := printRecords(g, audit.InTimeOrder(guest.Audit(ctx, filter)))
	if err == nil && n == 0 && !g.json {
		fmt.Fprintln(g.env.stderr, "no record fits")
	}
	return cmp.Or(err, behind)
}

// printRecords prints records and returns how many there were.
func printRecords(g *global, records iter.Seq2[audit.Record, error]) (n int, err error) {
	for r, err := range records {
		if err != nil {
			return n, err
		}
		if n == 0 && !g.json {
			err := printRow(g.env.stdout, "TIME", "EVENT", "TOOL", "ATT", "CALL", "OUTCOME", "EFFECT", "TENANT", "")
			if err != nil {
				return n, err
			}
		}
		if err := printRecord(g, r); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// errBehind says that what is printed may lack its end.
var errBehind = errors.New("the record is behind the calls, so the newest may be missing; is a dispatcher running? " +
	"`toolbus doctor` looks")

// upToDate waits until the record has caught up with the call log, so that a call that has just
// ended is in it.
func upToDate(ctx context.Context, g *global, guest *toolbus.Conn) error {
	waiting, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	err := record.Await(waiting, guest.JS)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return errBehind
	}
	return err
}

// catchUp bounds the wait for the record.
const catchUp = 5 * time.Second

// auditRow fits into 120 columns, with the longest codes there are.
const auditRow = "%-23s  %-14s  %-16s  %-3v  %-8s  %-20s  %-7s  %s  %s"

func printRow(w io.Writer, cells ...any) error {
	_, err := fmt.Fprintln(w, strings.TrimRight(plain(fmt.Sprintf(auditRow, cells...)), " "))
	return err
}

// shownID is how much of a call id is shown in a row, and is enough for [record.Filter].
const shownID = 8

func printRecord(g *global, r audit.Record) error {
	if g.json {
		return printLine(g.env.stdout, r)
	}
	dry := ""
	if r.DryRun {
		dry = "dry run"
	}
	if r.Count != nil {
		dry = r.Count.String()
	}
	outcome := cmp.Or(string(r.Code), string(r.Status), "-")
	return printRow(g.env.stdout, r.Timestamp.UTC().Format("2006-01-02 15:04:05.000"), r.Event, r.ToolName,
		r.Attempt, r.CallID[:min(len(r.CallID), shownID)], outcome, cmp.Or(string(r.Effect), "-"), unusual(r.Tenant), dry)
}
