package model

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/call"
)

var large = flag.Bool("large", false, "explore the large configurations instead of the small ones")

// How tools may end in the configurations.
var (
	both  = []Ending{Success, Refused}
	every = []Ending{Success, Refused, Unsure}
)

// bounded is a configuration and what it is there for.
type bounded struct {
	name string
	Config
}

// small configurations are explored on every run of the tests.
var small = []bounded{
	{"side-effectful, a crash", Config{Class: call.SideEffectful, Asks: "AB", Endings: both, Deliveries: 2, Watches: 1,
		Cancels: 1, Ticks: 1, Crashes: 1}},
	{"side-effectful, A asks again", Config{Class: call.SideEffectful, Asks: "AAB", Endings: every, Deliveries: 2,
		Watches: 1, Cancels: 1, Crashes: 1}},
	{"side-effectful, a lost answer", Config{Class: call.SideEffectful, Asks: "AB", Endings: both, Deliveries: 2,
		Watches: 1, Cancels: 1, Lost: 1}},
	{"side-effectful, a late write", Config{Class: call.SideEffectful, Asks: "AB", Endings: both, Deliveries: 2,
		Watches: 1, Cancels: 1, Late: 1}},
	{"side-effectful, three replicas", Config{Class: call.SideEffectful, Asks: "AA", Endings: both, Deliveries: 2,
		Watches: 1, Cancels: 1, Lost: 1, Late: 1, Dedup: true}},
	{"side-effectful, both and a crash", Config{Class: call.SideEffectful, Asks: "AA", Endings: both, Deliveries: 2,
		Watches: 1, Cancels: 1, Ticks: 1, Late: 1, Lost: 1, Crashes: 1}},
	{"side-effectful, lost heartbeats", Config{Class: call.SideEffectful, Asks: "AB", Endings: every, Deliveries: 2,
		Watches: 1, Cancels: 1, Suspect: true}},
	{"side-effectful, a new consumer", Config{Class: call.SideEffectful, Asks: "AB", Endings: both, Deliveries: 2,
		Watches: 1, Ticks: 1, Due: 2, Recreates: 1}},
	{"side-effectful, another input", Config{Class: call.SideEffectful, Asks: "ABX", Endings: both, Deliveries: 2,
		Watches: 1, Cancels: 1}},
	{"side-effectful, expired log", Config{Class: call.SideEffectful, Asks: "AX", Endings: both, Deliveries: 2,
		Watches: 1, Cancels: 1, Ticks: 1, Expiries: 1}},
	{"idempotent, a crash", Config{Class: call.Idempotent, Asks: "AB", Endings: every, Deliveries: 2, Watches: 1,
		Cancels: 1, Crashes: 1}},
	{"idempotent, a deadline", Config{Class: call.Idempotent, Asks: "A", Endings: every, Deliveries: 3, Watches: 1,
		Cancels: 1, Ticks: 1, Crashes: 1, Late: 1}},
	{"idempotent, a lost answer", Config{Class: call.Idempotent, Asks: "AB", Endings: both, Deliveries: 2, Watches: 1,
		Cancels: 1, Lost: 1}},
	{"idempotent, a new consumer", Config{Class: call.Idempotent, Asks: "AB", Endings: both, Deliveries: 2, Watches: 1,
		Ticks: 1, Due: 2, Recreates: 1}},
	{"idempotent, expired log", Config{Class: call.Idempotent, Asks: "AX", Endings: both, Deliveries: 2, Watches: 1,
		Cancels: 1, Ticks: 1, Expiries: 1}},
	{"idempotent, poison", Config{Class: call.Idempotent, Asks: "A", Endings: []Ending{Success}, Deliveries: 7,
		Crashes: 7, Poison: true}},
	{"pure, a crash", Config{Class: call.Pure, Asks: "AB", Endings: both, Deliveries: 2, Watches: 1, Cancels: 1,
		Crashes: 1}},
	{"side-effectful, lagging dispatchers", Config{Class: call.SideEffectful, Asks: "AAB", Endings: both, Deliveries: 1,
		Watches: 1, Lags: 2}},
	{"idempotent, an empty pool", Config{Class: call.Idempotent, Asks: "A", Endings: both, Deliveries: 2, Watches: 2,
		Ticks: 1, Silences: 2, Crashes: 1, Absent: true}},
	{"idempotent, frozen executors", Config{Class: call.Idempotent, Asks: "A", Endings: both, Deliveries: 2, Watches: 2,
		Ticks: 1, Silences: 2, Crashes: 1}},
	{"side-effectful, a stranger, no lookup", Config{Class: call.SideEffectful, Asks: "AB", Endings: both, Deliveries: 2,
		Watches: 1, Cancels: 1, Lookup: call.LookupNo, Strangers: 1}},
	{"side-effectful, a stranger, a lookup", Config{Class: call.SideEffectful, Asks: "AA", Endings: both, Deliveries: 2,
		Watches: 1, Crashes: 1, Lookup: call.LookupYes, Strangers: 1}},
	{"side-effectful, two strangers", Config{Class: call.SideEffectful, Asks: "AA", Endings: both, Deliveries: 1,
		Watches: 1, Cancels: 1, Lost: 1, Lookup: call.LookupNo, Strangers: 2}},
	{"idempotent, a stranger", Config{Class: call.Idempotent, Asks: "A", Endings: both, Deliveries: 2, Watches: 1,
		Cancels: 1, Ticks: 1, Strangers: 1}},
	{"pure, a stranger", Config{Class: call.Pure, Asks: "AB", Endings: both, Deliveries: 1, Watches: 1, Cancels: 1,
		Ticks: 1, Strangers: 1}},
	{"side-effectful, an empty pool", Config{Class: call.SideEffectful, Asks: "AB", Endings: both, Deliveries: 1,
		Watches: 1, Ticks: 1, Silences: 2, Absent: true}},
}

