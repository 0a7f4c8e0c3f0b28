package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// shownHeight is the number of rows of a terminal whose size is not known.
const shownHeight = 24

// Escape sequences of a terminal. Frames are on its other screen, whose lines do not wrap: what was there before comes
// back.
const (
	enterScreen = "\x1b[?1049h\x1b[?7l"
	leaveScreen = "\x1b[?7h\x1b[?1049l"
	toTop       = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

// screen shows frames: in place of each other on a terminal, and otherwise below each other.
type screen struct {
	to    io.Writer
	live  bool
	lines bool // as lines of JSON
	size  func() (columns, rows int)
}

func newScreen(g *global) *screen {
	return &screen{to: g.env.stdout, live: g.env.terminal && !g.json, lines: g.json, size: g.env.size}
}

// open prepares the terminal. The returned function leaves it as it was.
func (s *screen) open() (done func()) {
	if !s.live {
		return func() {}
	}
	fmt.Fprint(s.to, enterScreen)
	return func() { fmt.Fprint(s.to, leaveScreen) }
}

// print prints a frame that no other replaces.
func (s *screen) print(f *topFrame) error {
	if s.lines {
		return cli.WriteJSONLine(s.to, f)
	}
	_, err := fmt.Fprintln(s.to, strings.Join(f.text(f.columns(), len(f.Tools), len(f.Executors)), "\n"))
	return err
}

// show shows a frame, in place of the one before if it is live.
func (s *screen) show(f *topFrame) error {
	if !s.live {
		err := s.print(f)
		if err == nil && !s.lines {
			_, err = fmt.Fprintln(s.to)
		}
		return err
	}
	columns, rows := s.size()
	room := rows - frameLines
	executors := min(len(f.Executors), max(room/3, room-len(f.Tools), 1))
	text := f.text(columns, max(room-executors, 1), executors)
	var out strings.Builder
	out.WriteString(toTop)
	for _, line := range text[:min(len(text), max(rows-1, 1))] {
		if all := []rune(line); len(all) > columns {
			line = string(all[:max(columns, 0)])
		}
		out.WriteString(line + clearLine + "\n")
	}
	out.WriteString(clearBelow)
	_, err := io.WriteString(s.to, out.String())
	return err
}

// frameLines is the number of lines of a frame besides its rows, with the last line of the terminal, for the cursor.
const frameLines = 10

// Cells of a row behind the name.
const (
	toolCells     = " %8s %9s %9s %7s %9s %6s"
	toolNumbers   = 54
	executorCells = " %-12s %12s %6s"
	executorRest  = 33
	leastName     = 12
)

// columns returns how many columns the frame needs, so that no name is cut.
func (f *topFrame) columns() int {
	n := shownWidth
	for _, t := range f.Tools {
		n = max(n, len([]rune(t.Tool))+toolNumbers)
	}
	for _, e := range f.Executors {
		n = max(n, len([]rune(e.Instance))+executorRest)
	}
	return n
}

// text returns the lines of a frame, with limits of its rows. A name is cut to fit into the columns.
func (f *topFrame) text(columns, tools, executors int) []string {
	window := timer.Text(time.Duration(f.WindowMS) * time.Millisecond)
	title := fmt.Sprintf("tenant %s, calls of %s until %s", f.Tenant, window, f.At.UTC().Format(time.RFC3339))
	if f.Problem != "" {
		return []string{cli.EscapeCell("no numbers: " + f.Problem)}
	}
	all := []string{cli.EscapeCell(title)}
	if f.Behind {
		all = append(all, "the audit record is behind: the newest calls are missing; see `toolbus doctor`")
	}
	if f.OpenMore {
		all = append(all, fmt.Sprintf("more than %d calls are open: IN FLIGHT and QUEUE count the first of them", maxLooked))
	}
	name := max(columns-toolNumbers, leastName)
	var rows []string
	for _, t := range f.Tools {
		rows = append(rows, t.row(name))
	}
	header := fmt.Sprintf("%-*s"+toolCells, name, "TOOL", "CALLS/S", "P50", "P95", "ERRORS", "IN FLIGHT", "QUEUE")
	all = append(append(all, "", header), first(rows, tools, "no call ended in this time, and none is open")...)
	name, rows = max(columns-executorRest, leastName), nil
	for _, e := range f.Executors {
		rows = append(rows, executorRow(e, name))
	}
	header = fmt.Sprintf("%-*s"+executorCells, name, "EXECUTOR", "POOL", "RUNNING", "LOAD")
	return append(append(all, "", header), first(rows, executors, "no executor is there: calls wait until one starts")...)
}

// first returns the first most rows, and a line with the number of the others, or none if there is no row.
func first(rows []string, most int, none string) []string {
	switch {
	case len(rows) == 0:
		return []string{none}
	case len(rows) <= most:
		return rows
	}
	return append(rows[:most:most], fmt.Sprintf("and %d more", len(rows)-most))
}

func (t *topTool) row(name int) string {
	rate := fmt.Sprintf("%.2f", t.PerSecond)
	if t.PerSecond >= 100 {
		rate = fmt.Sprintf("%.0f", t.PerSecond)
	}
	return cli.EscapeCell(fmt.Sprintf("%-*s"+toolCells, name, cut(t.Tool, name), rate, cmp.Or(tookOf(t.P50), "-"),
		cmp.Or(tookOf(t.P95), "-"), fmt.Sprint(t.Calls-t.Success), fmt.Sprint(t.InFlight), fmt.Sprint(t.Queue)))
}

func executorRow(e envelope.ExecutorInfo, name int) string {
	running, load := "–", "–" // an older build does not report them
	if e.Slots > 0 {
		running, load = fmt.Sprintf("%d of %d", e.Running, e.Slots), fmt.Sprintf("%d %%", 100*e.Running/e.Slots)
	}
	return cli.EscapeCell(fmt.Sprintf("%-*s"+executorCells, name, cut(e.Instance, name), cut(e.Pool, 12), running, load))
}
