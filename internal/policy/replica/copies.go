package replica

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Copies keeps a second copy of entries in a stream of its own, so that a damaged or deleted entry is neither lost nor
// forgotten in silence. An entry that is missing or older than its copy counts as it is in the copy, and is stored
// again where that is safe. A nil Copies keeps no copies. Its methods are safe for concurrent use.
type Copies struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	log    *slog.Logger

	mu      sync.Mutex
	known   map[string]version // of each entry that is as its copy
	damaged map[string]string  // by subject: what was found

	unrecorded []Restored    // see RecordRestored; oldest first
	more       chan struct{} // holds a value when unrecorded has grown
}

// OpenCopies returns the Copies of a bus. It returns nil on a bus on which no dispatcher of this build has started.
func OpenCopies(ctx context.Context, js jetstream.JetStream, log *slog.Logger) (*Copies, error) {
	s, err := js.Stream(ctx, subjects.CopiesStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("copies of entries: %w", err)
	}
	return &Copies{
		js: js, stream: s, log: log, known: map[string]version{}, damaged: map[string]string{}, more: make(chan struct{}, 1),
	}, nil
}

// version names a stored entry, also after its bucket was made again.
type version struct {
	revision uint64
	at       time.Time
	compared time.Time // by the clock of this process
}

// compareEvery is how long an entry that has not changed counts as its copy. It is less than the time for which locks
// hold: a lock that was set while the leader could not read the entry is only in the copy.
const compareEvery = 500 * time.Millisecond

// Damaged returns what was found of each entry that was lost or cannot be read, by its subject.
func (c *Copies) Damaged() map[string]string {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.damaged)
}

// entryCopy is the stored form of a copy.
type entryCopy struct {
	Revision uint64    `json:"revision"` // of the entry
	At       time.Time `json:"at"`       // when the server stored the entry
	Expires  time.Time `json:"expires,omitzero"`
	Data     []byte    `json:"data,omitzero"` // of the entry; empty if that was deleted
	SHA256   []byte    `json:"sha256"`

	seq uint64 // of the copy; 0 without a copy
}

func (e *entryCopy) sum() []byte {
	sum := sha256.New()
	for _, n := range []uint64{e.Revision, uint64(e.At.UnixNano()), uint64(e.Expires.UnixNano())} {
		_ = binary.Write(sum, binary.BigEndian, n) // never fails
	}
	sum.Write(e.Data)
	return sum.Sum(nil)
}

// copyMargin is the time before the expiry of an entry from which on it may be missing.
const copyMargin = 10 * time.Second

func (e *entryCopy) good(now time.Time) bool {
	return e.seq != 0 && (e.Expires.IsZero() || now.Add(copyMargin).Before(e.Expires))
}

// copyOf returns the copy of an entry.
func copyOf(msg *jetstream.RawStreamMsg) entryCopy {
	e := entryCopy{Revision: msg.Sequence, At: msg.Time, Data: msg.Data}
	if life, _ := strconv.Atoi(msg.Header.Get(jetstream.MsgTTLHeader)); life > 0 {
		e.Expires = msg.Time.Add(time.Duration(life) * time.Second)
	}
	return e
}

// entry returns the entry of a copy.
func (e *entryCopy) entry(subject string) *jetstream.RawStreamMsg {
	return &jetstream.RawStreamMsg{Subject: subject, Sequence: e.Revision, Data: e.Data, Time: e.At}
}

// read returns the copy of an entry. Its seq is 0 if the stream has no copy that can be read.
func (c *Copies) read(ctx context.Context, subject string) (e entryCopy, err error) {
	msg, err := Last(ctx, c.stream, subjects.Copy(subject))
	if err != nil || msg == nil {
		return e, err
	}
	return c.decode(subject, msg), nil
}

// decode returns the copy in a message. Its seq is 0 if it cannot be read.
func (c *Copies) decode(subject string, msg *jetstream.RawStreamMsg) (e entryCopy) {
	if err := format.Unmarshal(format.Entry, msg.Data, &e); err != nil || !slices.Equal(e.SHA256, e.sum()) {
		c.log.Error("the copy of an entry cannot be read", "entry", subject, "sequence", msg.Sequence, "err", err)
		return entryCopy{}
	}
	e.seq = msg.Sequence
	return e
}

