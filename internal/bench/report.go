package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// size formats a number of bytes.
func size(n int) string {
	if n >= 1024 && n%1024 == 0 {
		return fmt.Sprintf("%d KiB", n/1024)
	}
	return fmt.Sprintf("%d B", n)
}

// load describes the load of the row.
func (row Row) load() string {
	if row.Callers == 0 {
		return fmt.Sprintf("%d/s", row.Rate)
	}
	return fmt.Sprintf("%d callers", row.Callers)
}

func (row Row) name() string {
	return fmt.Sprintf("%s server, sync %s, %s, %s", row.Server, row.Sync, size(row.Bytes), row.load())
}

// String returns the row as one line, for progress messages.
func (row Row) String() string {
	var b strings.Builder
	b.WriteString(row.name())
	sep := ": "
	for _, s := range row.sides() {
		fmt.Fprintf(&b, "%s%s %.0f calls/s, median %.2f ms, %.0f µs CPU", sep, s.name, s.of.PerSecond, s.of.P50, s.of.CPU)
		sep = "; "
	}
	for _, c := range row.comparisons() {
		fmt.Fprintf(&b, "; %s %.2f, median %.2f", c.name, c.of.PerSecond, c.of.P50)
	}
	return b.String() + verdicts(row.Checks)
}

// sides returns the statistics of the measured sides.
func (row Row) sides() (all []named[Stats]) {
	return present(named[Stats]{raw, row.Raw}, named[Stats]{theFloor, row.Floor}, named[Stats]{ours, row.Toolbus})
}

// comparisons returns the ratios of the measured sides.
func (row Row) comparisons() []named[Ratios] {
	return present(named[Ratios]{ours + "/" + raw, row.Ratio}, named[Ratios]{ours + "/" + theFloor, row.FloorRatio})
}

// named is a value with a name.
type named[T any] struct {
	name string
	of   *T
}

func present[T any](all ...named[T]) []named[T] {
	return slices.DeleteFunc(all, func(n named[T]) bool { return n.of == nil })
}

func verdicts(checks []Check) string {
	var b strings.Builder
	for _, c := range checks {
		b.WriteString("; " + c.String())
	}
	return b.String()
}

// String returns the check as text.
func (c Check) String() string {
	bound, verdict := "at most", "met"
	if c.AtLeast {
		bound = "at least"
	}
	if !c.Met {
		verdict = "MISSED"
	}
	return fmt.Sprintf("%s %.2f, %s %.2f: %s", c.Name, c.Value, bound, c.Want, verdict)
}

// Missed returns the number of targets that were missed.
func (r *Report) Missed() int {
	n := 0
	for _, row := range r.Rows {
		n += missed(row.Checks)
	}
	for _, res := range r.Results {
		n += missed(res.Checks)
	}
	return n
}

func missed(checks []Check) int {
	n := 0
	for _, c := range checks {
		if !c.Met {
			n++
		}
	}
	return n
}

// Write prints the report as text.
func (r *Report) Write(out io.Writer) error {
	fmt.Fprintf(out, "%s, %s, %d CPUs, %s\n", r.Machine.Go, r.Machine.OS, r.Machine.CPUs, r.Machine.Started)
	if len(r.Rows) > 0 {
		fmt.Fprintln(out, "\nmedians of the rounds, ratios of neighbouring rounds; from CPU on all is per call")
		if s := r.Rows[0].State; s != nil {
			fmt.Fprintf(out, "state in the headers of events, of Toolbus and so of the floor: q %d B, o %d B\n", s.Request,
				s.Outcome)
		}
		if err := r.writeRows(out); err != nil {
			return err
		}
	}
	for _, res := range r.Results {
		fmt.Fprintf(out, "\n%s\n", res.Scenario)
		w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
		for _, f := range res.Facts {
			fmt.Fprintf(w, "  %s\t%.2f %s\n", f.Name, f.Value, f.Unit)
		}
		if err := w.Flush(); err != nil {
			return err
		}
		for _, c := range res.Checks {
			fmt.Fprintf(out, "  target: %s\n", c)
		}
	}
	return nil
}

// columns are the headings of a row. All columns from CPU on are per call. CALLER, DISPATCHER and WORKER are messages
// sent+received.
const columns = "SERVER\tSYNC\tSIZE\tLOAD\tSIDE\tCALLS/S\tP50 ms\tP95 ms\tP99 ms\tCPU µs\tSERVER\tOURS\tALLOCS\t" +
	"WAKE-UPS\tSERVER\tOURS\tWRITE(2)\tWRITES\tTRIPS\tALL\tMSGS\tCALLER\tDISPATCHER\tWORKER"

func (r *Report) writeRows(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, columns)
	for _, row := range r.Rows {
		load := strings.Join([]string{row.Server, string(row.Sync), size(row.Bytes), row.load()}, "\t")
		for _, s := range row.sides() {
			fmt.Fprintf(w, "%s\t%s\t%s\n", load, s.name, s.of.cells(row.Server == Process))
		}
		for _, c := range row.comparisons() {
			fmt.Fprintf(w, "%s\t%s\t%s\n", load, c.name, c.of.cells()+blank)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, row := range r.Rows {
		for _, c := range row.Checks {
			fmt.Fprintf(out, "target: %s: %s\n", row.name(), c)
		}
	}
	return nil
}

// cells returns the values of a side. apart means that the server is a process. The usage of an embedded server is part
// of OURS.
func (s Stats) cells(apart bool) string {
	serverCPU, serverWakeUps := "-", "-"
	if apart {
		serverCPU, serverWakeUps = fmt.Sprintf("%.0f", s.ServerCPU), fmt.Sprintf("%.1f", s.ServerWakeUps)
	}
	return strings.Join([]string{
		fmt.Sprintf("%.0f\t%.2f\t%.2f\t%.2f", s.PerSecond, s.P50, s.P95, s.P99),
		fmt.Sprintf("%.0f\t%s\t%.0f\t%.0f", s.CPU, serverCPU, s.OwnCPU, s.Allocs),
		fmt.Sprintf("%.1f\t%s\t%.1f", s.ServerWakeUps+s.OwnWakeUps, serverWakeUps, s.OwnWakeUps),
		fmt.Sprintf("%.2f\t%.2f\t%.1f\t%.1f", s.WriteCalls, s.Writes, s.RoundTrips, s.AllRoundTrips),
		fmt.Sprintf("%.1f\t%s\t%s\t%s", s.Messages, s.Caller, s.Dispatcher, s.Worker),
	}, "\t")
}

// blank fills the columns for which there are no ratios.
const blank = "\t\t\t\t\t\t\t\t\t\t\t\t\t\t"

// cells returns the ratios, in the columns of their values.
func (x Ratios) cells() string {
	return fmt.Sprintf("%.2f\t%.2f\t%.2f\t%.2f\t%.2f", x.PerSecond, x.P50, x.P95, x.P99, x.CPU)
}

// String returns the numbers of sent and received messages.
func (t Traffic) String() string { return fmt.Sprintf("%.1f+%.1f", t.Sent, t.Received) }
