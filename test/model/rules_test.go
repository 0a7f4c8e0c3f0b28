package model

import (
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/call"
)

// removed is a rule of the protocol that is left out, where, and what then goes wrong.
type removed struct {
	rule  Rule
	name  string
	in    Config
	steps int    // of the shortest counterexample
	bad   string // part of what it says
}

func with(c Config, change func(*Config)) Config {
	change(&c)
	return c
}

var (
	sideEffectful = Config{Class: call.SideEffectful, Asks: "AAB", Endings: every, Deliveries: 2, Watches: 2, Cancels: 1,
		Ticks: 1, Crashes: 1}
	strange = with(sideEffectful, func(c *Config) {
		c.Asks, c.Ticks, c.Lookup, c.Strangers = "AB", 0, call.LookupNo, 1
	})
	idempotent = with(sideEffectful, func(c *Config) { c.Class, c.Asks = call.Idempotent, "A" })
)

var rulesOfCall = []removed{
	{ClaimInLog, "claim in the log", with(sideEffectful, func(c *Config) { c.Ticks = 0 }), 7,
		"ended with effect none, but it had one"},
	{Fingerprint, "fingerprint at admission", with(sideEffectful, func(c *Config) { c.Asks = "AX" }), 7,
		"the outcome of another input"},
	{Binding, "binding of call ids to attempts", sideEffectful, 8, "then P-PRECOND-CANCELLED of attempt 2"},
	{AdmissionCAS, "compare-and-set at admission", sideEffectful, 7, "then P-PRECOND-CANCELLED of attempt 1"},
	{FreshSequence, "fresh sequence after 10071", sideEffectful, 3, "nobody can decide"},
	{ConfirmOnly, "lookup only confirms", with(sideEffectful, func(c *Config) { c.Suspect = true }), 8,
		"a second effect"},
	{AdmissionFence, "admission fence", with(sideEffectful, func(c *Config) { c.Asks, c.Expiries = "AX", 1 }), 12,
		"the outcome of another input"},
	{OwnNonce, "own nonce", with(sideEffectful, func(c *Config) { c.Lost = 1 }), 5, "taken for another's"},
	{LiveClaim, "live claims stay", sideEffectful, 5, "the claim of a live executor is taken over"},
	{ClaimFirst, "side-effectful calls claim first", sideEffectful, 6, "ended with effect none, but it had one"},
	{ClaimSecond, "second deliveries claim", idempotent, 5, "two runs have the fence"},
	{ClaimOld, "what is older than its consumer claims", with(idempotent, func(c *Config) { c.Due, c.Recreates = 2, 1 }),
		6, "two runs have the fence"},
	{CountClaims, "claims are counted", Config{Class: call.Idempotent, Asks: "A", Endings: both, Deliveries: 7,
		Crashes: 7, Poison: true}, 26, "runs more often than it may be claimed"},
	{PhaseEffect, "retry only after effect none", with(sideEffectful, func(c *Config) { c.Ticks = 0 }), 12,
		"a second effect"},
	{JointEffect, "none speaks for one run only", idempotent, 9, "ended with effect none, but it had one"},
	{FinalStays, "final outcomes stay", with(sideEffectful, func(c *Config) { c.Ticks = 0 }), 12, "a second effect"},
	{BeatFirst, "heartbeats come before first deliveries",
		with(idempotent, func(c *Config) { c.Silences, c.Absent, c.Cancels, c.Ticks = 1, true, 0, 0 }), 6,
		"ended with effect none, but it had one"},
	{LagNotFinal, "a refusal by lag is not final",
		with(sideEffectful, func(c *Config) { c.Asks, c.Lags, c.Ticks = "AA", 1, 0 }), 4, "told R-CAP-AUDIT"},
	{ClaimerSucceeds, "success comes from the claimer", strange, 4,
		"attempt 1 succeeded without its effect"},
	{OthersGiveUp, "others may only give a claimed attempt up", strange, 6,
		"attempt 1 has an effect after it ended with none"},
	{OneStep, "an event is one step from the one before", strange, 2,
		"attempt 1 succeeded without its effect"},
	{GarbledCounts, "what cannot be decoded may have run", strange, 4, "may have run, and was ended with"},
	{GarbledWaits, "side-effectful attempts that may have run are not started", strange, 7, "a second effect"},
	{KeepPlace, "strangers' events take their place", strange, 2, "nobody can decide"},
	{OwnAttempt, "losers adopt their attempt's outcome", sideEffectful, 9, "of attempt 1"},
}

// TestRulesAreNeeded leaves out one rule at a time: each time an observer sees a promise broken.
// With -v it prints the shortest way there.
func TestRulesAreNeeded(t *testing.T) {
	for _, c := range rulesOfCall {
		t.Run(c.name, func(t *testing.T) {
			c.in.Off, c.in.Promises = c.rule, true
			broken(t, Explore(c.in), c)
		})
	}
}

var rulesOfRetention = []removed{
	{OutliveRequest, "outcomes outlive requests", Config{}, 3, "goes back"},
	{OutliveEarlier, "events outlive earlier ones", Config{}, 7, "goes back"},
	{CarryOutcomes, "earlier outcomes are carried", Config{}, 6, "cannot be found"},
}

// TestRetentionRulesAreNeeded is the same for what expires.
func TestRetentionRulesAreNeeded(t *testing.T) {
	for _, c := range rulesOfRetention {
		t.Run(c.name, func(t *testing.T) {
			in := aging(call.SideEffectful)
			in.Off = c.rule
			broken(t, ExploreRetention(in), c)
		})
	}
}

var rulesOfLies = []removed{
	{OneStep, "an event is one step from the one before", Config{}, 2, "a success of e99"},
	{ClaimerSucceeds, "success comes from the claimer", Config{}, 3, "a success of e99"},
	{OthersGiveUp, "others may only give a claimed attempt up", Config{}, 4,
		"effect none, but it had one"},
	{RequestsStay, "requests of bound logs stay", Config{}, 4, "a reader finds"},
}

// TestRulesOfLiesAreNeeded is the same for what another executor writes.
func TestRulesOfLiesAreNeeded(t *testing.T) {
	for _, c := range rulesOfLies {
		t.Run(c.name, func(t *testing.T) {
			in := lying(call.LookupNo)
			in.Off = c.rule
			broken(t, ExploreLies(in), c)
		})
	}
}

// TestRuleOfRepeatsIsNeeded lets attempts count that nobody can have taken.
func TestRuleOfRepeatsIsNeeded(t *testing.T) {
	want := removed{steps: 22, bad: "used up, and the tool ran 0 times"}
	in := Repeats{Class: call.SideEffectful, Times: call.MaxAttempts + 1, Nobody: true, Off: UntakenFree}
	broken(t, ExploreRepeats(in), want)
}

// TestRuleOfKeysIsNeeded lets tools have the key as its caller wrote it.
func TestRuleOfKeysIsNeeded(t *testing.T) {
	broken(t, ExploreKeys(OwnKey), removed{steps: 7, bad: "succeeded by the effect of another"})
}

func broken(t *testing.T, r Result, want removed) {
	t.Helper()
	t.Logf("%s, after %d states:\n%s", r.Bad, r.States, strings.Join(r.Trace, "\n"))
	if len(r.Trace) != want.steps || !strings.Contains(r.Bad, want.bad) {
		t.Errorf("%d steps to %q, want %d to %q", len(r.Trace), r.Bad, want.steps, want.bad)
	}
}
