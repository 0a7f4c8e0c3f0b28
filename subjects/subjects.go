package subjects

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	callPrefix   = "tb.call."
	svcPrefix    = "tb.svc."
	chunkPrefix  = "tb.chunk."
	auditPrefix  = "tb.audit."
	deniedPrefix = "tb.denied."
	deadPrefix   = "tb.dead."
	killPrefix   = "tb.ctl.kill."
	seekPrefix   = "tb.ctl.seek."

	payloadPrefix = "tb.payload."
	partPrefix    = "tb.part."
	inboxPrefix   = "_INBOX."

	answerPrefix = "tb.ans."
)

// Wildcards that processes subscribe to.
const (
	CallWildcard = callPrefix + "*.*.*"
	KillWildcard = killPrefix + "*"
	// LocateWildcard is what executors subscribe to in order to say what they run.
	LocateWildcard = seekPrefix + "*"
)

// Answers returns the prefix of the subjects on which an actor of a tenant waits for answers. Behind it
// stands a word that the caller made for one call, and that nobody else can guess.
func Answers(tenant, actor string) string {
	return string(AppendAnswers(make([]byte, 0, typicalSize), tenant, actor))
}

// AppendAnswers appends [Answers] to b.
func AppendAnswers(b []byte, tenant, actor string) []byte {
	return append(appendTokens(b, answerPrefix, tenant, actor), '.')
}

// Inbox reports whether the sender of a request on subject, one of [Call] or [Service], may be answered
// at reply: only below the prefix of that subject's own actor. Permissions do not cover reply subjects, so
// that whoever answers has to look.
func Inbox(subject, reply string) bool {
	tenant, actor, ok := CallerTokens(subject)
	rest, answers := strings.CutPrefix(reply, answerPrefix)
	rest, inTenant := strings.CutPrefix(rest, tenant+".")
	word, own := strings.CutPrefix(rest, actor+".")
	return ok && answers && inTenant && own && word != ""
}

// AnswerTo returns where the sender of a request on subject is answered: at its reply, if [Inbox] lets it be; where a
// question crossed the border of an account, the server has put a reply of its own there, and the sender has said the
// rest of its subject in [HeaderAnswer], too. It is below the prefix of the subject's actor in any case.
func AnswerTo(subject, reply, word string) (to string, ok bool) {
	if Inbox(subject, reply) {
		return reply, true
	}
	tenant, actor, ok := CallerTokens(subject)
	if !ok || !strings.HasPrefix(reply, replacedReply) || !answerWord(word) {
		return "", false
	}
	return answerPrefix + tenant + "." + actor + "." + word, true
}

// replacedReply starts the replies that the server makes at the border of an account.
const replacedReply = "_R_."

// maxAnswerWord bounds what stands behind the prefix of [Answers].
const maxAnswerWord = 100

// answerWord reports whether word is tokens of letters, digits, - and _.
func answerWord(word string) bool {
	for token := range strings.SplitSeq(word, ".") {
		if token == "" || strings.Trim(token, tokenLetters) != "" {
			return false
		}
	}
	return len(word) <= maxAnswerWord
}

const tokenLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// Call returns the subject on which an actor of a tenant asks for a call of a tool.
func Call(tenant, actor, tool string) string { return tokens(callPrefix, tenant, actor, tool) }

// ParseCall is the inverse of [Call]. Beside an error, which says what is no token, it returns the names that
// could be read.
func ParseCall(subject string) (tenant, actor, tool string, err error) {
	err = parse(subject, callPrefix, &tenant, &actor, &tool)
	return tenant, actor, tool, err
}

// Service returns the subject of a service operation for an actor of a tenant.
func Service(op, tenant, actor string) string {
	return svcPrefix + word(op) + "." + Token(tenant) + "." + Token(actor)
}

// CallerTokens returns the tenant and actor tokens of a subject of [Call], [Service] or [PartsReceived]: what the
// bus enforces, also for names too long to be read back. ok is false for any other subject.
func CallerTokens(subject string) (tenant, actor string, ok bool) {
	var room [8]string
	t := split(subject, &room)
	switch {
	case len(t) == 7 && strings.HasPrefix(subject, partPrefix):
		return t[2], t[3], true
	case len(t) != 5:
	case strings.HasPrefix(subject, callPrefix):
		return t[2], t[3], true
	case strings.HasPrefix(subject, svcPrefix):
		return t[3], t[4], true
	}
	return "", "", false
}

// ServiceWildcard returns the subscription for an operation, whoever asks.
func ServiceWildcard(op string) string { return svcPrefix + word(op) + ".*.*" }

// ChunkSource says which run of which call emitted a chunk. A higher Fence is a later run.
type ChunkSource struct {
	Tenant  string
	Actor   string
	ID      string
	Attempt int
	Fence   uint64
	Pool    string // of the executor that emitted it; "" where its subjects do not say it
}

// Subject returns the subject of the chunks of the run.
func (c ChunkSource) Subject() string {
	s := chunks(c.Tenant, c.Actor, c.ID) + "." + strconv.Itoa(c.Attempt) + "." + strconv.FormatUint(c.Fence, 10)
	if c.Pool != "" {
		s += "." + Token(c.Pool)
	}
	return s
}

