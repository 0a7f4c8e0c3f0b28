package record

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/audit"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/form"
	"github.com/seed-018f16cc/toolbus/internal/wait"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Filter selects audit records; zero values select all. Times are those of the records' own
// events, in bus time.
type Filter struct {
	Since, Until time.Time
	Tenant       string
	Tool, Actor  string
	Call         string // reference, call id, or its first 8 characters or more
	Event        audit.Event
	FromNow      bool // only what is put on record after the start
	Follow       bool // go on with new records until ctx ends, or Until has passed
}

func (f Filter) has(r audit.Record) bool {
	return (f.Tenant == "" || r.Tenant == f.Tenant) &&
		(f.Tool == "" || r.ToolName == f.Tool) &&
		(f.Actor == "" || r.Actor == f.Actor) &&
		(f.Event == "" || r.Event == f.Event) &&
		(f.Call == "" || r.CallID == f.Call || r.Ref == f.Call || len(f.Call) >= shortID &&
			strings.HasPrefix(r.CallID, f.Call)) &&
		(f.Since.IsZero() || !r.Timestamp.Before(f.Since)) &&
		(f.Until.IsZero() || !r.Timestamp.After(f.Until))
}

// shortID is how much of a call id says which one is meant.
const shortID = 8

// ahead is how far a record's time may be ahead of the time at which it came into the stream. Events
// of the log are recorded after they were written; what a dispatcher records of its own bears its
// measure of bus time.
const ahead = time.Minute

// start is from where on a stream may hold records that fit.
func (f Filter) start(ctx context.Context, js jetstream.JetStream, name string) (jetstream.OrderedConsumerConfig,
	error) {
	switch {
	case f.FromNow:
		stream, err := js.Stream(ctx, name)
		if err != nil {
			return jetstream.OrderedConsumerConfig{}, fmt.Errorf("read %s: %w", name, err)
		}
		return after(stream.CachedInfo().State.LastSeq), nil
	case f.Since.IsZero():
		return jetstream.OrderedConsumerConfig{}, nil
	}
	from := f.Since.Add(-ahead)
	return jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &from}, nil
}

func after(seq uint64) jetstream.OrderedConsumerConfig {
	return jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: seq + 1}
}

// Replay yields the records that fit as they stood when it was called, in the order in which they came on record: those
// of a call oldest first. With Follow also all that come after. What is no record, and was put into a stream by
// somebody else, is left out.
func Replay(ctx context.Context, js jetstream.JetStream, f Filter) iter.Seq2[audit.Record, error] {
	return func(yield func(audit.Record, error) bool) {
		r := &auditReader{js: js, filter: f, yield: yield}
		err := r.open(ctx)
		switch {
		case err != nil:
		case f.Follow && !f.Until.IsZero():
			err = r.followUntil(ctx)
		default:
			err = r.read(ctx, f.Follow)
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(audit.Record{}, err)
		}
	}
}

// auditReader yields the records of the streams that fit.
type auditReader struct {
	js      jetstream.JetStream
	filter  Filter
	yield   func(audit.Record, error) bool
	sources []*source
	told    remembered // ids of records that more than one process may have written
}

// source is one of the streams, and where to read on in it.
type source struct {
	stream string
	from   jetstream.OrderedConsumerConfig
}

// errEnough ends a reader whose consumer wants no more.
var errEnough = errors.New("enough")

func (a *auditReader) open(ctx context.Context) error {
	for _, stream := range []string{subjects.AuditStream, subjects.DeniedStream} {
		from, err := a.filter.start(ctx, a.js, stream)
		if err != nil {
			return err
		}
		a.sources = append(a.sources, &source{stream, from})
	}
	return nil
}

func (a *auditReader) read(ctx context.Context, follow bool) error {
	read := merged
	if follow {
		read = mixed
	}
	for m, err := range read(ctx, a.js, a.sources) {
		if err != nil {
			return err
		}
		if err := a.take(m); err != nil {
			return err
		}
	}
	return nil
}

// take yields the records of a message.
func (a *auditReader) take(m message) error {
	s, segment, err := audit.Open(m.Data())
	if err != nil {
		return fmt.Errorf("audit segment %d of %s: %w", m.seq, m.stream, err)
	}
	lines := s.Lines()
	if !segment { // a record of a build before segments
		lines = func(yield func([]byte) bool) { yield(m.Data()) }
	}
	for line := range lines {
		r, ok, err := audit.Decode(line)
		if err != nil {
			return fmt.Errorf("audit record in %d of %s: %w", m.seq, m.stream, err)
		}
		if ok && a.filter.has(r) && a.first(r.EventID) && !a.yield(r, nil) {
			return errEnough
		}
	}
	return nil
}

