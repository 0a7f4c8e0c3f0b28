package chaos

import (
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/chaos/checker"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Outage is the effect of one fault of the servers. SilentMS is the longest time without a write to a partition of the
// call log. Due is the number of unanswered calls with a deadline in that time. Local is the number of those that got
// only the answer of the client library itself.
type Outage struct {
	AtMS     int64  `json:"at_ms"`
	What     string `json:"what"`
	SilentMS int64  `json:"silent_ms"`
	Due      int    `json:"due"`
	Local    int    `json:"local"`
}

// outages returns the effect of every fault.
func outages(begun time.Time, happened []happening, h checker.History) (all []Outage) {
	for _, x := range happened {
		silent := silence(h.Log, x)
		o := Outage{
			AtMS: x.from.Sub(begun).Milliseconds(), What: x.what, SilentMS: silent.To.Sub(silent.From).Milliseconds(),
		}
		for _, a := range h.Asks {
			if a.Sent.Before(silent.To) && a.Done.After(silent.From) && a.Due.Before(silent.To) {
				o.Due++
				if !slices.ContainsFunc(a.Answers, func(r *envelope.Response) bool { return r.Provenance.Final }) {
					o.Local++
				}
			}
		}
		all = append(all, o)
	}
	return all
}

// before is how long before the fault the last event may have been stored.
const before = time.Second

// silence returns the longest time between two events of one partition that began shortly before the fault or during
// it. The log must be in order.
func silence(log []call.Entry, x happening) (longest checker.Span) {
	last := map[subjects.Partition]time.Time{}
	for _, e := range log {
		part := e.State.Partition
		from, known := last[part]
		began := known && from.After(x.from.Add(-before)) && from.Before(x.to)
		if began && e.Time.After(x.from) && e.Time.Sub(from) > longest.To.Sub(longest.From) {
			longest = checker.Span{From: from, To: e.Time}
		}
		last[part] = e.Time
	}
	return longest
}
