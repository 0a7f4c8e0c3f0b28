package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

func traceCmd(g *global) *cobra.Command {
	return about(&cobra.Command{
		Use: "trace REF", Short: "Show the events of a call with their times, as a waterfall",
		Long: `Shows what the log has of a call: requests, joins, claims, runs and outcomes of all its attempts. REF is the
reference that "call" printed to standard error. TIME is since the first request. Dots are the time in the queue, and
= that of a run, whose stored chunks are counted by kind. x is a run whose executor was lost, until another one
continued the call, or asked the lookup of the tool; a row lookup says that this found the effect, and a row asked that
it did not. It is also a run that was open at a deadline when no dispatcher served. The first run of a pure or
idempotent call has no claim: if its executor is lost, the time is shown as queued, and the claim of the next run says
so. A row fits into 80 columns. An agent may ask about its own calls, an operator about all calls of its tenant. The
log keeps a call as long as its outcome (limits.retention_s).

Exit codes: 0 shown, also if the call is open; 11 the bus refused, with the reason.`,
		Example: "  toolbus trace text_2esearch.0kd3…  # the reference that `call` printed\n" +
			"  toolbus trace text_2esearch.0kd3… --json --credentials operator.token",
	}, g.asker, g.completeRefs(g.asker, true), "`ID` of a call: only the attempt that it opened or joined",
		func(ctx context.Context, c *toolbus.Client, q envelope.CallRef) error {
			r, err := c.Trace(ctx, q)
			if err != nil {
				return err
			}
			return g.print(r, func(w io.Writer) error { return newWaterfall(w, &r).write() })
		})
}

// Columns of a waterfall. A row is TIME, attempt, EVENT, WHO and a bar, 79 columns in all.
const (
	traceRow    = "%9s %3s %-9s %-28s %s"
	traceWho    = 28
	traceBar    = 26
	traceDetail = 14 // column of the details below a row: that of the event
)

// waterfall prints the events of a call.
type waterfall struct {
	to    io.Writer
	trace *envelope.TraceResponse
	start time.Time
	total time.Duration // from the start to the last event, or to now if the call is open
}

func newWaterfall(to io.Writer, r *envelope.TraceResponse) *waterfall {
	w := &waterfall{to: to, trace: r, total: 1}
	for i, e := range r.Events {
		if i == 0 {
			w.start = e.At
		}
		w.total = max(w.total, w.end(e).Sub(w.start))
	}
	if w.open() {
		w.total = max(w.total, r.Now.Sub(w.start))
	}
	return w
}

// open reports whether the last attempt has no outcome.
func (w *waterfall) open() bool {
	n := len(w.trace.Events)
	return n > 0 && w.trace.Events[n-1].Kind != envelope.TraceOutcome
}

// end returns when the bar of an event ends: that of a request when the attempt leaves the queue, at its deadline at
// the latest.
func (w *waterfall) end(e envelope.TraceEvent) time.Time {
	switch {
	case e.Running:
		return w.trace.Now
	case e.Kind == envelope.TraceRun:
		return e.At.Add(time.Duration(e.DurationMS) * time.Millisecond)
	case e.Kind != envelope.TraceRequested:
		return e.At
	}
	until := w.trace.Now
	for _, next := range w.trace.Events {
		if next.Attempt == e.Attempt && next.Kind != envelope.TraceRequested && next.Kind != envelope.TraceJoined {
			until = next.At
			break
		}
	}
	if until.After(e.Deadline) { // decided late: no executor takes the call from the queue any more
		return e.Deadline
	}
	return until
}

func (w *waterfall) write() error {
	r := w.trace
	about := fmt.Sprintf("%s %s (%s) of tenant %s in pool %s, requested %s, ref %s", r.Tool, r.Version,
		envelope.NameToCall(r.Fn), r.Tenant, r.Pool, w.start.Format("2006-01-02T15:04:05.000Z"), r.Ref)
	for _, line := range cli.Wrapped(cli.EscapeCell(about), 80) {
		if _, err := fmt.Fprintln(w.to, line); err != nil {
			return err
		}
	}
	scale := "0" + fmt.Sprintf("%*s", traceBar-1, brief(w.total))
	if err := w.line("TIME", "ATT", "EVENT", "WHO", scale); err != nil {
		return err
	}
	for _, e := range r.Events {
		if err := w.row(e); err != nil {
			return err
		}
	}
	if !w.open() {
		return nil
	}
	_, err := fmt.Fprintf(w.to, "no outcome yet, after %s\n", brief(r.Now.Sub(w.start)))
	return err
}