// store stores e in the place of the copy with the sequence e.seq; 0 stands for no copy.
func (c *Copies) store(ctx context.Context, subject string, e entryCopy) error {
	e.SHA256 = e.sum()
	data, err := format.Marshal(format.Entry, e)
	if err != nil {
		return err
	}
	msg := &nats.Msg{Subject: subjects.Copy(subject), Data: data, Header: nats.Header{}}
	if !e.Expires.IsZero() {
		left := max(time.Until(e.Expires).Round(time.Second), time.Second)
		msg.Header.Set(jetstream.MsgTTLHeader, strconv.Itoa(int(left/time.Second)))
	}
	ctx, cancel := context.WithTimeout(ctx, AskTime) // without an answer, the next question stores it
	defer cancel()
	if _, err := c.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(e.seq)); err != nil {
		return err
	}
	if e.seq != 0 {
		_ = c.stream.DeleteMsg(ctx, e.seq) // what stays does no harm
	}
	return nil
}

// reading starts to read the copy of an entry in aside, and returns a function that returns it. So the entry and its
// copy take one round trip. The copy may be newer than an entry that was compared with it: the change was made while
// the leader of the bucket could not read the entry, and another server leads it now.
func (c *Copies) reading(ctx context.Context, subject string, aside *sync.WaitGroup) func() (entryCopy, error) {
	if c == nil {
		return nil
	}
	var e entryCopy
	var err error
	aside.Go(func() { e, err = c.read(ctx, subject) })
	return func() (entryCopy, error) { aside.Wait(); return e, err }
}

// check returns the entry that counts: msg, which was read from the bucket and is nil if it is missing, or that of the
// copy. It renews the copy of a newer entry. held is true if the server cannot read the entry. Then only the copy may
// be replaced: the server acknowledges no message that replaces a damaged one, and drops it when it starts again. If
// held is true and the entry has no data, its value is unknown.
func (c *Copies) check(
	ctx context.Context, bucket jetstream.Stream, subject string, msg *jetstream.RawStreamMsg,
	copied func() (entryCopy, error),
) (_ *jetstream.RawStreamMsg, held bool, err error) {
	if c == nil {
		return msg, false, nil
	}
	kept, err := copied()
	switch {
	case err != nil && msg != nil && c.isKnown(subject, msg):
		return msg, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("copy of %s: %w", subject, err)
	case msg != nil && msg.Sequence == kept.Revision && bytes.Equal(msg.Data, kept.Data):
		c.learn(subject, msg)
		return msg, false, nil
	case msg != nil && msg.Sequence >= kept.Revision:
		renewed := copyOf(msg)
		renewed.seq = kept.seq
		if c.store(ctx, subject, renewed) == nil { // otherwise the next question stores it
			c.learn(subject, msg)
		}
		return msg, false, nil
	case msg != nil:
		if now, err := Last(ctx, bucket, subject); err != nil || now == nil || now.Sequence != msg.Sequence {
			return nil, false, cmp.Or(err, errMoved) // it was stored between the two questions
		}
		return c.restore(ctx, subject, msg.Sequence, kept)
	}
	if kept.seq == 0 && c.isAbsent(subject) {
		return nil, false, nil
	}
	msg, state, err := c.missing(ctx, bucket, subject, kept.seq != 0)
	switch {
	case err != nil || msg != nil:
		return nil, false, cmp.Or(err, errMoved)
	case state.Subjects[subject] > 0:
		return c.unreadable(subject, kept, state.LastSeq)
	case !kept.good(time.Now()) || len(kept.Data) == 0:
		c.learn(subject, &jetstream.RawStreamMsg{})
		return nil, false, nil
	}
	return c.restore(ctx, subject, 0, kept)
}

// errMoved means that the entry was stored while it was looked for.
var errMoved = errors.New("the entry has just been stored")

// doubt is the pause before an entry that was not found is looked for again.
const doubt = 150 * time.Millisecond

// missing asks again for an entry that was not found, and how many messages of it the bucket counts, until the bucket
// stores nothing meanwhile. While an entry is replaced, a busy server may not find it for some milliseconds. copied
// means that the entry has a copy.
func (c *Copies) missing(ctx context.Context, bucket jetstream.Stream, subject string, copied bool) (
	msg *jetstream.RawStreamMsg, state jetstream.StreamState, err error,
) {
	for before := uint64(0); ; before = state.LastSeq {
		expected := copied || state.Subjects[subject] > 0
		if before > 0 && expected && !c.isDamaged(subject) && !timer.Sleep(ctx, doubt) {
			return nil, state, context.Cause(ctx)
		}
		info, err := bucket.Info(ctx, jetstream.WithSubjectFilter(subject))
		if err != nil {
			return nil, state, err
		}
		state = info.State
		if msg, err = Last(ctx, bucket, subject); err != nil || msg != nil {
			return msg, state, err
		}
		if state.LastSeq == before || state.LastSeq == 0 {
			return nil, state, nil
		}
	}
}

