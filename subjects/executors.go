package subjects

import "strings"

const (
	exePrefix = "tb.exe."
	heard     = "heard"
	answers   = "ans"
)

// Operations of the executor API, the op of [ExecutorRequest]. Executors send them to dispatchers.
const (
	OpHello   = "hello"   // return bus time and the properties of the bus
	OpWork    = "work"    // create and return the consumers of the pool
	OpLog     = "log"     // return an event of a call of the pool
	OpBeat    = "beat"    // return the newest heartbeat of an executor of the pool
	OpLate    = "late"    // record the result of a run that came too late
	OpDead    = "dead"    // store a dead letter
	OpCovered = "covered" // report whether an event is in the audit record
	OpLocked  = "locked"  // return the safety locks in force
	OpNewest  = "newest"  // return a part of a payload, or the last frame of chunks, of the pool
	OpLogin   = "login"   // return the entry of a login at an MCP server, or store one
)

// ExecutorRequest returns the subject on which an executor of a pool sends requests to dispatchers.
func ExecutorRequest(op, pool, instance string) string {
	return tokens(exePrefix+word(op)+".", pool, instance)
}

// ExecutorRequestWildcard returns the subject filter of the requests of all executors for an operation.
func ExecutorRequestWildcard(op string) string { return exePrefix + word(op) + ".*.*" }

// ParseExecutorRequest is the inverse of [ExecutorRequest] for the operation op.
func ParseExecutorRequest(op, subject string) (pool, instance string, err error) {
	err = parse(subject, exePrefix+word(op)+".", &pool, &instance)
	return pool, instance, err
}

// ExecutorAnswers returns the prefix, with its last dot, of the subjects on which dispatchers answer an executor. The
// token after it is random. The executor makes one for each request, and sends it in [HeaderAnswer].
func ExecutorAnswers(pool, instance string) string {
	return tokens(exePrefix+answers+".", pool, instance) + "."
}

// ExecutorAnswersAll is the subject filter of the answers to all executors.
const ExecutorAnswersAll = exePrefix + answers + ".*.*.*"

// ExecutorAnswer returns the subject of the answer to a request of an executor. subject is the subject of the request,
// see [ExecutorRequest], and word is its [HeaderAnswer]. ok is false for any other subject, and if word is not one
// token of letters, digits, - and _ of at most 100 bytes.
func ExecutorAnswer(subject, word string) (to string, ok bool) {
	t := strings.Split(subject, ".")
	if len(t) != 5 || !strings.HasPrefix(subject, exePrefix) || strings.Contains(word, ".") || !answerWord(word) {
		return "", false
	}
	return exePrefix + answers + "." + t[3] + "." + t[4] + "." + word, true
}

// ExecutorReplyWildcard is the subject filter of the answers of all executors to [Kill] and [Locate].
const ExecutorReplyWildcard = exePrefix + heard + ".*.*.*"

// ExecutorReply returns the subject on which an executor answers a message of [Kill] or [Locate]. word is the random
// token in that message.
func ExecutorReply(pool, instance, word string) string {
	return tokens(exePrefix+heard+".", pool, instance, word)
}

// ParseExecutorReply is the inverse of [ExecutorReply].
func ParseExecutorReply(subject string) (pool, instance, word string, err error) {
	err = parse(subject, exePrefix+heard+".", &pool, &instance, &word)
	return pool, instance, word, err
}

// Elsewhere reports whether a reply subject is empty, or is one on which the NATS server or a process of Toolbus acts.
// Server permissions do not restrict the reply subjects that a client names, so a process must check them before it
// answers.
func Elsewhere(reply string) bool {
	return reply == "" || strings.HasPrefix(reply, "$") || strings.HasPrefix(reply, "tb.")
}
