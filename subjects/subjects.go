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

// Subject filters of subscriptions.
const (
	CallWildcard   = callPrefix + "*.*.*" // requests of all callers, see [Call]; for dispatchers
	KillWildcard   = killPrefix + "*"     // see [Kill]; for executors
	LocateWildcard = seekPrefix + "*"     // see [Locate]; for executors
)

// Answers returns the prefix, with its last dot, of the subjects on which an actor of a tenant receives answers. After
// it stands a random token that the caller makes for one request, and that others cannot guess.
func Answers(tenant, actor string) string {
	return string(AppendAnswers(make([]byte, 0, typicalSize), tenant, actor))
}

// AppendAnswers appends [Answers] to b.
func AppendAnswers(b []byte, tenant, actor string) []byte {
	return append(appendTokens(b, answerPrefix, tenant, actor), '.')
}

// Inbox reports whether reply is a permitted reply subject for a request on subject, which is one of [Call] or
// [Service]: it must lie below [Answers] of the same actor. Server permissions do not restrict the reply subjects that
// a client names, so a process must check them before it answers.
func Inbox(subject, reply string) bool {
	tenant, actor, ok := CallerTokens(subject)
	rest, answers := strings.CutPrefix(reply, answerPrefix)
	rest, inTenant := strings.CutPrefix(rest, tenant+".")
	word, own := strings.CutPrefix(rest, actor+".")
	return ok && answers && inTenant && own && word != ""
}

// AnswerTo returns the subject of the answer to a request on subject. That is reply, if [Inbox] permits it. If the
// request came from another account, the server has replaced reply, and the answer goes to word, the [HeaderAnswer] of
// the request, below [Answers] of the actor. ok is false if neither is valid. The result always lies below Answers of
// the actor in subject.
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

// replacedReply is the prefix of the reply subjects that the server makes for requests between accounts.
const replacedReply = "_R_."

// maxAnswerWord is the largest length, in bytes, of the rest of a subject after the prefix of [Answers].
const maxAnswerWord = 100

// answerWord reports whether word consists of tokens of letters, digits, - and _, of at most maxAnswerWord bytes.
func answerWord(word string) bool {
	for token := range strings.SplitSeq(word, ".") {
		if token == "" || strings.Trim(token, tokenLetters) != "" {
			return false
		}
	}
	return len(word) <= maxAnswerWord
}

const tokenLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// Call returns the subject on which an actor of a tenant requests a call of a tool.
func Call(tenant, actor, tool string) string { return tokens(callPrefix, tenant, actor, tool) }

// ParseCall is the inverse of [Call]. The error names the first invalid token; the other names are returned all the
// same.
func ParseCall(subject string) (tenant, actor, tool string, err error) {
	err = parse(subject, callPrefix, &tenant, &actor, &tool)
	return tenant, actor, tool, err
}

// Service returns the subject on which an actor of a tenant requests the service operation op.
func Service(op, tenant, actor string) string {
	return svcPrefix + word(op) + "." + Token(tenant) + "." + Token(actor)
}

// CallerTokens returns the encoded tenant and actor in a subject of [Call], [Service] or [PartsReceived]. Server
// permissions enforce these tokens, also for names that cannot be decoded. ok is false for any other subject.
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

// ServiceWildcard returns the subject filter of the requests of all callers for an operation.
func ServiceWildcard(op string) string { return svcPrefix + word(op) + ".*.*" }

// ChunkSource identifies a run that emits chunks.
type ChunkSource struct {
	Tenant  string
	Actor   string
	ID      string // of the call
	Attempt int
	Fence   uint64 // fencing token of the run: a later run has a higher one
	Pool    string // of the executor; "" for older builds, which leave it out of the subject
}

// Subject returns the subject of the chunks of the run.
func (c ChunkSource) Subject() string {
	s := chunks(c.Tenant, c.Actor, c.ID) + "." + strconv.Itoa(c.Attempt) + "." + strconv.FormatUint(c.Fence, 10)
	if c.Pool != "" {
		s += "." + Token(c.Pool)
	}
	return s
}

