package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

func auditCmd(g *global) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use: "audit", Short: "Read the audit log", GroupID: "operate",
		Long:    `Prints the records of the audit log. "toolbus doctor --scrub" verifies its hash chain.`,
		Example: "  toolbus audit replay --since 1h\n  toolbus audit tail",
	})
	f := &auditFlags{}
	replay := &cobra.Command{
		Use: "replay", Short: "Print audit records", Args: cli.NoArgs,
		Long: `Prints the records that match all flags, ordered by time; with --follow then new records as they are
written. A row has 80 columns. The header names the year and the time zone: the local one on a terminal, otherwise UTC.
ACTOR sent the request, ABOUT is its tool, run, lock, credential or revision of the policy. CALL/ACT has the first 8
characters of the call id, which --call takes, or the state of an operation: intended before it acts, and then done.
Below the row stand names that are longer than their cell, the error and the effect, the reason, and of a refusal the
step of the gateway contract and the check that refused the request (docs/life-of-a-call.md). With --call also stands
there the reference of the call, which "why" and "result" take. --json prints records as they are stored.

--policy finds what a policy decided. A revision stands for its three digests, so it also finds the calls under another
revision with the same set, such as after a rollback: --since and --until tell them apart. To look a revision up needs
an operator's token; an auditor gives a digest.

A record of form 3 with the event tool_allowed is shown as tool_joined or tool_replayed, whichever it means; --event
finds it under both names.

The exit code is 1 if the audit log is behind the calls, so that records may be missing.`,
		Example: `  toolbus audit replay --since 1h --tool fs.write
  toolbus audit replay --call <reference or call id> --json
  toolbus audit replay --status terminal_error --last 20
  toolbus audit replay --policy 16 --event tool_executed
  toolbus audit replay --event tool_denied --follow`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.replay(cmd.Context(), g) },
	}
	f.flags(g, replay)
	replay.Flags().StringVar(&f.since, "since", "",
		"start at this `TIME`: RFC 3339, or a duration before now, such as 1h or 7d")
	replay.Flags().BoolVarP(&f.Follow, "follow", "f", false,
		"then print new records as they are written")
	t := &auditFlags{Filter: reader.Filter{FromNow: true, Follow: true}}
	tail := &cobra.Command{
		Use: "tail", Short: "Print new audit records as they are written, until Ctrl-C", Args: cli.NoArgs,
		Example: `  toolbus audit tail --tool fs.write --last 10
  toolbus audit tail --tenant acme --json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return t.replay(cmd.Context(), g) },
	}
	t.flags(g, tail)
	cmd.AddCommand(replay, tail)
	return cmd
}

type auditFlags struct {
	reader.Filter       // without its times and its tenant
	since, until        string
	event, status, code string
	policy              string
	scope               []string
	last                int
	lastGiven           func() bool
}

func (f *auditFlags) flags(g *global, cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.until, "until", "",
		"end at this `TIME`: RFC 3339, or a duration before now, such as 30m")
	fl.StringVar(&f.Tool, "tool", "",
		"only this `TOOL`")
	fl.StringVar(&f.Call, "call", "",
		"only this `CALL`: its reference, its call id, or the first 8 characters or more of that")
	fl.StringVar(&f.Run, "run", "",
		"only calls of the run with this `ID` (context.run_id)")
	fl.StringVar(&f.Role, "role", "",
		"only calls in the role with this `ID` (context.role_id)")
	fl.StringVar(&f.Lane, "lane", "",
		"only calls in the lane with this `ID` (context.lane_id)")
	fl.StringArrayVar(&f.scope, "scope", nil,
		"only calls whose lane or tool requires the scope key, with this value: `KEY=VALUE`; more than one: all of them")
	fl.StringVar(&f.policy, "policy", "",
		"only what this `POLICY` decided: its revision, or 8 characters or more of a digest, as in \"policy history\"")
	fl.StringVar(&f.event, "event", "",
		"only this `EVENT`, for example tool_denied")
	fl.StringVar(&f.status, "status", "",
		"only records with this `STATUS`, for example terminal_error")
	fl.StringVar(&f.code, "code", "",
		"only records with this error `CODE`, or of this class, for example R-TIMEOUT-001 or R-TIMEOUT")
	fl.IntVar(&f.last, "last", 0,
		"only the newest `N` records that match; tail prints them first")
	completeFlag(cmd, "event", values(audit.Events()))
	completeFlag(cmd, "status", values(envelope.Statuses()))
	completeFlag(cmd, "code", values(codes()))
	completeFlag(cmd, "tool", g.completeTools(1))
	completeFlag(cmd, "call", g.completeRefs(g.asker, true))
	completeFlag(cmd, "role", g.completeListed(math.MaxInt, ofPolicy(roleNames)))
	completeFlag(cmd, "policy", g.completeRevisions(math.MaxInt))
	g.completePolicy(cmd)
	f.lastGiven = func() bool { return fl.Changed("last") }
}

func codes() (all []envelope.Code) {
	for _, row := range envelope.Codes() {
		all = append(all, row.Code)
	}
	return all
}

// filter returns the filter of the flags. now is the bus time.
func (f *auditFlags) filter(g *global, now time.Time) (filter reader.Filter, err error) {
	filter = f.Filter
	filter.Event, filter.Status, filter.Code = audit.Event(f.event), envelope.Status(f.status), envelope.Code(f.code)
	filter.Last = f.last
	if filter.Scope, err = scopeKeys(f.scope); err != nil {
		return filter, err
	}
	if filter.Since, err = pointInTime(f.since, now); err != nil {
		return filter, err
	}
	if filter.Until, err = pointInTime(f.until, now); err != nil {
		return filter, err
	}
	if g.given("tenant") {
		filter.Tenant = g.tenant
	}
	switch {
	case !filter.Since.IsZero() && !filter.Until.IsZero() && filter.Until.Before(filter.Since):
		return filter, usagef("--until %s is before --since %s: exchange them", f.until, f.since)
	case f.Call != "" && len(f.Call) < shownID:
		return filter, usagef("--call %s: give the reference, the call id, or %d characters or more of it", f.Call, shownID)
	case f.lastGiven() && f.last < 1:
		return filter, usagef("--last is %d: use 1 or more", f.last)
	case g.given("actor"):
		filter.Actor = g.actor
	}
	if err := filter.Check(); err != nil {
		return filter, usagef("%v", err)
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
	if number, ok := strings.CutSuffix(s, "d"); ok {
		if days, err := strconv.ParseUint(number, 10, 16); err == nil {
			return now.Add(-time.Duration(days) * 24 * time.Hour), nil
		}
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, usagef("%q is not a time: use RFC 3339 (2026-11-20T15:04:05Z) or a duration before now (90m, 7d)", s)
	}
	return t, nil
}

func (f *auditFlags) replay(ctx context.Context, g *global) error {
	if _, err := f.filter(g, time.Time{}); err != nil { // check the flags before the request for the bus time
		return err
	}
	if err := f.selectPolicy(ctx, g); err != nil {
		return err
	}
	return g.reading(ctx, func(from reader.Source) error { return f.print(ctx, g, from) })
}

// selectPolicy sets the digests of the filter. Those of a revision are in the history.
func (f *auditFlags) selectPolicy(ctx context.Context, g *global) error {
	revision, err := strconv.ParseUint(f.policy, 10, 64)
	switch {
	case f.policy == "":
		return nil
	case err == nil && len(f.policy) < shortestDigest:
		return g.operating(ctx, func(c *admin.Client) error {
			v, err := c.PolicyRevision(ctx, revision)
			f.Policy = v.Versions.All()
			return err
		})
	case len(f.policy) < shortestDigest || strings.Trim(f.policy, "0123456789abcdef") != "":
		return usagef("--policy %s: give a revision, or %d characters or more of a digest, as \"policy history\" prints them",
			f.policy, shortestDigest)
	}
	f.Policy = []string{f.policy}
	return nil
}

// shortestDigest is the number of characters from which on --policy is the beginning of a digest, not a revision.
const shortestDigest = 8

// print prints the records that the flags select.
func (f *auditFlags) print(ctx context.Context, g *global, from reader.Source) error {
	now, err := from.Now(ctx)
	if err != nil {
		return err
	}
	filter, err := f.filter(g, now)
	if err != nil {
		return err
	}
	lines := reader.Lines(ctx, from, filter)
	if filter.Follow {
		_, err := printRecords(g, g.env.stdout, lines, f.Call)
		return err
	}
	behind := upToDate(ctx, from)
	if behind != nil && !errors.Is(behind, errBehind) {
		return behind
	}
	out := bufio.NewWriterSize(g.env.stdout, auditBuffer)
	n, err := printRecords(g, out, lines, f.Call)
	err = cmp.Or(out.Flush(), err)
	if err == nil && n == 0 && !g.json {
		fmt.Fprintln(g.env.stderr, "no record matches")
	}
	return cmp.Or(err, behind)
}

// auditBuffer is the size of one write to standard output, in bytes.
const auditBuffer = 64 << 10

// errBehind means that the newest records may be missing from the output.
var errBehind = errors.New("the audit log is behind the calls: the newest records may be missing. " +
	"Check with `toolbus doctor` that a dispatcher runs, and try again")

// upToDate waits until the audit record has caught up with the call log, so that it contains a call that has just
// ended.
func upToDate(ctx context.Context, from reader.Source) error {
	waiting, cancel := context.WithTimeout(ctx, catchUp)
	defer cancel()
	err := from.WaitRecorded(waiting)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return errBehind
	}
	return err
}

// catchUp limits the wait of upToDate.
const catchUp = 5 * time.Second