func (w *waterfall) line(cells ...any) error {
	_, err := fmt.Fprintln(w.to, strings.TrimRight(cli.EscapeCell(fmt.Sprintf(traceRow, cells...)), " "))
	return err
}

func (w *waterfall) row(e envelope.TraceEvent) error {
	e.By = strings.TrimPrefix(e.By, w.trace.Pool+"/") // the pool is in the first line
	who, details := w.describe(e)
	if cut(who, traceWho) != who {
		details = append(details, "by "+who)
	}
	err := w.line(brief(e.At.Sub(w.start)), fmt.Sprint(e.Attempt), string(e.Kind), cut(who, traceWho), w.bar(e))
	for _, line := range factLines(details, 80-traceDetail) {
		if err == nil {
			_, err = fmt.Fprintf(w.to, "%*s%s\n", traceDetail, "", line)
		}
	}
	return err
}

// factLines joins facts with commas to lines of a width. It breaks a line within a fact only if that is longer than a
// line.
func factLines(facts []string, width int) (lines []string) {
	for i, fact := range facts {
		if fact = cli.EscapeCell(fact); i < len(facts)-1 {
			fact += ","
		}
		if n := len(lines); n > 0 && utf8.RuneCountInString(lines[n-1]+" "+fact) <= width {
			fact, lines = lines[n-1]+" "+fact, lines[:n-1]
		}
		lines = append(lines, cli.Wrapped(fact, width)...)
	}
	return lines
}

// describe returns who caused an event, and what no column has.
func (w *waterfall) describe(e envelope.TraceEvent) (who string, details []string) {
	switch e.Kind {
	case envelope.TraceRequested:
		details = []string{"dispatcher " + e.By, string(cmp.Or(e.Priority, envelope.PriorityNormal)) + " priority",
			"deadline after " + brief(e.Deadline.Sub(e.At))}
		if e.TraceID != "" {
			details = append(details, "trace "+e.TraceID)
		}
		return cmp.Or(e.Actor, "another actor"), details
	case envelope.TraceJoined:
		return plural(e.Joined, "request", "requests"), nil
	case envelope.TraceClaimed:
		details = []string{fmt.Sprintf("claim %d", e.Claim)}
		if e.Lost {
			details = append(details, call.RanBefore)
		}
		return e.By, details
	case envelope.TraceRun:
		return e.By, w.run(e)
	case envelope.TraceLookup:
		return e.By, []string{"effect found"}
	case envelope.TraceAsked:
		return e.By, []string{lookupAnswers[e.Answer]}
	case envelope.TraceOutcome:
		if e.Code != "" {
			details = append(details, string(e.Code))
		}
		return string(e.Status), append(details, "effect "+string(e.Effect), "decided by "+e.DecidedBy+" "+e.By)
	}
	return e.By, nil
}

// lookupAnswers says what the lookup of a tool answered that did not find the effect.
var lookupAnswers = map[string]string{
	"absent": "the lookup found no effect", "failed": "the lookup gave no answer",
}

// run returns the details of a run: how long it took, and its chunks by kind.
func (w *waterfall) run(e envelope.TraceEvent) []string {
	took := "took " + brief(w.end(e).Sub(e.At))
	switch {
	case e.Running:
		took = "runs since " + brief(w.end(e).Sub(e.At))
	case e.Lost:
		took = "its executor was lost within " + brief(w.end(e).Sub(e.At))
	}
	details := []string{took}
	more := ""
	if e.ChunksMore {
		more = " or more"
	}
	for _, kind := range []envelope.ChunkKind{envelope.ChunkData, envelope.ChunkProgress, envelope.ChunkLog} {
		if n := e.Chunks[kind]; n > 0 {
			details = append(details, fmt.Sprintf("%d%s %s", n, more, kind))
		}
	}
	return details
}

// bar returns the bar of an event on the scale of the call. An event without a duration is one character.
func (w *waterfall) bar(e envelope.TraceEvent) string {
	cell := func(t time.Time) int { return int(min(max(t.Sub(w.start), 0), w.total) * (traceBar - 1) / w.total) }
	mark := map[envelope.TraceKind]string{envelope.TraceRequested: ".", envelope.TraceRun: "="}[e.Kind]
	if e.Lost && e.Kind == envelope.TraceRun {
		mark = "x"
	}
	from, to := cell(e.At), cell(w.end(e))
	return strings.Repeat(" ", from) + strings.Repeat(cmp.Or(mark, "|"), max(to-from, 0)+1)
}

// brief returns a duration with three digits or so.
func brief(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return timer.Text(d.Round(time.Second))
}
