package replica

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Bucket reads and changes entries as they are stored, each with its copy. Make one with [OpenBucket]. Its methods are
// safe for concurrent use, and several processes may use the same bucket.
type Bucket struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	copies *Copies // nil keeps none
}

// OpenBucket returns the Bucket of a stream. copies may be nil.
func OpenBucket(ctx context.Context, js jetstream.JetStream, stream string, copies *Copies) (*Bucket, error) {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	return &Bucket{js, s, copies}, nil
}

// Find asks the leader for an entry, and compares it with its copy. The entry is nil if it is missing. held is true if
// the server cannot read it: the entry is then that of its copy, or has no data if that cannot be read either.
func (b *Bucket) Find(ctx context.Context, subject string) (msg *jetstream.RawStreamMsg, held bool, err error) {
	return b.find(ctx, subject, false)
}

// find is Find. If trusting, it does not read the copy of an entry that it has lately found to be as its copy.
func (b *Bucket) find(ctx context.Context, subject string, trusting bool) (
	msg *jetstream.RawStreamMsg, held bool, err error,
) {
	for err = errMoved; errors.Is(err, errMoved); {
		msg, held, err = b.look(ctx, subject, trusting && b.copies.isFresh(subject))
	}
	return msg, held, err
}

func (b *Bucket) look(ctx context.Context, subject string, trusting bool) (
	msg *jetstream.RawStreamMsg, held bool, err error,
) {
	var aside sync.WaitGroup
	defer aside.Wait()
	kept := func() (entryCopy, error) { return b.copies.read(ctx, subject) }
	if !trusting {
		kept = b.copies.reading(ctx, subject, &aside)
	}
	if msg, err = Last(ctx, b.stream, subject); err != nil {
		return nil, false, err
	}
	if trusting && msg != nil && b.copies.isKnown(subject, msg) {
		return msg, false, nil
	}
	return b.copies.check(ctx, b.stream, subject, msg, kept)
}

// Create stores an entry and its copy. If there is an entry, the error has the code [bus.CodeWrongLast].
func (b *Bucket) Create(ctx context.Context, msg *nats.Msg) error {
	_, err := b.put(ctx, msg, 0, false)
	return err
}

// Overwrite stores an entry and its copy, whatever is there. If another process stores one meanwhile, the error has the
// code [bus.CodeWrongLast].
func (b *Bucket) Overwrite(ctx context.Context, msg *nats.Msg) error {
	before, held, err := b.Find(ctx, msg.Subject)
	if err != nil {
		return err
	}
	revision := uint64(0)
	if before != nil {
		revision = before.Sequence
	}
	_, err = b.put(ctx, msg, revision, held)
	return err
}

// put stores an entry if its revision is still the given one, and then its copy. If the entry is held, it replaces only
// the copy. It stores nothing after the deadline of ctx.
func (b *Bucket) put(ctx context.Context, msg *nats.Msg, revision uint64, held bool) (*jetstream.PubAck, error) {
	at := time.Now()
	if deadline, ok := ctx.Deadline(); ok && !at.Before(deadline) { // this process may have been suspended
		return nil, context.DeadlineExceeded
	}
	if held {
		return b.copies.replaceHeld(ctx, msg, revision)
	}
	ack, err := b.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(revision))
	if err != nil {
		return nil, err
	}
	stored := &jetstream.RawStreamMsg{Sequence: ack.Sequence, Header: msg.Header, Data: msg.Data, Time: at}
	_, _, err = b.copies.check(ctx, b.stream, msg.Subject, stored, func() (entryCopy, error) {
		return b.copies.read(ctx, msg.Subject)
	})
	if errors.Is(err, errMoved) { // a newer entry has its copy
		err = nil
	}
	return ack, err
}

// Had reports whether the bucket has, or had, an entry whose subject matches a filter. One that the server cannot read
// counts.
func (b *Bucket) Had(ctx context.Context, filter string) (had bool, err error) {
	info, err := b.stream.Info(ctx, jetstream.WithSubjectFilter(filter))
	if err != nil || len(info.State.Subjects) > 0 || b.copies == nil {
		return err == nil && len(info.State.Subjects) > 0, err
	}
	copies, _, err := newest(ctx, b.js, b.copies.stream, []string{subjects.Copy(filter)})
	for subject, msg := range copies {
		had = had || msg != nil && b.copies.decode(subjects.CopyOf(subject), msg).seq != 0
	}
	return had, err
}

// Found is an entry of a [List].
type Found struct {
	*jetstream.RawStreamMsg
	Held bool // see [Bucket.Find]
}

// List holds entries of a bucket.
type List struct {
	Entries []Found   // in the order of the bucket
	Last    uint64    // the entries are complete up to this position
	Made    time.Time // when the bucket was made
}

