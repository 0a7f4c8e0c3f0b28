package kv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Log writes and reads the call log. Make one with [OpenLog] or [NewRemoteLog]. Its methods are safe for concurrent
// use.
type Log struct {
	js     jetstream.JetStream
	parts  []part
	copies int // of the log, on as many servers
	reader Reader
	local  *streams // the reader of a process that may read the log itself, else nil
	heads  *heads
	found  found
	expiry call.Expiry
	answer time.Duration
	silent atomic.Pointer[silence]
	sent   sync.Pool // of *outgoing
}

// part is one partition of the log.
type part struct {
	group *group   // nil: every event is sent as it comes
	kept  *keptIDs // nil in a process that may not read the log
}

// LogOptions configures a [Log]. The zero value uses all defaults.
type LogOptions struct {
	Expiry call.Expiry   // TTLs of events; default call.DefaultExpiry
	Answer time.Duration // longest wait for one answer of the server; default 2 s
	// Group is the number of waiting events from which on they are written as one batch; 0 writes each event by
	// itself. It is for servers that sync every write, see [DefaultBatch]. A log with replicas ignores it, because
	// replicas share syncs.
	Group int
	// Passes reports whether to skip events of an instance that this build cannot read. nil skips none: reading a log
	// with such an event is an error.
	Passes func(instance string) bool
	// Times returns bus time and steady time, see [bus.Clock.Times]; default time.Now for both.
	Times func() (now, steady time.Time)
}

// OpenLog returns a Log for the partitions of the call log, which must exist (see [bus.Ensure]).
func OpenLog(ctx context.Context, js jetstream.JetStream, o LogOptions) (*Log, error) {
	n, err := bus.Partitions(ctx, js)
	if err != nil {
		return nil, err
	}
	all := streams{passes: o.Passes}
	for p := range n {
		stream, err := js.Stream(ctx, subjects.Partition(p).Stream())
		if err != nil {
			return nil, fmt.Errorf("call log, partition %d: %w", p, err)
		}
		all.parts = append(all.parts, stream)
	}
	l := NewRemoteLog(js, n, all.replicas(), all, o)
	l.local = &all
	if o.Times == nil {
		o.Times = func() (now, steady time.Time) { now = time.Now(); return now, now }
	}
	for p := range l.parts {
		l.parts[p].kept = newKept(o.Times)
	}
	return l, nil
}

// NewRemoteLog returns a Log with that number of partitions and replicas for a process that may write to the call log
// but not read it. It reads with reader, which for example asks a dispatcher.
func NewRemoteLog(js jetstream.JetStream, partitions, replicas int, reader Reader, o LogOptions) *Log {
	o.Expiry, o.Answer = cmp.Or(o.Expiry, call.DefaultExpiry), cmp.Or(o.Answer, 2*time.Second)
	l := &Log{
		js: js, reader: reader, heads: newHeads(), copies: replicas, expiry: o.Expiry, answer: o.Answer,
		sent: sync.Pool{New: newOutgoing},
	}
	l.parts = make([]part, partitions)
	for p := range l.parts {
		if o.Group > 0 && replicas == 1 {
			l.parts[p].group = &group{js: js, answer: o.Answer, least: o.Group}
		}
	}
	return l
}

// Replicas returns the number of servers that hold each partition.
func (l *Log) Replicas() int { return l.copies }

// Partitions returns the number of partitions.
func (l *Log) Partitions() int { return len(l.parts) }

// part returns the partition of the log of id.
func (l *Log) part(id string) (subjects.Partition, part) {
	p := subjects.PartitionOf(id, len(l.parts))
	return p, l.parts[p]
}

