package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

// A row of the audit table fits into 80 columns. A text that is longer than its cell is cut there, and follows in full
// below the row, with the details that have no cell.
const (
	auditRow    = "%-14s %-19s %-16s %-19s %s"
	actorCell   = 16
	aboutCell   = 19
	detailCells = 80 - detailAt
	detailAt    = 15 // column of the details: that of the event
)

// shownID is the number of characters of a call id in a row. [reader.Filter] accepts a prefix of this length.
const shownID = 8

// auditTable prints records as a table.
type auditTable struct {
	to     io.Writer
	zone   *time.Location
	tenant string // records of this tenant do not name it
	year   int    // in the last header
	ofCall string // names the call that records were selected by; else rows have no references
}

// row prints a record, below a header if it is the first one or the first one of a year.
func (t *auditTable) row(r *audit.Record) error {
	at := r.Timestamp.In(t.zone)
	if at.Year() != t.year {
		t.year = at.Year()
		if err := t.line(fmt.Sprintf("%d %s", t.year, t.zone), "EVENT", "ACTOR", "ABOUT", "CALL/ACT"); err != nil {
			return err
		}
	}
	who, what := strings.TrimPrefix(actorOf(r), t.tenant+"/"), aboutOf(r)
	err := t.line(at.Format("01-02 15:04:05"), r.Meaning(), orDash(cut(who, actorCell)), orDash(cut(what, aboutCell)),
		callOrAct(r))
	details := detailsOf(r)
	if cut(what, aboutCell) != what {
		details = append(details, "about "+what)
	}
	if cut(who, actorCell) != who {
		details = append(details, "by "+who)
	}
	if t.ofCall != "" && r.Ref != t.ofCall && r.Ref != "" {
		details = append(details, "reference "+r.Ref)
	}
	if r.Tenant != t.tenant {
		details = append(details, "tenant "+r.Tenant)
	}
	for _, line := range cli.Wrapped(cli.EscapeCell(strings.Join(details, ", ")), detailCells) {
		if err == nil {
			_, err = fmt.Fprintf(t.to, "%*s%s\n", detailAt, "", line)
		}
	}
	return err
}

func (t *auditTable) line(cells ...any) error {
	_, err := fmt.Fprintln(t.to, strings.TrimRight(cli.EscapeCell(fmt.Sprintf(auditRow, cells...)), " "))
	return err
}

// actorOf returns the name of the sender of the request that r is about, after its tenant if r is of another one.
func actorOf(r *audit.Record) string {
	by := ""
	switch {
	case r.Credential != nil: // the record itself names the actor of the credential
		by = r.Credential.By
	case r.Replay != nil: // the record itself names the actor of the new call
		by = r.Replay.By
	}
	return cmp.Or(strings.TrimPrefix(by, r.Tenant+"/"), r.Actor)
}

// aboutOf returns the name of the tool, the run, the lock, the revision or the credential that r is about.
func aboutOf(r *audit.Record) string {
	switch {
	case r.LockedBy() != "":
		return r.ToolName
	case r.Push != nil && r.Push.Revision > 0:
		return fmt.Sprintf("revision %d", r.Push.Revision)
	case r.Push != nil:
		return "the policy"
	case r.Run != nil:
		return strings.TrimSpace("run " + r.RunID)
	case r.Lock != nil && r.Lock.Target == "lane":
		return "lane " + r.LaneID
	case r.Lock != nil && r.Lock.Target == "all":
		return "all calls"
	case r.Credential != nil && r.Event == audit.KeyRotated:
		return "key " + r.Credential.KeyID
	case r.Credential != nil && r.Credential.Role == "" && r.Credential.Family != "":
		return "family " + r.Credential.Family // revoked without being listed: the record has no owner
	case r.Credential != nil:
		return r.Actor
	case r.Restored != nil:
		return r.Restored.Entry
	case r.Replay != nil:
		return fmt.Sprintf("letter %d", r.Replay.Letter)
	}
	return r.ToolName
}

// callOrAct returns the beginning of the id of the call, or the state of the operation.
func callOrAct(r *audit.Record) string {
	if r.Act != nil {
		return string(r.Act.State)
	}
	return r.CallID[:min(len(r.CallID), shownID)]
}

// detailsOf returns the details of r that have no cell. A success has none but those that differ from other successes.
func detailsOf(r *audit.Record) (all []string) {
	add := func(so bool, format string, args ...any) {
		if so {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	plain := r.Event == audit.ToolExecuted && r.Status == envelope.Success
	add(!plain && cmp.Or(string(r.Code), string(r.Status)) != "", "%s", cmp.Or(string(r.Code), string(r.Status)))
	add(!plain && r.Effect != "", "effect %s", r.Effect)
	add(r.Attempt > 1, "attempt %d", r.Attempt)
	add(r.Rule != "", "step %d: %s", r.Step, r.Rule)
	add(r.Count != nil, "%s", r.Count)
	add(r.DryRun, "dry run")
	if r.Act != nil && r.Event == audit.ToolDenied {
		add(true, "%s", r.Act.Op)
	}
	return append(all, operated(r)...)
}

// operated returns the details of an operation on the policy, a run, a lock, a credential or a call.
func operated(r *audit.Record) (all []string) {
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	reason := ""
	switch {
	case r.Push != nil:
		if reason = r.Push.Reason; r.Push.Replaced > 0 {
			add("replaces revision %d", r.Push.Replaced)
		}
	case r.Run != nil:
		add("actors %s", strings.Join(r.Run.Actors, " "))
		reason = r.Run.Reason
	case r.LockedBy() != "":
		all = append(all, r.LockedBy())
	case r.Lock != nil:
		reason = r.Lock.Reason
	case r.Credential != nil:
		all = append(all, credentialDetails(r.Credential)...)
		reason = r.Credential.Reason
	case r.Restored != nil:
		add("restored, since it was %s", r.Restored.Reason)
	case r.Replay != nil:
		add("%s as %s", r.ToolName, r.Actor)
	case r.Repair != nil:
		add("%s of %s", r.Repair.Decision, r.Ref)
		reason = r.Repair.Reason
	}
	if reason != "" {
		add("reason: %s", reason)
	}
	return all
}

func credentialDetails(c *audit.Credential) (all []string) {
	for _, one := range [][2]string{
		{"role", c.Role}, {"family", c.Family}, {"pool", c.Pool}, {"roles", strings.Join(c.Roles, " ")},
	} {
		if one[1] != "" {
			all = append(all, one[0]+" "+one[1])
		}
	}
	if c.Distrust {
		all = append(all, "tokens of former keys distrusted")
	}
	return all
}

// cut returns the end of a text that is longer than a cell: names differ there more than at their beginning.
func cut(text string, cell int) string {
	if all := []rune(text); len(all) > cell {
		return "…" + string(all[len(all)-cell+1:])
	}
	return text
}