// atOnce is the number of questions about single entries that List asks at the same time.
const atOnce = 16

// quiet is how long List waits for the next of many messages before it asks for each. A damaged message may keep the
// server from delivering those after it.
const quiet = 500 * time.Millisecond

// List returns the newest entry of each subject that matches a filter, as [Bucket.Find] does. It asks a fixed number
// of questions if each entry is as its copy.
func (b *Bucket) List(ctx context.Context, filters ...string) (l List, err error) {
	var copies map[string]*jetstream.RawStreamMsg
	if b.copies != nil { // first: an entry that is stored meanwhile is then newer than its copy
		of := make([]string, len(filters))
		for i, f := range filters {
			of[i] = subjects.Copy(f)
		}
		if copies, _, err = newest(ctx, b.js, b.copies.stream, of); err != nil {
			return l, err
		}
	}
	info, err := b.stream.Info(ctx)
	if err != nil {
		return l, err
	}
	entries, last, err := newest(ctx, b.js, b.stream, filters)
	if err != nil {
		return l, err
	}
	for subject := range copies {
		if of := subjects.CopyOf(subject); entries[of] == nil {
			entries[of] = nil
		}
	}
	l.Last, l.Made = last, info.Created
	l.Entries, err = b.compare(ctx, entries, copies)
	return l, err
}

// compare returns the entries that count. The key of a copy is its own subject.
func (b *Bucket) compare(ctx context.Context, entries, copies map[string]*jetstream.RawStreamMsg) ([]Found, error) {
	keys := slices.Collect(maps.Keys(entries))
	all := make([]Found, len(keys))
	err := each(ctx, len(keys), func(ctx context.Context, i int) error {
		if b.copies != nil && entries[keys[i]] == nil {
			b.copies.forget(keys[i])
		}
		msg, held, err := b.copies.check(ctx, b.stream, keys[i], entries[keys[i]], func() (e entryCopy, err error) {
			if c := copies[subjects.Copy(keys[i])]; c != nil {
				e = b.copies.decode(keys[i], c)
			}
			return e, nil
		})
		if errors.Is(err, errMoved) {
			msg, held, err = b.Find(ctx, keys[i])
		}
		all[i] = Found{msg, held}
		return err
	})
	all = slices.DeleteFunc(all, func(f Found) bool { return f.RawStreamMsg == nil })
	slices.SortFunc(all, func(a, b Found) int { return int(a.Sequence) - int(b.Sequence) })
	return all, err
}

// newest returns the newest message of each subject that matches a filter, and the position up to which they are
// complete. A message that the server counts and cannot read is nil.
func newest(ctx context.Context, js jetstream.JetStream, s jetstream.Stream, filters []string) (
	all map[string]*jetstream.RawStreamMsg, last uint64, err error,
) {
	all = map[string]*jetstream.RawStreamMsg{}
	stored := uint64(0)
	for _, filter := range filters {
		info, err := s.Info(ctx, jetstream.WithSubjectFilter(filter))
		if err != nil {
			return nil, 0, err
		}
		for subject := range info.State.Subjects {
			all[subject] = nil
		}
		if stored == 0 {
			stored = info.State.LastSeq
		}
	}
	for m, err := range bus.Messages(ctx, js, s.CachedInfo().Config.Name, NewestOf(filters...), quiet) {
		if err != nil { // each message is asked for that has not come
			break
		}
		last = m.Seq
		all[m.Subject()] = &jetstream.RawStreamMsg{
			Subject: m.Subject(), Sequence: m.Seq, Header: m.Headers(), Data: m.Data(), Time: m.Time,
		}
	}
	if !slices.Contains(slices.Collect(maps.Values(all)), nil) {
		return all, last, nil
	}
	err = askEach(ctx, s, all)
	return all, stored, err
}

// NewestOf returns the configuration of an ordered consumer of the newest entry of each subject that matches a filter.
func NewestOf(filters ...string) jetstream.OrderedConsumerConfig {
	return jetstream.OrderedConsumerConfig{
		NamePrefix: rand.Text(), FilterSubjects: filters, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
	}
}

// askEach asks the leader for each message.
func askEach(ctx context.Context, s jetstream.Stream, all map[string]*jetstream.RawStreamMsg) error {
	keys := slices.Collect(maps.Keys(all))
	asked := make([]*jetstream.RawStreamMsg, len(keys))
	err := each(ctx, len(keys), func(ctx context.Context, i int) (err error) {
		asked[i], err = Last(ctx, s, keys[i])
		return err
	})
	for i, key := range keys {
		all[key] = asked[i]
	}
	return err
}

// each calls do for 0 to n-1, at most atOnce at a time.
func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}