// huge configurations are explored by make nightly, instead.
var huge = []bounded{
	{"side-effectful, a stranger, no lookup", Config{Class: call.SideEffectful, Asks: "AB", Endings: both, Deliveries: 2,
		Watches: 1, Cancels: 1, Ticks: 1, Crashes: 1, Lookup: call.LookupNo, Strangers: 1}},
	{"side-effectful, a stranger, a lookup", Config{Class: call.SideEffectful, Asks: "AB", Endings: both, Deliveries: 2,
		Watches: 1, Ticks: 1, Crashes: 1, Lookup: call.LookupYes, Strangers: 1}},
	{"side-effectful, A asks again", Config{Class: call.SideEffectful, Asks: "AAB", Endings: every, Deliveries: 2,
		Watches: 1, Cancels: 1, Ticks: 1, Crashes: 1}},
	{"side-effectful, two watches", Config{Class: call.SideEffectful, Asks: "AB", Endings: both, Deliveries: 2,
		Watches: 2, Cancels: 1, Ticks: 1, Crashes: 1}},
	{"side-effectful, two crashes", Config{Class: call.SideEffectful, Asks: "AB", Endings: every, Deliveries: 3,
		Watches: 1, Cancels: 1, Crashes: 2}},
	{"side-effectful, lost and late", Config{Class: call.SideEffectful, Asks: "AAB", Endings: both, Deliveries: 2,
		Watches: 1, Cancels: 1, Lost: 1, Late: 1}},
	{"side-effectful, three replicas", Config{Class: call.SideEffectful, Asks: "AAB", Endings: both, Deliveries: 2,
		Watches: 1, Cancels: 1, Lost: 1, Late: 1, Dedup: true}},
	{"side-effectful, lost heartbeats", Config{Class: call.SideEffectful, Asks: "AAB", Endings: every, Deliveries: 3,
		Watches: 1, Cancels: 1, Crashes: 1, Suspect: true}},
	{"side-effectful, another input", Config{Class: call.SideEffectful, Asks: "ABX", Endings: every, Deliveries: 2,
		Watches: 1, Cancels: 1, Ticks: 1, Crashes: 1}},
	{"side-effectful, expired log", Config{Class: call.SideEffectful, Asks: "AX", Endings: both, Deliveries: 2,
		Watches: 2, Cancels: 1, Ticks: 1, Late: 1, Expiries: 1}},
	{"side-effectful, a new consumer", Config{Class: call.SideEffectful, Asks: "AB", Endings: every, Deliveries: 3,
		Watches: 1, Cancels: 1, Ticks: 2, Due: 2, Recreates: 1}},
	{"idempotent, A asks again", Config{Class: call.Idempotent, Asks: "AAB", Endings: every, Deliveries: 2, Watches: 1,
		Cancels: 1, Crashes: 1}},
	{"idempotent, a deadline", Config{Class: call.Idempotent, Asks: "AAB", Endings: both, Deliveries: 2, Watches: 1,
		Cancels: 1, Ticks: 1, Crashes: 1}},
	{"idempotent, lost and late", Config{Class: call.Idempotent, Asks: "AB", Endings: both, Deliveries: 2, Watches: 1,
		Cancels: 1, Lost: 1, Late: 1, Crashes: 1}},
	{"idempotent, lost heartbeats", Config{Class: call.Idempotent, Asks: "AB", Endings: both, Deliveries: 3, Watches: 1,
		Cancels: 1, Crashes: 1, Suspect: true}},
	{"idempotent, a new consumer", Config{Class: call.Idempotent, Asks: "AB", Endings: both, Deliveries: 3, Watches: 1,
		Ticks: 1, Due: 2, Recreates: 1, Crashes: 1}},
	{"idempotent, expired log", Config{Class: call.Idempotent, Asks: "AX", Endings: both, Deliveries: 2, Watches: 1,
		Cancels: 1, Ticks: 1, Expiries: 1, Crashes: 1}},
	{"idempotent, an empty pool", Config{Class: call.Idempotent, Asks: "AB", Endings: both, Deliveries: 2, Watches: 1,
		Ticks: 1, Silences: 2, Absent: true}},
	{"side-effectful, lagging dispatchers", Config{Class: call.SideEffectful, Asks: "AAB", Endings: both, Deliveries: 2,
		Watches: 1, Crashes: 1, Lags: 2}},
	{"pure, a deadline", Config{Class: call.Pure, Asks: "AAB", Endings: both, Deliveries: 2, Watches: 1, Cancels: 1,
		Crashes: 1}},
}

