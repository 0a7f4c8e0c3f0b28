package kv

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// An event travels in a header as one line of text: its form, then a record for the facts of the call and one for
// each attempt, the latter followed by records for its joiners, its claim and its decision if it has them.
//
//	3;f|<tenant>|<fn>|…;a|<call id>|<actor>|…;c|<nonce>|…;d|<nonce>|…;
//
// It is written and read with every durable write and by every follower, which is why it is no JSON: that took a
// tenth of all CPU time of a call. It holds the whole state after it, so that it folds alone, also when all before
// it have expired; and nothing that its key says already, which is why both are read together. The methods of
// [eventCoder] list the fields once, for both directions. docs/compatibility.md says how to add one.
type eventCoder struct {
	coder
	key subjects.Event // of the event that is coded
	now call.Event     // the same
}

// The letters of the records.
const (
	factsRecord    = 'f'
	attemptRecord  = 'a'
	joinersRecord  = 'j'
	claimRecord    = 'c'
	decisionRecord = 'd'
)

var errMalformed = errors.New("malformed event header")

// EncodeEvent returns the value of the header Tb-Event for e.
func EncodeEvent(e call.Event) string {
	c := eventCoder{now: e}
	c.out = make([]byte, 0, 512+384*len(e.State.Attempts))
	c.out = append(strconv.AppendInt(c.out, int64(format.Event.Current()), 10), ';')
	c.facts(&e.State.Pinned)
	for i := range e.State.Attempts {
		a := e.State.Attempts[i]
		c.attempt(&a, i+1)
	}
	return string(c.out)
}

// DecodeEvent reads the event of a stored message from its subject and its headers. The error is a [format.Error] if
// this build does not read the format of the event. Any other error means that the message is not an event.
func DecodeEvent(subject string, h nats.Header) (call.Event, error) {
	raw := h.Get(subjects.HeaderEvent)
	if raw == "" {
		return call.Event{}, errors.New("no event header")
	}
	return ParseEvent(subject, raw)
}

// ParseEvent reads an event from its subject and the value of its header Tb-Event. Its errors are those of
// [DecodeEvent].
func ParseEvent(subject, raw string) (call.Event, error) {
	number, rest, _ := strings.Cut(raw, ";")
	n, err := strconv.Atoi(number)
	if old := strings.HasPrefix(raw, "1|"); old {
		n, err = 1, nil
	}
	if err != nil {
		return call.Event{}, errMalformed
	}
	if err := format.Event.Check(n); err != nil {
		return call.Event{}, err
	}
	key, err := subjects.ParseEvent(subject)
	if err != nil {
		return call.Event{}, err
	}
	return readEvent(key, rest)
}

func readEvent(key subjects.Event, records string) (call.Event, error) {
	c := eventCoder{key: key, coder: coder{rest: records, reading: true, escapes: strings.IndexByte(records, '%') >= 0}}
	e := &c.now
	e.Kind, e.Attempt = call.Kind(key.Kind), key.Attempt
	e.State.ID, e.State.Partition = key.Key.ID, key.Key.Partition
	if c.bad = !c.next(factsRecord); !c.bad {
		c.facts(&e.State.Pinned)
	}
	for c.next(attemptRecord) {
		e.State.Attempts = append(e.State.Attempts, call.Attempt{})
		c.attempt(&e.State.Attempts[len(e.State.Attempts)-1], len(e.State.Attempts))
	}
	switch {
	case c.unknown != nil:
		return call.Event{}, c.unknown
	case c.bad || c.rest != "":
		return call.Event{}, errMalformed
	}
	e.Nonce = written(*e)
	if err := e.Check(); err != nil {
		return call.Event{}, fmt.Errorf("%w: %.200q", err, records)
	}
	return *e, nil
}

// written returns the nonce with which an event was written; those of joins are not kept.
func written(e call.Event) string {
	a, _ := e.State.Attempt(e.Attempt)
	switch {
	case e.Kind == call.Requested:
		return a.Nonce
	case e.Kind == call.Claimed && a.Claim != nil:
		return a.Claim.Nonce
	case e.Kind == call.Decided && a.Decision != nil:
		return a.Decision.Nonce
	}
	return ""
}

