package chaos

import (
	"maps"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/chaos/checker"
	"github.com/seed-018f16cc/toolbus/internal/chaos/effects"
	"github.com/seed-018f16cc/toolbus/internal/chaos/proxy"
)

// Report is the result of a run.
type Report struct {
	Seed       uint64                     `json:"seed"`
	DurationMS int64                      `json:"duration_ms"`
	SyncAlways bool                       `json:"sync_always"`
	Servers    int                        `json:"servers"`
	Dir        string                     `json:"dir,omitzero"` // folder with logs and history, if they are kept
	Keys       int                        `json:"keys"`
	PerSecond  float64                    `json:"calls_per_s"` // during the faults
	Asks       int                        `json:"asks"`
	Answers    map[envelope.Status]int    `json:"answers"` // outcomes and refusals
	Local      int                        `json:"local"`   // answers that are not final, as those of the library itself
	Unsent     int                        `json:"unsent"`
	Visits     int                        `json:"visits"`   // final answers to MCP clients
	Unjudged   int                        `json:"unjudged"` // late, but not judged: control timers were late
	Attempts   int                        `json:"attempts"`
	Takeovers  int                        `json:"takeovers"` // claims after the first run of an attempt
	Joined     int                        `json:"joined"`
	Deciders   map[call.Decider]int       `json:"deciders"`
	Runs       int                        `json:"runs"`
	Effects    int                        `json:"effects"`
	Records    int                        `json:"audit_records"`
	Faults     map[string]int             `json:"faults"`
	Messages   map[proxy.Kind]proxy.Count `json:"messages"`
	Outages    []Outage                   `json:"outages,omitzero"`
	Renewals   int                        `json:"renewals,omitzero"`
	Late       checker.Late               `json:"late,omitzero"`     // requests of revoked actors
	SlackMS    int64                      `json:"slack_ms,omitzero"` // tolerance for clocks and delivery in those checks
	Stopped    int                        `json:"stopped,omitzero"`  // requests refused because their run was stopped
	Locked     int                        `json:"locked,omitzero"`   // requests refused or ended by a safety lock
	Violations []checker.Violation        `json:"violations"`
	// Stories contain everything that was recorded of the calls with violations, by reference.
	Stories map[string]string `json:"stories,omitzero"`
}

// OK reports whether there are no violations.
func (r Report) OK() bool { return len(r.Violations) == 0 }

// maxStories limits the number of stories.
const maxStories = 20

func newReport(o *run, history checker.History, violations []checker.Violation) Report {
	r := Report{
		Seed: o.Seed, DurationMS: o.Duration.Milliseconds(), SyncAlways: o.SyncAlways, Servers: o.Servers,
		Asks: len(history.Asks), Records: len(history.Audit),
		Answers: map[envelope.Status]int{}, Deciders: map[call.Decider]int{}, Faults: o.havoc.counts,
		Messages: map[proxy.Kind]proxy.Count{}, Violations: violations, Stories: map[string]string{},
		Outages: outages(o.driver.begun, o.havoc.happened, history),
	}
	if o.Keep {
		r.Dir = o.Dir
	}
	r.callers(history)
	r.credentials(history)
	r.Stopped = history.Barred(envelope.CodePolicyVersion) + history.Barred(envelope.CodeRunState)
	r.Locked = history.Barred(envelope.CodeLocked)
	r.log(history)
	for _, a := range history.Asks {
		if a.Sent.Sub(o.driver.begun) < o.Duration {
			r.PerSecond += 1 / o.Duration.Seconds()
		}
	}
	for _, p := range slices.Concat(slices.Collect(maps.Values(o.cluster.proxies))...) {
		for kind, n := range p.Counts() {
			m := r.Messages[kind]
			r.Messages[kind] = proxy.Count{
				Passed: m.Passed + n.Passed, Dropped: m.Dropped + n.Dropped, Delayed: m.Delayed + n.Delayed,
				Doubled: m.Doubled + n.Doubled,
			}
		}
	}
	for _, v := range violations {
		if v.Ref != "" && len(r.Stories) < maxStories {
			r.Stories[v.Ref] = history.Story(v.Ref)
		}
	}
	return r
}

func (r *Report) callers(h checker.History) {
	keys := map[string]bool{}
	for _, a := range h.Asks {
		keys[a.Ref] = true
		if a.Unsent != "" {
			r.Unsent++
		}
		if a.Done.Sub(a.Due) > 100*time.Millisecond && !a.Judged() {
			r.Unjudged++
		}
		for _, answer := range a.Answers {
			if answer.Provenance.Final && a.MCP {
				r.Visits++
			}
			if answer.Provenance.Final {
				r.Answers[answer.Status]++
			} else {
				r.Local++
			}
		}
	}
	r.Keys = len(keys)
}

func (r *Report) credentials(h checker.History) {
	for _, record := range h.Audit {
		if record.Event == audit.CredentialRenewed {
			r.Renewals++
		}
	}
	for _, actor := range h.Revoked {
		n := h.Later(actor)
		r.Late.Own, r.Late.Door, r.Late.Refused = r.Late.Own+n.Own, r.Late.Door+n.Door, r.Late.Refused+n.Refused
		r.SlackMS = h.SlackMS
	}
}

func (r *Report) log(h checker.History) {
	for _, e := range h.Log {
		a, _ := e.State.Attempt(e.Attempt)
		switch e.Kind {
		case call.Requested:
			r.Attempts++
		case call.Claimed:
			if a.Claim.Count > 1 || e.State.Class != call.SideEffectful {
				r.Takeovers++
			}
		case call.Decided:
			r.Deciders[a.Decision.By]++
			r.Joined += len(a.Joined)
		}
	}
	for _, e := range h.Effects {
		if e.Op == effects.Commit {
			r.Effects++
		} else {
			r.Runs++
		}
	}
}
