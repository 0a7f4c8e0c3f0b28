package subjects

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Key identifies the log of one call by tool and idempotency id. The subjects of all its events start with the same
// prefix, so one filter selects the log. To compare keys, use [Key.Ref]: a parsed key with a very long tool id has an
// empty Tool (see the package comment).
type Key struct {
	Tool      string // tool id, not encoded
	ID        string
	Partition Partition // see [PartitionOf]; not part of Ref
	// digest is the tool token of a parsed key if the tool id cannot be decoded from it.
	digest string
}

// Ref returns the public reference to the call, <tool>.<id>, which [ParseRef] parses. The keys of its events in the
// bucket start with it.
func (k Key) Ref() string { return string(k.appendTo(make([]byte, 0, typicalSize))) }

// Filter returns the subject filter of all events of the log. Every writer must use this same string in the expectation
// of its compare-and-set.
func (k Key) Filter() string {
	b := k.appendTo(k.Partition.appendPrefix(make([]byte, 0, typicalSize)))
	return string(append(b, ".>"...))
}

// Requests returns the subject filter of the requests of the log.
func (k Key) Requests() string {
	b := k.appendTo(k.Partition.appendPrefix(make([]byte, 0, typicalSize)))
	return string(append(b, ".*."+KindRequest+".>"...))
}

// Request returns the subject of the event that admits attempt n. Executors pull the event from that [Queue] of the
// pool.
func (k Key) Request(n int, version, queue, pool string) string {
	b := append(k.appendEvent(make([]byte, 0, typicalSize), n, KindRequest), '.')
	b = append(appendToken(b, version), '.')
	b = append(append(b, word(queue)...), '.')
	return string(appendToken(b, pool))
}

// Join returns the subject of the event that adds callers to attempt n.
func (k Key) Join(n int) string {
	return string(k.appendEvent(make([]byte, 0, typicalSize), n, KindJoin))
}

// Claim returns the subject of the event by which the executor instance claims attempt n. Its last token is the
// instance, so that server permissions can restrict who writes it.
func (k Key) Claim(n int, instance string) string { return k.event(n, KindClaim, instance) }

// Outcome returns the subject of the event by which an instance decides attempt n. Its last token is the instance, as
// in [Key.Claim]. The token x before the kind is the same for all kinds of decisions.
func (k Key) Outcome(n int, instance string) string {
	return k.event(n, decisions+"."+KindOutcome, instance)
}

const decisions = "x"

// Marker returns the subject of what an operator writes to the log. [ParseEvent] refuses it.
func (k Key) Marker() string {
	return string(k.appendEvent(make([]byte, 0, typicalSize), 1, decisions))
}

// typicalSize is a size, in bytes, that most subjects do not exceed. A buffer of this size stays on the stack, so that
// a subject costs one allocation.
const typicalSize = 160

func (k Key) event(n int, kind, instance string) string {
	b := append(k.appendEvent(make([]byte, 0, typicalSize), n, kind), '.')
	return string(appendToken(b, instance))
}

func (k Key) appendEvent(b []byte, n int, kind string) []byte {
	b = append(k.appendTo(k.Partition.appendPrefix(b)), '.')
	b = append(strconv.AppendInt(b, int64(n), 10), '.')
	return append(b, kind...)
}

// appendTo appends <tool>.<id> to b.
func (k Key) appendTo(b []byte) []byte {
	if k.digest != "" {
		b = append(b, k.digest...)
	} else {
		b = appendToken(b, k.Tool)
	}
	return appendToken(append(b, '.'), k.ID)
}

// ParseRef is the inverse of [Key.Ref]. The Partition of the result is not set.
func ParseRef(ref string) (Key, error) {
	tool, id, ok := strings.Cut(ref, ".")
	if !ok {
		return Key{}, fmt.Errorf("%w: call reference %.120q", errSubject, ref)
	}
	key, err := parseKey(tool, id)
	if err != nil {
		return Key{}, fmt.Errorf("call reference: %w", err)
	}
	return key, nil
}

func parseKey(tool, id string) (key Key, err error) {
	if key.ID, err = ParseToken(id); err != nil {
		return Key{}, err
	}
	key.Tool, err = ParseToken(tool)
	if errors.Is(err, ErrDigested) {
		return Key{ID: key.ID, digest: tool}, nil
	}
	return key, err
}

// Event is a parsed subject of the call log. Version, Queue and Pool are set for requests, Instance for claims and
// decisions. A name that was too long for its token is "".
type Event struct {
	Key      Key
	Attempt  int
	Kind     string // KindRequest, KindJoin, KindClaim or KindOutcome
	Version  string
	Queue    string
	Pool     string
	Instance string // the writer
}

