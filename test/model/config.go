package model

import "github.com/seed-018f16cc/toolbus/internal/call"

// Config bounds one exploration. All counts are upper bounds: the explorer tries every number of
// crashes, redeliveries and so on up to them, at every step.
type Config struct {
	Class call.EffectClass
	// Asks are the requests on the bus, one letter per message: who sends it. A and B ask for
	// the same call, each under its own call id, and a letter that occurs twice is a caller
	// that asks again. X asks with the same key for another input.
	Asks string
	// Endings are what the tool may do when it runs.
	Endings []Ending

	Deliveries int // of one work message
	Watches    int // tries to end an attempt by deadline or cancel
	Cancels    int // of them, by the owner
	Ticks      int // steps of bus time
	Due        int // ticks from admission to deadline; 0 means 1

	Crashes   int // of any process
	Lost      int // acknowledgements lost after the write was applied
	Late      int // writes that arrive after their writer gave up waiting
	Recreates int // consumers made anew: everything is delivered again, counted from one
	Expiries  int // logs that expire after their retention, while processes still hold on to them

	Silences int  // the executors' heartbeats begin or end, which dispatchers are told
	Absent   bool // at first nobody of the pool beats
	Lags     int  // a dispatcher that lags refuses a request that opens an attempt

	// Lookup is what the request says of the tool. Builds before it wrote none.
	Lookup    call.Lookup
	Strangers int // events of an executor that breaks the protocol; see forge.go

	Dedup   bool // the store looks for repeated message ids before it compares sequences (R3)
	Suspect bool // heartbeats get lost: a live executor may be called gone
	Poison  bool // count the runs of an attempt exactly; they are not interesting otherwise

	Off Rule // the rule that is left out
	// Promises looks for broken promises only: what an observer could see. Otherwise every
	// event is held against the form that a log must have, which is found broken sooner.
	Promises bool
}

// Rule is one rule of the protocol, or the bit set of several.
type Rule uint32

// The rules that can be left out. The comments say what happens instead.
const (
	ClaimInLog      Rule = 1 << iota // claims are records of their own, beside the log
	Fingerprint                      // admission does not compare inputs
	Binding                          // call ids are not bound to attempts
	AdmissionCAS                     // admission writes whatever the log holds
	FreshSequence                    // deciders expect the sequence of the admission
	ConfirmOnly                      // "absent" from the tool's lookup is taken as leave to run
	AdmissionFence                   // a message counts for whatever attempt has its number now
	OwnNonce                         // a refused writer does not look for its own nonce
	LiveClaim                        // a claim is taken over while the claimer lives
	ClaimFirst                       // side-effectful calls run unclaimed on the first delivery
	ClaimSecond                      // other calls run unclaimed on every delivery
	ClaimOld                         // what is older than its consumer counts as delivered for the first time
	CountClaims                      // claims are not counted
	PhaseEffect                      // side-effectful attempts end as idempotent ones do
	JointEffect                      // the "none" of one run speaks for all runs of the attempt
	FinalStays                       // a final outcome is followed by another attempt
	OwnAttempt                       // a loser adopts the newest outcome, not its attempt's
	OutliveRequest                   // outcomes are kept for the retention only, however long requests live
	OutliveEarlier                   // events are kept by their own attempt's deadline only
	CarryOutcomes                    // later attempts do not carry earlier outcomes
	BeatFirst                        // what came before an executor's heartbeats counts as delivered for the first time
	LagNotFinal                      // a refusal by lag says that it is final
	UntakenFree                      // attempts that nobody can have taken count
	ClaimerSucceeds                  // another executor than the claimer may say success, with and without a lookup
	OthersGiveUp                     // others than the claimer may let a claimed attempt be retried
	OneStep                          // an event is believed to say what the log was before it
	KeepPlace                        // who has read the log expects the place of its last good event, and not its end
	GarbledCounts                    // what cannot be decoded leaves the attempt as it was
	GarbledWaits                     // executors start side-effectful attempts with an event that cannot be decoded
	RequestsStay                     // requests of bound logs are kept no longer than others
	OwnKey                           // tools are given the key as the caller wrote it
)

func (c Config) without(r Rule) bool { return c.Off&r != 0 }

// Ending is how a run of the tool ends.
type Ending uint8

// The endings. Success and Unsure leave an effect behind, Refused does not and says so.
const (
	Success   Ending = iota + 1
	Refused          // retryable error, effect none
	Unsure           // retryable error, effect unknown
	killed           // at the deadline, after the effect
	expired          // found past its deadline
	confirmed        // by the tool's lookup
	claimLost        // not confirmed by it
	poisoned
	timedOut  // by a guardian
	deserted  // by a guardian that finds nobody alive
	unbuilt   // by a guardian that finds that no live executor has the build
	cancelled // by the owner
)

func (c Config) due() int { return max(c.Due, 1) }

// tick is one step of bus time in milliseconds.
const tick = 20_000
