package chaos

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/chaos/checker"
	"github.com/seed-018f16cc/toolbus/internal/chaos/proxy"
)

// Write prints the report as text, with the story of each call that has violations.
func (r Report) Write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "seed\t%d, %s, %d servers, sync always %t\n", r.Seed, time.Duration(r.DurationMS)*time.Millisecond,
		r.Servers, r.SyncAlways)
	fmt.Fprintf(w, "asked\t%d requests for %d keys, %.0f a second: %s; %d over MCP; %d local answers, %d unsent\n",
		r.Asks, r.Keys, r.PerSecond, counted(r.Answers), r.Visits, r.Local, r.Unsent)
	fmt.Fprintf(w, "log\t%d attempts, decided by %s; %d joined, %d takeovers\n", r.Attempts, counted(r.Deciders),
		r.Joined, r.Takeovers)
	fmt.Fprintf(w, "tools\t%d runs, %d effects\n", r.Runs, r.Effects)
	fmt.Fprintf(w, "audit\t%d records\n", r.Records)
	fmt.Fprintf(w, "faults\t%s\n", counted(r.Faults))
	if r.Renewals > 0 {
		fmt.Fprintf(w, "tokens\t%d renewed; revoked actors made %d calls a second later and %d through a door, of which "+
			"dispatchers refused %d (slack of clocks %d ms)\n", r.Renewals, r.Late.Own, r.Late.Door, r.Late.Refused, r.SlackMS)
	}
	if r.Stopped+r.Locked > 0 {
		fmt.Fprintf(w, "policy\t%d requests refused because their run was stopped, %d because their tool was locked\n",
			r.Stopped, r.Locked)
	}
	for _, kind := range proxy.Kinds() {
		if c := r.Messages[kind]; c.Dropped+c.Delayed+c.Doubled > 0 {
			fmt.Fprintf(w, "%s\t%d passed, %d dropped, %d delayed, %d doubled\n", kind, c.Passed, c.Dropped, c.Delayed,
				c.Doubled)
		}
	}
	for _, o := range r.Outages {
		fmt.Fprintf(w, "%.1fs\t%s: no writes to the call log for %.1fs; of %d open calls due then %d had only the local "+
			"answer\n",
			seconds(o.AtMS), o.What, seconds(o.SilentMS), o.Due, o.Local)
	}
	if r.Unjudged > 0 {
		fmt.Fprintf(w, "late\t%d answers that are not judged: control timers were late too\n", r.Unjudged)
	}
	fmt.Fprintln(w)
	byRule := map[string]int{}
	for _, v := range r.Violations {
		byRule[v.Rule]++
	}
	for _, rule := range append(checker.Rules(), checker.Rule{Name: "process", Says: "no process ends by itself"}) {
		result := "ok"
		if n := byRule[rule.Name]; n > 0 {
			result = fmt.Sprintf("BROKEN %d times", n)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", rule.Name, result, rule.Says)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return r.writeViolations(out)
}

func seconds(ms int64) float64 { return float64(ms) / 1000 }

func (r Report) writeViolations(out io.Writer) error {
	for _, ref := range slices.Sorted(maps.Keys(r.Stories)) {
		fmt.Fprintf(out, "\nthe story of %s:\n%s", ref, r.Stories[ref])
	}
	for _, v := range r.Violations { // last, where they survive if the log is truncated
		fmt.Fprintf(out, "\n%s\n", v)
	}
	verdict := "no promise was broken"
	if n := len(r.Violations); n > 0 {
		verdict = fmt.Sprintf("%d violations", n)
	}
	if r.Dir != "" {
		verdict += "; logs and history are in " + r.Dir
	}
	_, err := fmt.Fprintf(out, "\n%s\n", verdict)
	return err
}

// counted formats counts by name.
func counted[K cmp.Ordered](counts map[K]int) string {
	text := ""
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%d %v", counts[name], name)
	}
	return text
}