// TestProtocol explores the protocol as it is: every promise holds in every state.
func TestProtocol(t *testing.T) {
	configs := small
	if *large {
		configs = huge
	}
	for _, c := range configs {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			r := Explore(c.Config)
			t.Logf("%d states, %d steps deep, in %v", r.States, r.Depth, time.Since(began).Round(time.Millisecond))
			if r.Bad != "" {
				t.Errorf("%s:\n%s", r.Bad, strings.Join(r.Trace, "\n"))
			}
		})
	}
}

// TestRepeats explores a key that is asked for again and again.
func TestRepeats(t *testing.T) {
	for _, class := range []call.EffectClass{call.Pure, call.Idempotent, call.SideEffectful} {
		r := ExploreRepeats(Repeats{Class: class, Times: call.MaxAttempts + 1})
		t.Logf("%s: %d states, %d steps deep", class, r.States, r.Depth)
		if r.Bad != "" {
			t.Errorf("%s, %s:\n%s", class, r.Bad, strings.Join(r.Trace, "\n"))
		}
	}
}

// TestKeys explores two calls under one key.
func TestKeys(t *testing.T) {
	r := ExploreKeys(0)
	t.Logf("%d states, %d steps deep", r.States, r.Depth)
	if r.Bad != "" {
		t.Errorf("%s:\n%s", r.Bad, strings.Join(r.Trace, "\n"))
	}
}

// TestLies explores a call whose log another executor writes lies into.
func TestLies(t *testing.T) {
	for _, lookup := range []call.Lookup{call.LookupNo, call.LookupYes} {
		r := ExploreLies(lying(lookup))
		t.Logf("lookup %s: %d states, %d steps deep", lookup, r.States, r.Depth)
		if r.Bad != "" {
			t.Errorf("lookup %s, %s:\n%s", lookup, r.Bad, strings.Join(r.Trace, "\n"))
		}
	}
}

func lying(lookup call.Lookup) Lies { return Lies{Lookup: lookup, Lies: 2, Passes: 4} }

// aging is the exploration of what expires when.
func aging(class call.EffectClass) Retention {
	return Retention{
		Class: class, Callers: 2, Waits: []time.Duration{time.Minute}, Passes: 4,
		Timeout: []time.Duration{time.Minute, 10 * time.Minute}, Keep: 10 * time.Minute,
	}
}

// TestRetention explores the protocol over hours and days, while events expire.
func TestRetention(t *testing.T) {
	for _, class := range []call.EffectClass{call.Idempotent, call.SideEffectful} {
		for _, keep := range []time.Duration{10 * time.Minute, 24 * time.Hour} {
			t.Run(string(class)+" "+keep.String(), func(t *testing.T) {
				c := aging(class)
				c.Keep = keep
				if *large || class != call.SideEffectful {
					c.Callers = 3
				}
				began := time.Now()
				r := ExploreRetention(c)
				t.Logf("%d states, %d steps deep, in %v", r.States, r.Depth, time.Since(began).Round(time.Millisecond))
				if r.Bad != "" {
					t.Errorf("%s:\n%s", r.Bad, strings.Join(r.Trace, "\n"))
				}
			})
		}
	}
}