// ChunksOn returns the subjects of all chunks of a pool's executors, whoever they are for.
func ChunksOn(pool string) string { return chunkPrefix + "*.*.*.*.*." + Token(pool) }

// ChunkLive returns the subscription for the chunks of all runs of a call.
func ChunkLive(tenant, actor, id string) string { return chunks(tenant, actor, id) + ".>" }

// ChunkProof returns what the frames of a call carry to show that its executor sent them: a hash of the reply subject
// of the request that opened the attempt, which nobody can guess, and of the id of the call. It is 32 hex digits.
func ChunkProof(reply, id string) string {
	sum := sha256.Sum256([]byte(reply + "\n" + id))
	return hex.EncodeToString(sum[:16])
}

func chunks(tenant, actor, id string) string { return tokens(chunkPrefix, tenant, actor, id) }

// ParseChunk is the inverse of [ChunkSource.Subject].
func ParseChunk(subject string) (ChunkSource, error) {
	var c ChunkSource
	var attempt, fence string
	names := []*string{&c.Tenant, &c.Actor, &c.ID, &attempt, &fence, &c.Pool}
	if strings.Count(subject, ".") == strings.Count(chunkPrefix, ".")+4 {
		names = names[:5]
	}
	if err := parse(subject, chunkPrefix, names...); err != nil {
		return ChunkSource{}, err
	}
	var err error
	var ok bool
	c.Fence, err = strconv.ParseUint(fence, 10, 64)
	c.Attempt, ok = natural(attempt)
	if err != nil || !ok || strconv.FormatUint(c.Fence, 10) != fence {
		return ChunkSource{}, fmt.Errorf("%w: %.300q", errSubject, subject)
	}
	return c, nil
}

// JournalSubject returns the subject of the segments of a tenant that a process writes of its own.
func JournalSubject(process, tenant string) string { return auditOf("gate."+word(process), tenant) }

// JournalSubjectsOf returns the filter of all segments that a process writes of its own.
func JournalSubjectsOf(process string) string { return auditPrefix + "gate." + word(process) + ".*" }

// Denied returns the subject of the segments of a tenant's refusals by a process.
func Denied(process, tenant string) string { return deniedOf(process) + Token(tenant) }

// DeniedOf returns the filter of all refusals by a process.
func DeniedOf(process string) string { return deniedOf(process) + "*" }

// AuditOfTenant returns the filters of all of a tenant that is in AUDIT, also what builds before segments wrote.
func AuditOfTenant(tenant string) []string {
	of := auditOf("*", tenant)
	return []string{of, auditOf("gate.*", tenant), of + ".*.*"}
}

// DeniedOfTenant returns the filters of all refusals of a tenant.
func DeniedOfTenant(tenant string) []string { return []string{deniedPrefix + "*." + Token(tenant)} }

func deniedOf(process string) string { return deniedPrefix + word(process) + "." }

func auditOf(src, tenant string) string {
	b := append(append(make([]byte, 0, typicalSize), auditPrefix...), src...)
	return string(appendToken(append(b, '.'), tenant))
}

// Dead returns the subject under which a call that could not be run is kept.
func Dead(tenant, tool string) string { return tokens(deadPrefix, tenant, tool) }

// JoinerLeft is where dispatchers hear of joiners that do not wait any more.
const JoinerLeft = "tb.ctl.left"

// Kill returns the subject that tells the executor of a call to end it.
func Kill(id string) string { return killPrefix + Token(id) }

// ParseKill is the inverse of [Kill].
func ParseKill(subject string) (id string, err error) {
	err = parse(subject, killPrefix, &id)
	return id, err
}

// Locate returns the subject on which executors are asked who of them runs an attempt of a call.
func Locate(id string) string { return seekPrefix + Token(id) }

// ParseLocate is the inverse of [Locate].
func ParseLocate(subject string) (id string, err error) {
	err = parse(subject, seekPrefix, &id)
	return id, err
}

// tokens is the inverse of parse.
func tokens(prefix string, names ...string) string {
	return string(appendTokens(make([]byte, 0, typicalSize), prefix, names...))
}

func appendTokens(b []byte, prefix string, names ...string) []byte {
	b = append(b, prefix...)
	for i, n := range names {
		if i > 0 {
			b = append(b, '.')
		}
		b = appendToken(b, n)
	}
	return b
}

// split returns the tokens of a subject, in room if that has room for them.
func split(subject string, room *[8]string) []string {
	t := room[:0]
	for {
		token, rest, more := strings.Cut(subject, ".")
		if t = append(t, token); !more {
			return t
		}
		subject = rest
	}
}

// parse reads the tokens behind prefix into names, of which there must be as many. It sets those that
// are one, and its error is about the first that is none.
func parse(subject, prefix string, names ...*string) error {
	rest, ok := strings.CutPrefix(subject, prefix)
	var room [8]string
	tokens := split(rest, &room)
	if !ok || len(tokens) != len(names) {
		return fmt.Errorf("%w: %.300q", errSubject, subject)
	}
	var first error
	for i, t := range tokens {
		var err error
		if *names[i], err = name(t); first == nil {
			first = err
		}
	}
	return first
}

// name parses a token; a digested one gives the empty string.
func name(token string) (string, error) {
	s, err := ParseToken(token)
	if errors.Is(err, ErrDigested) {
		return "", nil
	}
	return s, err
}