// first reports whether a record has not been yielded yet, as far as that is remembered.
func (a *auditReader) first(id string) bool {
	if id == "" {
		return true
	}
	known := a.told.has(id)
	a.told.add(slices.Values([]string{id}))
	return !known
}

// message is one of a stream of the record.
type message struct {
	stored
	stream string
}

// messages yields what is in the stream from where it was left.
func (s *source) messages(ctx context.Context, js jetstream.JetStream, quiet time.Duration) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		for msg, err := range messages(ctx, js, s.stream, s.from, quiet) {
			if err == nil {
				s.from = after(msg.seq)
			}
			if !yield(message{msg, s.stream}, err) {
				return
			}
		}
	}
}

// merged yields what is in the streams, oldest first.
func merged(ctx context.Context, js jetstream.JetStream, sources []*source) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		type head struct {
			message
			next func() (message, error, bool)
		}
		var heads []head
		for _, s := range sources {
			next, stop := iter.Pull2(s.messages(ctx, js, quietTime))
			defer stop()
			heads = append(heads, head{next: next})
		}
		advance := func(i int) bool {
			m, err, ok := heads[i].next()
			switch {
			case err != nil:
				yield(message{}, err)
				return false
			case !ok:
				heads = slices.Delete(heads, i, i+1)
			default:
				heads[i].message = m
			}
			return true
		}
		for i := len(heads) - 1; i >= 0; i-- {
			if !advance(i) {
				return
			}
		}
		for len(heads) > 0 {
			oldest := 0
			for i := range heads {
				if heads[i].time.Before(heads[oldest].time) {
					oldest = i
				}
			}
			if !yield(heads[oldest].message, nil) || !advance(oldest) {
				return
			}
		}
	}
}

// mixed yields what is in the streams and all that ever comes, as it comes.
func mixed(ctx context.Context, js jetstream.JetStream, sources []*source) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		type came struct {
			message
			err error
		}
		ctx, cancel := context.WithCancel(ctx)
		var readers sync.WaitGroup
		all := make(chan came)
		for _, s := range sources {
			readers.Go(func() {
				for m, err := range s.messages(ctx, js, 0) {
					select {
					case all <- came{m, err}:
					case <-ctx.Done():
						return
					}
				}
			})
		}
		go func() { readers.Wait(); close(all) }()
		defer func() { // it has ended when all is closed
			cancel()
			for range all {
			}
		}()
		for c := range all {
			if !yield(c.message, c.err) {
				return
			}
		}
	}
}

// recordTime bounds the wait for the record at the end of followUntil: dispatchers that are further
// behind admit nothing.
const recordTime = 10 * time.Second