// keyed codes a name that the key of an event of this kind says, or of any kind, unless it is too long for that.
func keyed[T ~string](c *eventCoder, v *T, kind call.Kind, byKey string) {
	name, elide := *v, kind == "" || c.now.Kind == kind
	if !c.reading && elide && subjects.Legible(string(name)) {
		name = ""
	}
	if text(&c.coder, &name); !c.reading {
		return
	}
	c.bad = c.bad || elide && name != "" && subjects.Legible(string(name)) // the key says it, and may say another
	if *v = name; elide && name == "" {
		*v = T(byKey)
	}
}

func (c *eventCoder) facts(f *call.Pinned) {
	if !c.reading {
		c.begin(factsRecord)
	}
	text(&c.coder, &f.Tenant)
	text(&c.coder, &f.Fn)
	keyed(c, &f.Version, call.Requested, c.key.Version)
	keyed(c, &f.Pool, call.Requested, c.key.Pool)
	keyed(c, &f.Tool, "", c.key.Key.Tool)
	enum(&c.coder, &f.Class, classes)
	number(&c.coder, &f.KeepSeconds)
	hash(&c.coder, &f.Digest)
	hash(&c.coder, &f.Fingerprint)
	hash(&c.coder, &f.ArgsHash)
	flag(&c.coder, &f.DryRun)
	text(&c.coder, &f.Env)
	hash(&c.coder, &f.Artifact)
	hash(&c.coder, &f.Policy)
	enum(&c.coder, &f.Lookup, lookups)
	flag(&c.coder, &f.External)
	c.end(&f.More)
}

// attempt codes the n-th attempt and what belongs to it.
func (c *eventCoder) attempt(a *call.Attempt, n int) {
	if !c.reading {
		c.begin(attemptRecord)
	}
	c.owner(&a.Owner)
	text(&c.coder, &a.Nonce)
	number(&c.coder, &a.Admitted)
	number(&c.coder, &a.At)
	since(&c.coder, &a.Deadline, a.At)
	c.queue(a, n)
	c.counted(&a.N, n)
	text(&c.coder, &a.Ignored)
	flag(&c.coder, &a.Strict)
	text(&c.coder, &a.Owner.Scopes)
	flag(&c.coder, &a.Undecoded)
	text(&c.coder, &a.Owner.Policy)
	flag(&c.coder, &a.Writes)
	text(&c.coder, &a.Owner.Scope)
	if !c.reading && a.More == "" && format.Member != "" {
		a.More = "|" + format.Member
	}
	c.end(&a.More)
	c.joiners(a)
	if c.has(claimRecord, a.Claim != nil) {
		c.claim(a)
	}
	if c.has(decisionRecord, a.Decision != nil) {
		c.decision(a)
	}
}

// has reports whether a record follows: read, if it is there; written, if it is to be.
func (c *eventCoder) has(letter byte, there bool) bool {
	if c.reading {
		return c.next(letter)
	}
	if there {
		c.begin(letter)
	}
	return there
}

// counted codes the number of an attempt, which its place says.
func (c *eventCoder) counted(n *int, place int) {
	other := *n
	if other == place {
		other = 0
	}
	if number(&c.coder, &other); c.reading {
		*n = cmp.Or(other, place)
	}
}

// queue codes that of an attempt, which the key of its request says. Builds that know no queues but those of the
// priorities take another for a priority that they do not know.
func (c *eventCoder) queue(a *call.Attempt, n int) {
	byKey := c.now.Kind == call.Requested && c.now.Attempt == n
	var q envelope.Priority
	if !c.reading && !byKey {
		q = a.Priority
		if a.Step > 0 {
			q = envelope.Priority(a.Queue())
		}
	}
	if enum(&c.coder, &q, priorities); !c.reading {
		return
	}
	c.bad = c.bad || byKey && q != ""
	if byKey {
		q = envelope.Priority(c.key.Queue)
	}
	prio, step := subjects.ParseQueue(string(q))
	a.Priority, a.Step = envelope.Priority(prio), step
}

