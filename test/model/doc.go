// Package model checks the protocol of a call by visiting every state that it can reach.
//
// It is an explicit-state model checker of some hundred lines (explore.go) around a model of
// everything that surrounds package call: the store, two executors, dispatchers, guardians, the
// owner who cancels, callers and the tool. What the processes may do next they ask the functions
// that the product runs: call.Fold, Admit, JoinAll, Take, Fence, Decide, State.Wrote,
// Entry.Outcomes and Expiry.TTL; events go through kv.EncodeEvent and ParseEvent. The model has no
// protocol of its own.
//
// # The world
//
// A world (world.go) is the stored log, the work messages, and every process with what it holds in
// memory. Steps are: a request reaches a dispatcher (dispatcher.go); a message is delivered, taken,
// claimed, run, decided, replied and acknowledged by an executor (executor.go); an attempt is timed
// out or cancelled (guardian.go); time passes, messages are delivered again, the consumer is made
// anew, the log expires (environment.go); a write is applied or refused, its answer is lost, or it
// arrives after its writer has given up waiting (store.go). Any process may be frozen anywhere,
// because no step is ever forced. A crash of an executor loses its memory and lets its instance be
// found gone; a crash of a dispatcher or guardian is a freeze without end. Reading and the step
// that is computed from it are one only where nothing can tell the difference: a write that is
// refused is read up at once, because a refusal at an earlier time would have changed nothing.
//
// In every state must hold (check.go): each caller is told one outcome, of its own input, found
// whenever it is asked for; a side-effectful key has one effect at most; after "effect none" and
// after a success there is no effect; a success has one; two runs never have the same fence; a
// poison call stops; nobody takes over the claim of a live executor, or his own decision for
// another's; nothing follows a final outcome; and no attempt is doomed: a guardian left alone with
// it could decide it.
//
// # Bounds
//
// Three requests (A twice and B, or with another input X), so two attempts; two executors; two or
// three deliveries of a message; one or two tries to time out or cancel, one of them a cancel;
// one or two crashes, lost answers and late writes; one new consumer or one expired log. The small
// configurations of model_test.go have 4.6 million states and take about 13 seconds of one core;
// the huge ones (-args -large, for make nightly) have 100 million, of which 24 million in one
// configuration, and take ten minutes and 3 GB. States are remembered by a 64-bit hash.
//
// One or two events are written by an executor that does not keep to the protocol (forge.go): it changes whatever it
// likes in what the log says, or writes what cannot be decoded, also after a run without a claim. Left out are a claim
// of what nobody has claimed, and a success where the tool has a lookup: there it is believed.
//
// Heartbeats begin and end, of all executors at once. One without fresh ones may still be handed messages, and run
// what it has in hand: it is frozen, or cannot reach the server. A guardian knows of a message that nobody has beaten
// since it was stored, as it was when the guardian looked.
//
// retention.go is a second, smaller model, without races but with real times: callers ask with
// short and long timeouts, and events expire as call.Expiry says. It takes for granted that an open
// attempt is decided before the event that opened it expires. repeats.go is one of a key that is asked for again and
// again, while requests are stored too late and executors come too late: it is used up by attempts that ran, and by
// nothing else. keys.go is one of two calls whose callers use the same key. lies.go lets another executor write two of
// the events of forge.go into the log of a side-effectful call, at any time: before the claim, under it and after the
// outcome. There each reader folds the events that have not expired. No lie is an outcome, and until the retention of
// the outcome ends, all readers find the one that a follower observed first. It has 31,000 states and takes a second.
//
// # Rules that are needed
//
// rules_test.go leaves out one rule at a time, by changing what the functions are asked or what
// they answered, and finds the shortest way to a promise that an observer sees broken
// (go test -v -run Needed prints them):
//
//	rule left out                          steps  what is seen then
//	claim in the log                           7  told "effect none", but there was one
//	fingerprint at admission                   7  told the outcome of another input
//	binding of call ids to attempts            8  told two outcomes
//	compare-and-set at admission               7  told two outcomes of one attempt
//	fresh sequence after 10071                 3  an attempt that nobody can decide
//	lookup only confirms                       8  a second effect
//	admission fence                           12  told the outcome of another input
//	own nonce                                  5  a winner believes that it lost
//	live claims stay                           5  a running call is given up
//	side-effectful calls claim first           6  told "effect none", but there was one
//	second deliveries claim                    5  two runs with one fence
//	what is older than its consumer claims     6  two runs with one fence
//	claims are counted                        26  a poison call runs for ever
//	retry only after effect none              12  a second effect
//	"none" speaks for one run only             9  told "effect none", but there was one
//	final outcomes stay                       12  a second effect
//	losers adopt their attempt's outcome       9  told two outcomes
//	heartbeats come before first deliveries    6  told "effect none", but there was one
//	a refusal by lag is not final              4  told two outcomes
//	success comes from the claimer             4  told a success without an effect
//	others only give a claimed attempt up      6  told "effect none", but there was one
//	an event is one step from the one before   2  told a success without an effect
//	what cannot be decoded may have run        4  an end that says "none"
//	attempts that may have run do not start    7  a second effect
//	strangers' events take their place         2  an attempt that nobody can decide
//	attempts that nobody took do not count    22  a key used up by a tool that never ran
//	tools get a key of their own call's        7  told the effect of another's call
//	outcomes outlive requests                  3  a decided call is open again
//	requests of bound logs stay                4  told two outcomes, one of them a lie
//	events outlive earlier ones                7  a decided attempt is as if it had never been
//	earlier outcomes are carried               6  an outcome that is bound to cannot be found
//
// # Not modelled
//
// Two-phase calls; streams, audit and replies, except that they may be late; deadlines of joiners;
// several joiners in one event; leader change and reads from a deposed leader, except that every
// read may be stale; a lost tail of the log after a power cut; a full store; clocks that differ.
// An executor that is frozen longer than the retention between its last look at the clock and the
// start of its tool can do harm: the model leaves that out.
package model
