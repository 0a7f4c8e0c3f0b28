package main

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

// printRecords prints records, and returns their number. ofCall is the call that they were selected by, if they were.
func printRecords(
	g *global, to io.Writer, records iter.Seq2[reader.Line, error], ofCall string,
) (n int, err error) {
	table := auditTable{
		to: to, zone: g.zone(time.Now()), tenant: cmp.Or(g.tenant, toolbus.DefaultTenant), ofCall: ofCall,
	}
	for l, err := range records {
		switch {
		case err != nil:
			return n, err
		case g.json:
			err = printStored(to, &l)
		default:
			err = table.row(&l.Record)
		}
		if err != nil {
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

// printStored prints a record as stored, on one line. Another writer may have stored it with line breaks.
func printStored(to io.Writer, r *reader.Line) error {
	if strings.ContainsAny(r.Text, "\r\n") {
		return cli.WriteJSONLine(to, r.Record)
	}
	_, err := fmt.Fprintln(to, cli.EscapeJSON(r.Text))
	return err
}