// ChunksOn returns the subject filter of the chunks from all executors of a pool.
func ChunksOn(pool string) string { return chunkPrefix + "*.*.*.*.*." + Token(pool) }

// ChunkLive returns the subject filter of the chunks of all runs of a call.
func ChunkLive(tenant, actor, id string) string { return chunks(tenant, actor, id) + ".>" }

// ChunkProof returns the proof, in 32 hex digits, by which a caller recognises frames from the executor of its call. It
// is a hash of the id of the call and of the reply subject of the request that opened the attempt, which others cannot
// guess.
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

// JournalSubject returns the subject of the audit segments of a tenant that a dispatcher writes itself, not derived
// from the call log. process is the instance of the dispatcher.
func JournalSubject(process, tenant string) string { return auditOf("gate."+word(process), tenant) }

// JournalSubjectsOf returns the subject filter of [JournalSubject] for all tenants.
func JournalSubjectsOf(process string) string { return auditPrefix + "gate." + word(process) + ".*" }

// JournalSurplus returns the subject in the stream SURPLUS for the segments of [JournalSubject].
func JournalSurplus(process, tenant string) string {
	return surplusPrefix + "gate." + word(process) + "." + Token(tenant)
}

// Denied returns the subject of the segments with refusals of a tenant that a dispatcher writes.
func Denied(process, tenant string) string { return deniedOf(process) + Token(tenant) }

// DeniedOf returns the subject filter of [Denied] for all tenants.
func DeniedOf(process string) string { return deniedOf(process) + "*" }

// AuditOfTenant returns the subject filters of all messages of a tenant in the stream AUDIT.
func AuditOfTenant(tenant string) []string {
	of := auditOf("*", tenant)
	return []string{of, auditOf("gate.*", tenant), of + ".*.*"}
}

// SurplusOfTenant returns the subject filters of all messages of a tenant in the stream SURPLUS.
func SurplusOfTenant(tenant string) []string {
	return []string{surplusPrefix + "*." + Token(tenant), surplusPrefix + "gate.*." + Token(tenant)}
}

// DeniedOfTenant returns the subject filters of all refusals of a tenant.
func DeniedOfTenant(tenant string) []string { return []string{deniedPrefix + "*." + Token(tenant)} }

func deniedOf(process string) string { return deniedPrefix + word(process) + "." }

func auditOf(src, tenant string) string {
	b := append(append(make([]byte, 0, typicalSize), auditPrefix...), src...)
	return string(appendToken(append(b, '.'), tenant))
}

// Dead returns the subject of the dead letters of a tenant and tool.
func Dead(tenant, tool string) string { return tokens(deadPrefix, tenant, tool) }

// JoinerLeft is the subject on which dispatchers notify each other that a joiner no longer waits.
const JoinerLeft = "tb.ctl.left"

// DispatcherTools is the subject on which dispatchers notify each other of the tools that they have loaded.
const DispatcherTools = "tb.ctl.tools"

// Kill returns the subject on which dispatchers ask the executor of a call to end it.
func Kill(id string) string { return killPrefix + Token(id) }

// ParseKill is the inverse of [Kill].
func ParseKill(subject string) (id string, err error) {
	err = parse(subject, killPrefix, &id)
	return id, err
}

// Locate returns the subject on which dispatchers ask all executors which of them runs a call.
func Locate(id string) string { return seekPrefix + Token(id) }

// ParseLocate is the inverse of [Locate].
func ParseLocate(subject string) (id string, err error) {
	err = parse(subject, seekPrefix, &id)
	return id, err
}

// tokens returns prefix and the encoded names, separated by dots. It is the inverse of parse.
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

// split returns the tokens of a subject. It uses the memory of room if that is large enough.
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

// parse decodes the tokens after prefix into names. Their numbers must be equal. It sets all names that it can decode,
// and returns an error about the first invalid token.
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

// name parses a token. It returns "" for a digested one.
func name(token string) (string, error) {
	s, err := ParseToken(token)
	if errors.Is(err, ErrDigested) {
		return "", nil
	}
	return s, err
}