// Write appends e if no event was added to the log since the state from which e was derived, and returns the state
// after e. A nil error means that e is in the log, even if acknowledgements were lost. With a [call.ConflictError],
// which holds the current state, [call.ErrFull] or [call.ErrTooLarge], e is not in the log and never will be. With
// [call.ErrUnsure] it may be in the log: ctx ended or e.Until passed first, or the log cannot be read. Then the error
// wraps a [format.Error] if the log has an event that this build does not read, and a [call.DamagedError] if the log
// is damaged.
func (l *Log) Write(ctx context.Context, e call.Event, body []byte) (call.State, error) {
	var in part
	e.State.Partition, in = l.part(e.State.ID)
	id := in.keptID(e)
	if in.stale(id, e) {
		switch state, settled, err := l.resolve(ctx, e); {
		case settled:
			return state, err
		case err != nil:
			return call.State{}, unsure(err)
		}
	}
	out := l.message(e, body)
	defer l.sent.Put(out)
	msg := &out.Msg
	underway := false // a former try had no answer, and may be stored yet
	silence := unacked{log: l, since: time.Now()}
	tries := timer.Backoff{Pause: time.Millisecond, MaxPause: 100 * time.Millisecond}
	for {
		seq, err := l.publish(ctx, in, msg, e.Until)
		full := errors.Is(err, call.ErrFull)
		silence.heard(err)
		switch {
		case err == nil:
			l.wrote(in, id, e, seq)
			return call.Fold(e, seq), nil
		case full && !underway, errors.Is(err, call.ErrTooLarge):
			return call.State{}, err
		}
		if deadline, ok := ctx.Deadline(); !e.Until.IsZero() && (!ok || e.Until.Before(deadline)) {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, e.Until) // most writes need none
			defer cancel()
		}
		failed := err
		underway = underway || !full
		state, settled, err := l.resolve(ctx, e)
		if settled {
			return state, err
		}
		if isDamaged(err) || format.IsUnsupported(err) { // trying again does not help; the next reader decides
			return call.State{}, unsure(err)
		}
		if errors.Is(failed, errDuplicate) {
			out.values[1] = "" // it was somebody else's; the compare-and-set is what counts
		}
		silence.looked(err)
		if !timer.Sleep(ctx, tries.Next()) {
			return call.State{}, unsure(context.Cause(ctx))
		}
	}
}

func unsure(err error) error { return fmt.Errorf("%w: %w", call.ErrUnsure, err) }

// UnackedFor returns for how long the server has acknowledged no write although it answered reads. A server does that
// after a failed write to its disk. It returns 0 if writes work or if reads fail, too, and after a reconnect: a server
// that was restarted writes again.
func (l *Log) UnackedFor() time.Duration {
	if s := l.silent.Load(); s != nil && s.reconnects == l.js.Conn().Stats().Reconnects {
		return time.Since(s.since)
	}
	return 0
}

// silence is the time without an acknowledged write over one connection.
type silence struct {
	since      time.Time
	reconnects uint64 // of the connection
}

// unacked watches one write for what [Log.UnackedFor] says.
type unacked struct {
	log    *Log
	since  time.Time
	silent bool // the last try had no answer
	tries  int  // that had none, and are not in the log
}

// heard is told of every try of the write. A refusal is an answer.
func (s *unacked) heard(err error) {
	s.silent = errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout)
	if err == nil || bus.IsAnswered(err) || errors.Is(err, call.ErrFull) {
		s.log.silent.Store(nil)
	}
}

// looked is told whether the log could be read after a try. One lost answer is nothing; after
// two it is not the network.
func (s *unacked) looked(err error) {
	if err != nil || !s.silent {
		return
	}
	if s.tries++; s.tries >= 2 && s.log.UnackedFor() == 0 {
		s.log.silent.Store(&silence{s.since, s.log.js.Conn().Stats().Reconnects})
	}
}

// publish sends msg once, unless until has passed, and waits for the answer until then, or for l.answer if that is
// shorter. The server refuses msg when the log has moved, and drops it when it has it already.
func (l *Log) publish(ctx context.Context, in part, msg *nats.Msg, until time.Time) (uint64, error) {
	answer := l.answer
	if !until.IsZero() {
		answer = min(answer, time.Until(until))
	}
	if in.group == nil || answer <= 0 {
		return publish(ctx, l.js, msg, answer)
	}
	return in.group.publish(ctx, msg, answer)
}

// errDuplicate means that the server has dropped a message, since it has had one of that id: from a former try, or from
// somebody who keeps this one out with it.
var errDuplicate = errors.New("the server has had a message of that id")

func publish(ctx context.Context, js jetstream.JetStream, msg *nats.Msg, answer time.Duration) (uint64, error) {
	if answer <= 0 {
		return 0, context.DeadlineExceeded // and it is not sent
	}
	ack, err := bus.Publish(ctx, js, msg, answer)
	switch {
	case err == nil && ack.Duplicate:
		return 0, errDuplicate
	case err == nil:
		return ack.Sequence, nil
	case errors.Is(err, nats.ErrMaxPayload):
		return 0, call.ErrTooLarge
	case bus.HasErrorCode(err, bus.CodeMessageTooLarge, bus.CodeHeaderTooLarge):
		return 0, fmt.Errorf("%w: %w", call.ErrTooLarge, err)
	case bus.IsStorageFull(err):
		return 0, fmt.Errorf("%w: %w", call.ErrFull, err)
	}
	return 0, err
}