// followUntil follows the record until the filter's time has passed, and then reads what had happened
// by then and was not on record yet.
func (a *auditReader) followUntil(ctx context.Context) error {
	clock, err := bus.NewClock(ctx, a.js, nil)
	if err != nil {
		return err
	}
	following, cancel := context.WithTimeout(ctx, a.filter.Until.Sub(clock.Now()))
	defer cancel()
	if err := a.read(following, true); err != nil && following.Err() == nil || errors.Is(err, errEnough) {
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	waiting, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	if err := Await(waiting, a.js); err != nil {
		return err
	}
	return a.read(ctx, false)
}

// Await waits until the record holds every admission and decision that the call log holds now.
func Await(ctx context.Context, js jetstream.JetStream) error {
	n, err := kv.Partitions(ctx, js)
	if err != nil {
		return fmt.Errorf("await the record: %w", err)
	}
	for p := range n {
		if err := awaitPart(ctx, js, subjects.Part(p)); err != nil {
			return err
		}
	}
	return nil
}

func awaitPart(ctx context.Context, js jetstream.JetStream, part subjects.Part) error {
	calls, err := js.Stream(ctx, part.Stream())
	if err != nil {
		return fmt.Errorf("await the record: %w", err)
	}
	end := uint64(0)
	for _, filter := range part.Recorded() {
		msg, err := calls.GetLastMsgForSubject(ctx, filter)
		switch {
		case err == nil:
			_, err := kv.DecodeEvent(msg.Subject, msg.Header)
			if err == nil || form.Unreadable(err) { // what is no event does not come on record
				end = max(end, msg.Sequence)
			}
		case !errors.Is(err, jetstream.ErrMsgNotFound) && !errors.Is(err, nats.ErrBadHeaderMsg):
			return fmt.Errorf("await the record: %w", err)
		}
	}
	p := newProjector(js, part)
	err = wait.Retry{Pause: 20 * time.Millisecond}.Until(ctx, func(ctx context.Context) (bool, error) {
		_, err := p.resume(ctx)
		return err != nil || p.done.Seq >= end, err
	})
	if err == nil && p.done.Seq < end {
		err = fmt.Errorf("await the record: %w", ctx.Err())
	}
	return err
}

// quietTime is how long the rest of a stream is waited for: a server that is started again in between,
// and found again, takes some ten seconds.
const quietTime = 30 * time.Second

// stored is a message of a stream.
type stored struct {
	jetstream.Msg
	seq  uint64 // its position
	time time.Time
}

// messages yields the messages of a stream in order up to its present end, each of which has to come within quiet after
// the one before was taken; or all that ever come, if quiet is 0.
func messages(ctx context.Context, js jetstream.JetStream, stream string, cfg jetstream.OrderedConsumerConfig,
	quiet time.Duration) iter.Seq2[stored, error] {
	return func(yield func(stored, error) bool) {
		if err := consume(ctx, js, stream, cfg, quiet, yield); err != nil {
			yield(stored{}, fmt.Errorf("read %s: %w", stream, err))
		}
	}
}

// consume is messages, and returns the error that ends them.
func consume(ctx context.Context, js jetstream.JetStream, stream string, cfg jetstream.OrderedConsumerConfig,
	quiet time.Duration, yield func(stored, error) bool) error {
	follow := quiet == 0
	cons, err := js.OrderedConsumer(ctx, stream, cfg)
	if err != nil {
		return bus.Missing(err)
	}
	info, err := cons.Info(ctx)
	if err != nil || info.NumPending == 0 && !follow {
		return err
	}
	it, err := cons.Messages()
	if err != nil {
		return err
	}
	defer it.Stop()
	for {
		msg, err := nextWithin(ctx, it, quiet)
		if follow && (errors.Is(err, context.Canceled) || errors.Is(err, jetstream.ErrMsgIteratorClosed)) {
			return nil // that is its end; whoever wants all must know that it was not
		}
		if err != nil {
			return err
		}
		meta, err := msg.Metadata()
		if err != nil {
			return err
		}
		if !yield(stored{msg, meta.Sequence.Stream, meta.Timestamp}, nil) || !follow && meta.NumPending == 0 {
			return nil
		}
	}
}

// nextWithin waits for the next message, as long as it takes if quiet is 0.
func nextWithin(ctx context.Context, it jetstream.MessagesContext, quiet time.Duration) (jetstream.Msg, error) {
	if err := ctx.Err(); err != nil { // also if there is a message
		return nil, err
	}
	if quiet == 0 {
		return it.Next(jetstream.NextContext(ctx))
	}
	once, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	msg, err := it.Next(jetstream.NextContext(once))
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = fmt.Errorf("nothing came for %s, before the end: is the server still there?", quiet)
	}
	return msg, err
}

// DeadLetters returns all dead letters, oldest first. Messages that somebody else put into their
// stream are left out.
func DeadLetters(ctx context.Context, js jetstream.JetStream) ([]DeadLetter, error) {
	letters := []DeadLetter{}
	for msg, err := range messages(ctx, js, subjects.DeadStream, jetstream.OrderedConsumerConfig{}, quietTime) {
		if err != nil {
			return nil, err
		}
		d, err := letter(msg.Data(), msg.seq)
		if form.Unreadable(err) {
			return nil, err
		}
		if err == nil {
			letters = append(letters, d)
		}
	}
	return letters, nil
}

// DeadLetterAt returns one dead letter.
func DeadLetterAt(ctx context.Context, js jetstream.JetStream, seq uint64) (DeadLetter, error) {
	stream, err := js.Stream(ctx, subjects.DeadStream)
	if err != nil {
		return DeadLetter{}, fmt.Errorf("dead letters: %w", bus.Missing(err))
	}
	if seq == 0 { // the server takes it for a question without a number
		return DeadLetter{}, errors.New("dead letters are counted from 1; `toolbus dead list` shows them")
	}
	msg, err := stream.GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return DeadLetter{}, fmt.Errorf("there is no dead letter %d; `toolbus dead list` shows them", seq)
	}
	if err != nil {
		return DeadLetter{}, fmt.Errorf("dead letter %d: %w", seq, err)
	}
	return letter(msg.Data, seq)
}

func letter(data []byte, seq uint64) (DeadLetter, error) {
	var d DeadLetter
	if err := json.Unmarshal(data, &d); err != nil {
		return d, fmt.Errorf("dead letter %d: %w", seq, err)
	}
	if err := form.Letter.Check(d.Form); err != nil && d.Form != 0 {
		return d, fmt.Errorf("dead letter %d: %w", seq, err)
	}
	if d.Cause == nil || d.Form == 0 {
		return d, fmt.Errorf("dead letter %d is none: it has no cause", seq)
	}
	d.Seq, d.Ref = seq, d.State.Ref()
	return d, nil
}
