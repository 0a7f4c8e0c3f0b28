package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// size says bytes as people do.
func size(n int) string {
	if n >= 1024 && n%1024 == 0 {
		return fmt.Sprintf("%d KiB", n/1024)
	}
	return fmt.Sprintf("%d B", n)
}

// load says what was done to both sides.
func (row Row) load() string {
	if row.Callers == 0 {
		return fmt.Sprintf("%d/s", row.Rate)
	}
	return fmt.Sprintf("%d callers", row.Callers)
}

func (row Row) name() string {
	return fmt.Sprintf("%s server, sync %s, %s, %s", row.Server, row.Sync, size(row.Bytes), row.load())
}

// String is the row in one line, for progress.
func (row Row) String() string {
	switch {
	case row.Ratio != nil:
		return fmt.Sprintf("%s: %.0f of %.0f calls/s (%.2f), median %.2f ms (%.2f)%s", row.name(), row.Toolbus.PerSecond,
			row.Raw.PerSecond, row.Ratio.PerSecond, row.Toolbus.P50, row.Ratio.P50, verdicts(row.Checks))
	case row.Toolbus != nil:
		return fmt.Sprintf("%s: toolbus %.0f calls/s, %.0f µs CPU", row.name(), row.Toolbus.PerSecond, row.Toolbus.CPU)
	case row.Raw != nil:
		return fmt.Sprintf("%s: raw %.0f calls/s, %.0f µs CPU", row.name(), row.Raw.PerSecond, row.Raw.CPU)
	}
	return row.name()
}

func verdicts(checks []Check) string {
	var b strings.Builder
	for _, c := range checks {
		b.WriteString("; " + c.String())
	}
	return b.String()
}

// String is the check in words.
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

// Missed counts the targets that were not met.
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

// Write prints the report for people.
func (r *Report) Write(out io.Writer) error {
	fmt.Fprintf(out, "%s, %s, %d CPUs, %s\n", r.Machine.Go, r.Machine.OS, r.Machine.CPUs, r.Machine.Started)
	if len(r.Rows) > 0 {
		fmt.Fprintln(out, "\nraw / Toolbus (ratio of neighbouring rounds); CPU, allocations, writes and messages per call")
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

func (r *Report) writeRows(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "SERVER\tSYNC\tSIZE\tLOAD\tCALLS/S\tP50 ms\tP95 ms\tP99 ms\tCPU µs\tALLOCS\tWRITES\tMSGS\tTARGET")
	for _, row := range r.Rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", row.Server, row.Sync, size(row.Bytes), row.load(), row.cells())
	}
	return w.Flush()
}

// cells are the numbers of a row.
func (row Row) cells() string {
	if row.Ratio == nil {
		s := row.Toolbus
		if s == nil {
			s = row.Raw
		}
		return fmt.Sprintf("%.0f\t%.2f\t%.2f\t%.2f\t%.0f (server %.0f)\t%.0f\t%.2f\t%.1f\t",
			s.PerSecond, s.P50, s.P95, s.P99, s.CPU, s.ServerCPU, s.Allocs, s.Writes, s.Messages)
	}
	a, b, x := row.Raw, row.Toolbus, row.Ratio
	pair := func(format string, a, b, ratio float64) string {
		return fmt.Sprintf(format+" / "+format+" (%.2f)", a, b, ratio)
	}
	target := "-"
	if len(row.Checks) > 0 {
		var all []string
		for _, c := range row.Checks {
			all = append(all, c.String())
		}
		target = strings.Join(all, "; ")
	}
	return strings.Join([]string{
		pair("%.0f", a.PerSecond, b.PerSecond, x.PerSecond), pair("%.2f", a.P50, b.P50, x.P50),
		pair("%.2f", a.P95, b.P95, x.P95),
		pair("%.2f", a.P99, b.P99, x.P99), pair("%.0f", a.CPU, b.CPU, x.CPU), fmt.Sprintf("%.0f / %.0f", a.Allocs, b.Allocs),
		fmt.Sprintf("%.1f / %.1f", a.Writes, b.Writes), fmt.Sprintf("%.1f / %.1f", a.Messages, b.Messages), target,
	}, "\t")
}