// resolve settles a write whose answer was not a plain yes, by looking for its nonce in the
// log. settled is false when the log has not moved: then the write may be tried again.
func (l *Log) resolve(ctx context.Context, e call.Event) (state call.State, settled bool, err error) {
	last, err := l.Read(ctx, e.State.Tool, e.State.ID)
	switch {
	case err != nil:
		return call.State{}, false, err
	case last.State.Wrote(e):
		return last.State, true, nil
	case last.State.Seq != e.State.Seq:
		return call.State{}, true, &call.ConflictError{State: last.State}
	}
	return call.State{}, false, nil
}

// Read returns the last event of the log of a tool and id, or the zero Entry if the log is empty. It waits at most
// LogOptions.Answer. An error means that the log could not be read. It is a [format.Error] if the log has an event that
// this build does not read, and a [call.DamagedError] if the log has lost its end.
func (l *Log) Read(ctx context.Context, tool, id string) (call.Entry, error) {
	last, err := l.Last(ctx, tool, id)
	if err != nil || last.RawStreamMsg == nil && last.End == 0 {
		return call.Entry{}, err
	}
	e, err := last.Entry(subjects.PartitionOf(id, len(l.parts)))
	if err == nil && !e.State.Empty() {
		l.heads.put(e, len(e.Body))
	}
	return e, err
}

// Last returns the last event of the log as it is stored. Its errors are those of [Log.Read].
func (l *Log) Last(ctx context.Context, tool, id string) (StoredEvent, error) {
	ctx, cancel := context.WithTimeout(ctx, l.answer)
	defer cancel()
	p, _ := l.part(id)
	return l.whole(ctx, subjects.Key{Tool: tool, ID: id, Partition: p})
}

// Get returns the event at a position, or the zero Entry if it has expired.
func (l *Log) Get(ctx context.Context, at call.Position) (call.Entry, error) {
	s, err := l.At(ctx, at)
	if err != nil || s.RawStreamMsg == nil {
		return call.Entry{}, err
	}
	return s.Entry(at.Partition)
}

// At returns the event at a position as it is stored, or the zero StoredEvent if it has expired.
func (l *Log) At(ctx context.Context, at call.Position) (StoredEvent, error) {
	if at.Partition < 0 || int(at.Partition) >= len(l.parts) {
		return StoredEvent{}, fmt.Errorf("read call log: there is no partition %d", at.Partition)
	}
	ctx, cancel := context.WithTimeout(ctx, l.answer)
	defer cancel()
	return l.reader.At(ctx, at)
}

func entry(msg *jetstream.RawStreamMsg) (call.Entry, error) {
	e, err := DecodeEvent(msg.Subject, msg.Header)
	if err != nil {
		return call.Entry{}, fmt.Errorf("%s at %d: %w", msg.Subject, msg.Sequence, err)
	}
	return call.Entry{
		State: e.Folded(msg.Sequence), Kind: e.Kind, Attempt: e.Attempt, Body: msg.Data, Time: msg.Time,
	}, nil
}

// outgoing is a message of the log that is used again: all have the same headers, which are in a map.
type outgoing struct {
	nats.Msg
	values [5]string
}

func newOutgoing() any {
	var o outgoing
	o.Header = nats.Header{
		subjects.HeaderEvent:                    o.values[0:1:1],
		jetstream.MsgIDHeader:                   o.values[1:2:2],
		jetstream.MsgTTLHeader:                  o.values[2:3:3],
		jetstream.ExpectedLastSubjSeqHeader:     o.values[3:4:4],
		jetstream.ExpectedLastSubjSeqSubjHeader: o.values[4:5:5],
	}
	return &o
}

// message returns the message of e. It may be put back once it is neither sent nor waited for.
func (l *Log) message(e call.Event, body []byte) *outgoing {
	o := l.sent.Get().(*outgoing)
	o.values = [...]string{
		EncodeEvent(e), e.State.ID + "." + e.Nonce, strconv.Itoa(int(l.expiry.TTL(e) / time.Second)),
		strconv.FormatUint(e.State.Seq, 10), e.State.Key().Filter(),
	}
	o.Subject, o.Data = EventSubject(e), body
	return o
}

// EventSubject returns the subject under which e is stored.
func EventSubject(e call.Event) string {
	key := e.State.Key()
	switch e.Kind {
	case call.Requested:
		a, _ := e.State.Attempt(e.Attempt)
		return key.Request(e.Attempt, e.State.Version, a.Queue(), e.State.Pool)
	case call.Claimed:
		return key.Claim(e.Attempt, call.Instance(e.Nonce))
	case call.Decided:
		return key.Outcome(e.Attempt, call.Instance(e.Nonce))
	}
	return key.Join(e.Attempt)
}
