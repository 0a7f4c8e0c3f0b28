package subjects

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Key names one log in its partition: a tool and an idempotency id. All its names start with
// the same prefix, so one filter covers the log. Use [Key.Ref] where a comparable value is needed:
// a parsed key of a very long tool id has no Tool (see the package comment).
type Key struct {
	Tool      string // tool id, plain
	ID        string
	Partition Partition // see [PartitionOf]; references do without
	// digest is the tool token of a parsed key whose tool id is not in it.
	digest string
}

// Ref returns the public reference to the call, which [ParseRef] reads: the start of the log's keys in the bucket,
// without the last dot.
func (k Key) Ref() string { return string(k.appendTo(make([]byte, 0, typicalSize))) }

// Filter returns the subject filter of the whole log. Every writer uses it in its expectation,
// and it must be the same string in each.
func (k Key) Filter() string {
	b := k.appendTo(k.Partition.appendPrefix(make([]byte, 0, typicalSize)))
	return string(append(b, ".>"...))
}

// Request returns the subject of the event that admits attempt n; executors pull it from a [Queue] of the pool.
func (k Key) Request(n int, version, queue, pool string) string {
	b := append(k.appendEvent(make([]byte, 0, typicalSize), n, KindRequest), '.')
	b = append(appendToken(b, version), '.')
	b = append(append(b, word(queue)...), '.')
	return string(appendToken(b, pool))
}

// Join returns the subject of the event that binds more callers to attempt n.
func (k Key) Join(n int) string {
	return string(k.appendEvent(make([]byte, 0, typicalSize), n, KindJoin))
}

// Claim returns the subject of the event by which an instance of an executor claims attempt n. It ends with
// the writer, so that the server can enforce who writes it.
func (k Key) Claim(n int, instance string) string { return k.event(n, KindClaim, instance) }

// Outcome returns the subject of the event by which an instance decides attempt n. Decisions share the
// token x, so that one filter finds them all; it ends with the writer, as [Key.Claim].
func (k Key) Outcome(n int, instance string) string {
	return k.event(n, decisions+"."+KindOutcome, instance)
}

const decisions = "x"

// typicalSize is what most subjects need: made in so much of the stack, they cost one allocation.
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

// appendTo appends the prefix of the key.
func (k Key) appendTo(b []byte) []byte {
	if k.digest != "" {
		b = append(b, k.digest...)
	} else {
		b = appendToken(b, k.Tool)
	}
	return appendToken(append(b, '.'), k.ID)
}

// ParseRef is the inverse of [Key.Ref].
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

// Event is a parsed subject of the call log. Version, Queue and Pool are set for requests, Instance for
// claims and decisions.
type Event struct {
	Key      Key
	Attempt  int
	Kind     string
	Version  string
	Queue    string
	Pool     string
	Instance string // that wrote it
}

// Writer returns the instance that the last token of a claim or a decision names, or the token itself if it names
// none; "" of other subjects. An executor chooses all but that token, so [ParseEvent] may refuse the subject.
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

// ParseEvent parses a subject made by the methods of [Key].
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

// natural parses a positive decimal in its canonical form.
func natural(s string) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n > 0 && strconv.Itoa(n) == s
}

// Queue returns the name of a queue of each pool: of the requests of one priority, "" being normal, that go ahead, or
// of those that go behind them.
func Queue(prio string, behind bool) string {
	prio = cmp.Or(prio, "normal")
	if behind {
		return prio + overflowSuffix
	}
	return prio
}

// ParseQueue is the inverse of [Queue].
func ParseQueue(queue string) (prio string, behind bool) {
	prio, behind = strings.CutSuffix(queue, overflowSuffix)
	if prio == "" {
		return queue, false
	}
	return prio, behind
}

const overflowSuffix = "-behind"

// Queues returns the names of all queues of a pool.
func Queues() (all []string) {
	for _, prio := range []string{"high", "normal", "low"} {
		all = append(all, Queue(prio, false), Queue(prio, true))
	}
	return all
}

// Worker returns the durable name of the consumer behind [Partition.WorkFilter], the same in each partition.
func Worker(pool, queue string) string { return "exec_" + Token(pool) + "_" + word(queue) }

// PoolSubject returns the subject of an executor's heartbeat in the pools bucket.
func PoolSubject(pool, executor string) string { return tokens(poolsPrefix, pool, executor) }

// PoolFilter matches the subjects of all executors of a pool.
func PoolFilter(pool string) string { return poolsPrefix + Token(pool) + ".*" }

// ParsePool is the inverse of [PoolSubject].
func ParsePool(subject string) (pool, executor string, err error) {
	err = parse(subject, poolsPrefix, &pool, &executor)
	return pool, executor, err
}
