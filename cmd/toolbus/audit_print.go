package main

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

// printRecords prints records, and returns their number.
func printRecords(g *global, to io.Writer, records iter.Seq2[reader.Line, error]) (n int, err error) {
	zone := g.zone(time.Now())
	for l, err := range records {
		if err != nil {
			return n, err
		}
		if n == 0 && !g.json {
			err := printRow(to, "TIME "+zone.String(), "EVENT", "TOOL", "ATT", "CALL", "OUTCOME", "EFFECT", "TENANT  NOTE")
			if err != nil {
				return n, err
			}
		}
		if err := printRecord(g, to, zone, &l); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// zone returns the time zone for printed times: on a terminal the local one, with its offset at now, and otherwise UTC.
func (o *output) zone(now time.Time) *time.Location {
	now = now.In(cmp.Or(o.env.zone, time.UTC))
	_, offset := now.Zone()
	if !o.env.terminal || offset == 0 {
		return time.UTC
	}
	return time.FixedZone(now.Format("-07:00"), offset)
}

// auditRow fits into 120 columns, also with the longest error code. The note of a refusal of another tenant than the
// default one may exceed them.
const auditRow = "%-23s  %-14s  %-16s  %-3v  %-8s  %-20s  %-7s  %s"

func printRow(w io.Writer, cells ...any) error {
	_, err := fmt.Fprintln(w, strings.TrimRight(cli.EscapeCell(fmt.Sprintf(auditRow, cells...)), " "))
	return err
}

// shownID is the number of characters of a call id in a row. [reader.Filter] accepts a prefix of this length.
const shownID = 8

func printRecord(g *global, to io.Writer, zone *time.Location, r *reader.Line) error {
	if g.json {
		return printStored(to, r)
	}
	attempt := ""
	if r.Attempt > 0 {
		attempt = strconv.Itoa(r.Attempt)
	}
	outcome := cmp.Or(string(r.Code), string(r.Status), "-")
	return printRow(to, r.Timestamp.In(zone).Format("2006-01-02 15:04:05.000"), r.Meaning(), r.ToolName,
		attempt, r.CallID[:min(len(r.CallID), shownID)], outcome, cmp.Or(string(r.Effect), "-"),
		strings.TrimLeft(unusual(r.Tenant)+"  "+note(&r.Record), " "))
}

// note returns the last cell of a row: where a request was refused, how many refusals the record counts, whether the
// call is a dry run, the state of an operation, and the restored entry.
func note(r *audit.Record) string {
	var all []string
	if r.Rule != "" {
		all = append(all, fmt.Sprint(r.Step, " ", r.Rule))
	}
	if r.Count != nil {
		all = append(all, r.Count.String())
	}
	if r.DryRun {
		all = append(all, "dry run")
	}
	if r.Act != nil {
		all = append(all, r.Act.Op+" "+string(r.Act.State))
	}
	if r.Restored != nil {
		all = append(all, "restored "+r.Restored.Entry)
	}
	return strings.Join(all, ", ")
}

// printStored prints a record as stored, on one line. Another writer may have stored it with line breaks.
func printStored(to io.Writer, r *reader.Line) error {
	if strings.ContainsAny(r.Text, "\r\n") {
		return cli.WriteJSONLine(to, r.Record)
	}
	_, err := fmt.Fprintln(to, cli.EscapeJSON(r.Text))
	return err
}