// Writer returns the instance in the last token of the subject of a claim or a decision. If the token cannot be
// decoded, it returns the token itself. It returns "" for other subjects. Server permissions restrict only the last
// token, so an executor can write to subjects that [ParseEvent] refuses.
func Writer(subject string) (instance string) {
	_, rest, ok := cutPart(subject)
	t := strings.Split(rest, ".")
	claim := len(t) == 5 && t[3] == KindClaim
	if !ok || !claim && !(len(t) == 6 && t[3] == decisions && t[4] == KindOutcome) {
		return ""
	}
	instance, err := ParseToken(t[len(t)-1])
	if err != nil || instance == "" {
		return t[len(t)-1]
	}
	return instance
}

var errSubject = errors.New("not a subject of this kind")

// ParseEvent parses a subject that [Key.Request], [Key.Join], [Key.Claim] or [Key.Outcome] returned. The error is not
// nil for any other subject.
func ParseEvent(subject string) (Event, error) {
	e, err := parseEvent(subject)
	if err != nil {
		return Event{}, fmt.Errorf("call event %.300q: %w", subject, err)
	}
	return e, nil
}

func parseEvent(subject string) (e Event, err error) {
	part, rest, ok := cutPart(subject)
	var room [8]string
	t := split(rest, &room)
	if !ok || len(t) < 4 {
		return e, errSubject
	}
	if e.Key, err = parseKey(t[0], t[1]); err != nil {
		return e, err
	}
	e.Key.Partition = part
	if e.Attempt, ok = natural(t[2]); !ok {
		return e, errSubject
	}
	e.Kind = t[3]
	switch {
	case e.Kind == KindRequest && len(t) == 7:
		return e, e.parseRoute(t[4], t[5], t[6])
	case e.Kind == KindJoin && len(t) == 4:
		return e, nil
	case e.Kind == KindClaim && len(t) == 5:
		e.Instance, err = name(t[4])
		return e, err
	case e.Kind == decisions && len(t) == 6 && t[4] == KindOutcome:
		e.Kind = KindOutcome
		e.Instance, err = name(t[5])
		return e, err
	}
	return e, errSubject
}

func (e *Event) parseRoute(version, queue, pool string) (err error) {
	if e.Version, err = name(version); err != nil {
		return err
	}
	if e.Queue, err = parseWord(queue); err != nil {
		return err
	}
	e.Pool, err = name(pool)
	return err
}

// natural parses a positive decimal number without leading zeros.
func natural(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n > 0 && strconv.Itoa(n) == s
}

// Steps is the number of queues of each priority of a pool.
const Steps = 4

// Queue returns the name of the queue for requests of a priority, which is high, normal or low; "" means normal. step
// is less than [Steps]. Builds that know only two queues of a priority have those of the first and the last step.
func Queue(prio string, step int) string { return cmp.Or(prio, "normal") + suffixes()[step] }

// ParseQueue is the inverse of [Queue].
func ParseQueue(queue string) (prio string, step int) {
	for step, suffix := range suffixes() {
		if prio, ok := strings.CutSuffix(queue, suffix); ok && step > 0 && prio != "" {
			return prio, step
		}
	}
	return queue, 0
}

// suffixes returns what the names of queues end with, by step.
func suffixes() [Steps]string { return [Steps]string{"", "-second", "-third", "-behind"} }

// Queues returns the names of the twelve queues that each pool has.
func Queues() (all []string) {
	for step := range Steps {
		for _, prio := range []string{"high", "normal", "low"} {
			all = append(all, Queue(prio, step))
		}
	}
	return all
}

// Worker returns the name of the durable consumer of a queue, whose filter is [Partition.WorkFilter]. It is the same in
// each partition.
func Worker(pool, queue string) string { return "exec_" + Token(pool) + "_" + word(queue) }

// PoolSubject returns the subject of an executor's heartbeat in the pools bucket.
func PoolSubject(pool, executor string) string { return tokens(poolsPrefix, pool, executor) }

// PoolFilter returns the filter of the heartbeats of all executors of a pool.
func PoolFilter(pool string) string { return poolsPrefix + Token(pool) + ".*" }

// ParsePool is the inverse of [PoolSubject].
func ParsePool(subject string) (pool, executor string, err error) {
	err = parse(subject, poolsPrefix, &pool, &executor)
	return pool, executor, err
}