func (c *eventCoder) owner(o *call.Owner) {
	text(&c.coder, &o.CallID)
	text(&c.coder, &o.Actor)
	c.reply(o)
	enum(&c.coder, &o.ContentType, contents)
	text(&c.coder, &o.Trace)
	text(&c.coder, &o.Parent)
	text(&c.coder, &o.Run)
	text(&c.coder, &o.Role)
	text(&c.coder, &o.Lane)
}

// reply codes where a caller waits: only its word, so that nobody is answered anywhere but below the
// prefix of its own actor.
func (c *eventCoder) reply(o *call.Owner) {
	prefix := subjects.AppendAnswers(make([]byte, 0, 192), c.now.State.Tenant, o.Actor) // in most cases on the stack
	word := ""
	if n := len(prefix); len(o.Reply) >= n && o.Reply[:n] == string(prefix) {
		word = o.Reply[n:]
	}
	if text(&c.coder, &word); c.reading && word != "" {
		o.Reply = string(append(prefix, word...))
	}
}

func (c *eventCoder) joiners(a *call.Attempt) {
	if !c.has(joinersRecord, len(a.Joined) > 0) {
		return
	}
	for i := 0; i < len(a.Joined) || c.reading && c.in != "" && !c.bad; i++ {
		if c.reading {
			a.Joined = append(a.Joined, "")
		}
		text(&c.coder, &a.Joined[i])
	}
	if !c.reading {
		c.out = append(c.out, ';')
	}
}

func (c *eventCoder) claim(a *call.Attempt) {
	if c.reading {
		a.Claim = new(call.Claim)
	}
	k := *a.Claim
	c.nonce(&k.Nonce, call.Claimed, a)
	usual := c.now.State.Pool + "/" + call.Instance(k.Nonce) // executors claim under the instance of their nonces
	by := k.By
	if by == usual && !c.reading {
		by = ""
	}
	text(&c.coder, &by)
	k.By = cmp.Or(by, usual)
	number(&c.coder, &k.Fence)
	number(&c.coder, &k.Count)
	since(&c.coder, &k.At, a.At)
	number(&c.coder, &k.Alone)
	c.end(&k.More)
	if c.reading {
		*a.Claim = k
	}
}

func (c *eventCoder) decision(a *call.Attempt) {
	if c.reading {
		a.Decision = new(call.Decision)
	}
	d := *a.Decision
	c.nonce(&d.Nonce, call.Decided, a)
	number(&c.coder, &d.Seq)
	enum(&c.coder, &d.Status, statuses)
	text(&c.coder, &d.Code)
	enum(&c.coder, &d.Effect, effects)
	enum(&c.coder, &d.By, deciders)
	since(&c.coder, &d.At, a.At)
	number(&c.coder, &d.Fence)
	hash(&c.coder, &d.OutputHash)
	flag(&c.coder, &d.NotTaken)
	flag(&c.coder, &d.BuildAbsent)
	text(&c.coder, &d.Owner)
	text(&c.coder, &d.Writes)
	number(&c.coder, &d.WritesLeft)
	text(&c.coder, &d.Server)
	enum(&c.coder, &d.Answer, answers)
	c.end(&d.More)
	if c.reading {
		*a.Decision = d
	}
}

// nonce codes that of a claim or a decision. The key of the event that brings it says whose it is.
func (c *eventCoder) nonce(v *string, kind call.Kind, a *call.Attempt) {
	n, byKey := *v, c.now.Kind == kind && a.N == c.now.Attempt
	instance := call.Instance(n)
	if !c.reading && byKey && len(n) > len(instance) && subjects.Legible(instance) {
		n = n[len(instance):]
	}
	if text(&c.coder, &n); !c.reading {
		return
	}
	if byKey && strings.HasPrefix(n, ".") {
		n = c.key.Instance + n
	}
	*v = n
	c.bad = c.bad || byKey && c.key.Instance != "" && call.Instance(n) != c.key.Instance
}
