// Package outcome ends attempts and finds their outcomes: the one piece of code with which executor, deadline timer,
// guardian and canceller decide. What may be decided is a pure function, [call.Decide]; [Resolve] repeats it against
// the log until an outcome stands, its own or another's, and builds the response that is stored. [Load] finds one that
// stands already. Start reading at outcome.go; ignored.go lists what was asked for in vain.
package outcome