// isDamaged reports whether damage of an entry was found before.
func (c *Copies) isDamaged(subject string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.damaged[subject] != ""
}

// unreadable returns the entry of a copy whose entry the server cannot read. Another server may read it later, and then
// the copy may be newer.
func (c *Copies) unreadable(subject string, kept entryCopy, last uint64) (*jetstream.RawStreamMsg, bool, error) {
	c.forget(subject)
	if kept.seq == 0 {
		c.report(slog.LevelError, subject, "neither the entry nor its copy can be read: what it could forbid is refused "+
			"until an operator stores it again")
		return &jetstream.RawStreamMsg{Subject: subject, Sequence: last}, true, nil
	}
	c.report(slog.LevelWarn, subject, "the entry cannot be read: its copy counts")
	return kept.entry(subject), true, nil
}

// restore stores a copy as the entry, which is missing or has an older revision.
func (c *Copies) restore(ctx context.Context, subject string, revision uint64, kept entryCopy) (
	*jetstream.RawStreamMsg, bool, error,
) {
	msg := &nats.Msg{Subject: subject, Data: kept.Data, Header: nats.Header{}}
	if !kept.Expires.IsZero() {
		left := max(time.Until(kept.Expires).Round(time.Second), time.Second)
		msg.Header.Set(jetstream.MsgTTLHeader, strconv.Itoa(int(left/time.Second)))
	}
	c.report(slog.LevelWarn, subject,
		"the entry was lost, or an older one was put in its place: it is restored from its copy")
	ack, err := c.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(revision))
	if err == nil {
		c.restored(ack.Stream, subject, revision)
		kept.Revision = ack.Sequence
		err = c.store(ctx, subject, kept)
	}
	if err != nil { // the next question tries again
		c.log.Warn("an entry could not be restored: its copy counts", "entry", subject, "err", err)
	}
	return kept.entry(subject), false, nil
}

// replaceHeld replaces the copy of an entry that the server cannot read.
func (c *Copies) replaceHeld(ctx context.Context, msg *nats.Msg, revision uint64) (*jetstream.PubAck, error) {
	kept, err := c.read(ctx, msg.Subject)
	if err != nil {
		return nil, err
	}
	if kept.seq != 0 && kept.Revision != revision {
		return nil, &jetstream.APIError{Code: 400, ErrorCode: bus.CodeWrongLast, Description: "the copy has changed"}
	}
	now := time.Now()
	next := copyOf(&jetstream.RawStreamMsg{Sequence: revision + 1, Time: now, Header: msg.Header, Data: msg.Data})
	next.seq = kept.seq
	if err := c.store(ctx, msg.Subject, next); err != nil {
		return nil, err
	}
	return &jetstream.PubAck{Sequence: next.Revision}, nil
}

// isAbsent reports whether the last question found neither the entry nor its copy.
func (c *Copies) isAbsent(subject string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.known[subject]
	return ok && known.revision == 0
}

// isKnown reports whether an entry is the last one that was compared with its copy.
func (c *Copies) isKnown(subject string, msg *jetstream.RawStreamMsg) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.known[subject]
	return known.revision == msg.Sequence && known.at.Equal(msg.Time)
}

// isFresh reports whether there was an entry that was lately compared with its copy.
func (c *Copies) isFresh(subject string) bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.known[subject]
	return known.revision > 0 && time.Since(known.compared) < compareEvery
}

// forget makes the next check of an entry look for it.
func (c *Copies) forget(subject string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, subject)
}

func (c *Copies) learn(subject string, msg *jetstream.RawStreamMsg) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[subject] = version{msg.Sequence, msg.Time, time.Now()}
}

// report logs what was found of an entry, once.
func (c *Copies) report(level slog.Level, subject, found string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.damaged[subject] == found {
		return
	}
	c.damaged[subject] = found
	c.log.Log(context.Background(), level, found, "entry", subject,
		"fix", "see docs/operations.md, damaged streams")
}
