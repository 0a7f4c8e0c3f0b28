package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-018f16cc/toolbus/admin"
)

// Table prints a demo as a table that grows while the demo runs. If Terminal is true, it also shows a status line.
type Table struct {
	Out      io.Writer
	Terminal bool
}

var _ Show = (*Table)(nil)

const (
	head = "    %7s  %-24s  %-37s  %6s  %s\n"
	row  = "%s %2d %6.2fs  %-24s  %-37s  %6d  %s\n"
	note = "              %s\n"
)

// clear erases the status line.
const clear = "\r\x1b[K"

// Status implements Show.
func (t *Table) Status(text string) {
	if t.Terminal {
		fmt.Fprintf(t.Out, "%s… %s", clear, firstRunes(text, 100))
	}
}

// Line implements Show.
func (t *Table) Line(l Line) {
	t.wipe()
	if l.Number == 1 {
		fmt.Fprintf(t.Out, head, "after", "scene", "outcome", "ms", "what happened")
	}
	sign := "✓"
	if !l.OK {
		sign = "✗"
	}
	fmt.Fprintf(t.Out, row, sign, l.Number, l.After.Seconds(), l.Scene, l.Outcome, l.MS, l.Happened)
	for _, n := range l.Notes {
		for _, line := range wrap(n) {
			fmt.Fprintf(t.Out, note, line)
		}
	}
	for line := range strings.Lines(l.Fault) {
		fmt.Fprintf(t.Out, note, "✗ "+strings.TrimSpace(line))
	}
}

func (t *Table) wipe() {
	if t.Terminal {
		fmt.Fprint(t.Out, clear)
	}
}

const recordLine = "    %-12s  %-15s  %-7v  %-15s  %-10s  %-8s  %s\n"

// Trail implements Show.
func (t *Table) Trail(records []admin.AuditRecord) {
	t.wipe()
	if len(records) == 0 {
		return
	}
	fmt.Fprintf(t.Out, "\nThe audit record of scene 7, call %s:\n", records[0].CallID)
	fmt.Fprintf(t.Out, recordLine, "time (utc)", "event", "attempt", "status", "decided by", "effect", "hashes")
	for _, r := range records {
		hashes := "arguments " + firstRunes(r.ArgumentsHash, 12)
		if r.OutputHash != "" {
			hashes += ", output " + firstRunes(r.OutputHash, 12)
		}
		fmt.Fprintf(t.Out, recordLine, r.Time.Format("15:04:05.000"), r.Event, r.Attempt,
			dash(string(r.Status)), dash(r.DecidedBy), dash(string(r.Effect)), hashes)
	}
}

// Summary prints the last line of the table.
func (t *Table) Summary(r Report) {
	good := 0
	for _, l := range r.Lines {
		if l.OK {
			good++
		}
	}
	took := (time.Duration(r.MS) * time.Millisecond).Round(100 * time.Millisecond)
	fmt.Fprintf(t.Out, "\n%d of %d came out as they should, in %s.\n", good, len(r.Lines), took)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// noteWidth is the width at which notes are wrapped.
const noteWidth = 120

// wrap breaks text into lines at spaces.
func wrap(text string) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > noteWidth {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}

// firstRunes returns the first n characters of s, with "…" if s is longer.
func firstRunes(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n]) + "…"
}
