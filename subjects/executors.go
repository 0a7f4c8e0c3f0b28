package subjects

import "strings"

const (
	exePrefix = "tb.exe."
	heard     = "heard"
	answers   = "ans"
)

// Operations that executors ask dispatchers for, the op of [ExecutorRequest].
const (
	OpHello   = "hello"   // bus time, and what the bus is like
	OpWork    = "work"    // the consumers of its pool
	OpLog     = "log"     // an event of a call of its pool
	OpBeat    = "beat"    // the newest heartbeat of a peer
	OpLate    = "late"    // to record what a run had to say too late
	OpDead    = "dead"    // to keep a call that is given up
	OpCovered = "covered" // whether an event is on record
	OpNewest  = "newest"  // a part of a payload, or the last frame of chunks, of its pool
)

// ExecutorRequest returns the subject on which an executor of a pool asks dispatchers.
func ExecutorRequest(op, pool, instance string) string {
	return tokens(exePrefix+word(op)+".", pool, instance)
}

// ExecutorRequestWildcard returns the subscription for an operation, whoever asks.
func ExecutorRequestWildcard(op string) string { return exePrefix + word(op) + ".*.*" }

// ParseExecutorRequest returns which executor asks on a subject of [ExecutorRequest] for op.
func ParseExecutorRequest(op, subject string) (pool, instance string, err error) {
	err = parse(subject, exePrefix+word(op)+".", &pool, &instance)
	return pool, instance, err
}

// ExecutorAnswers returns the prefix of the subjects on which dispatchers answer the questions of an executor. Behind
// it stands one word, which the executor makes for one question and names in [HeaderAnswer].
func ExecutorAnswers(pool, instance string) string {
	return tokens(exePrefix+answers+".", pool, instance) + "."
}

// ExecutorAnswersAll covers the answers to all executors.
const ExecutorAnswersAll = exePrefix + answers + ".*.*.*"

// ExecutorAnswer returns the subject of the answer to a question that an executor has asked on a subject of
// [ExecutorRequest] under a word. ok is false for any other subject, and for a word that is not one token of letters,
// digits, - and _ of at most 100 bytes.
func ExecutorAnswer(subject, word string) (to string, ok bool) {
	t := strings.Split(subject, ".")
	if len(t) != 5 || !strings.HasPrefix(subject, exePrefix) || strings.Contains(word, ".") || !answerWord(word) {
		return "", false
	}
	return exePrefix + answers + "." + t[3] + "." + t[4] + "." + word, true
}

// ExecutorReplyWildcard is where dispatchers hear what executors answer to a kill or a seek.
const ExecutorReplyWildcard = exePrefix + heard + ".*.*.*"

// ExecutorReply returns the subject on which an executor answers a kill or a seek, which names the word.
func ExecutorReply(pool, instance, word string) string {
	return tokens(exePrefix+heard+".", pool, instance, word)
}

// ParseExecutorReply is the inverse of [ExecutorReply].
func ParseExecutorReply(subject string) (pool, instance, word string, err error) {
	err = parse(subject, exePrefix+heard+".", &pool, &instance, &word)
	return pool, instance, word, err
}

// Elsewhere reports whether an answer to this reply subject would go to a subject that the server, or a process of
// Toolbus, acts on. Permissions do not cover reply subjects, so that whoever answers has to look.
func Elsewhere(reply string) bool {
	return reply == "" || strings.HasPrefix(reply, "$") || strings.HasPrefix(reply, "tb.")
}
