package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// Message is a message of a stream with its stream sequence and the time at which the server stored it.
type Message struct {
	jetstream.Msg
	Seq  uint64
	Time time.Time
}

// StartAfter returns the configuration of an ordered consumer that starts with the message after seq.
func StartAfter(seq uint64) jetstream.OrderedConsumerConfig {
	return jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: seq + 1}
}

// page returns the number of bytes that [Messages] asks of the server at a time: the largest message, with its subject.
func page(nc *nats.Conn) int { return int(nc.MaxPayload()) + envelope.MaxHeaders }

// ReadTimeout is the usual quiet of [Messages]. The restart of a server and the reconnect take about 10 s.
const ReadTimeout = 30 * time.Second

// Messages yields the messages of a stream in order, up to the end that the stream has when the last one arrives. It
// yields an error, and ends, if the next message takes longer than quiet, or if ctx ends. If the server cannot read the
// messages that remain, the error says so and comes within 3 s.
//
// If quiet is 0, Messages does not end at the end of the stream, but waits for new messages. It then ends without an
// error when ctx is cancelled.
//
// It asks the server for no more bytes at a time than one message may have. If js was made by [Shared], it is one of
// its maxPages until it ends, so its consumer must not read pages over the same connection. One that waits for new
// messages is not counted: a process has few of those, and none is of calls with their bodies.
//
// If cfg has a NamePrefix, Messages deletes its consumers when it ends. The prefix must be unique. Otherwise the server
// keeps them for five minutes, and a stream permits some hundreds of consumers, while a large list takes more pages.
func Messages(ctx context.Context, js jetstream.JetStream, stream string, cfg jetstream.OrderedConsumerConfig,
	quiet time.Duration) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		if err := consume(ctx, js, stream, cfg, quiet, yield); err != nil {
			yield(Message{}, fmt.Errorf("read %s: %w", stream, err))
		}
	}
}

// dropTime is the time for the answer to the deletion of a consumer.
const dropTime = 500 * time.Millisecond

func dropConsumers(ctx context.Context, js jetstream.JetStream, stream, prefix string) {
	ctx = context.WithoutCancel(ctx)
	for _, n := range []string{"_1", "_2"} { // nats.go creates one for the stream state and one for the messages
		ctx, cancel := context.WithTimeout(ctx, dropTime)
		_ = js.DeleteConsumer(ctx, stream, prefix+n) // after an error the server deletes it later
		cancel()
	}
}

// consume calls yield for each message as [Messages] does, and returns the error that ends them.
func consume(ctx context.Context, js jetstream.JetStream, stream string, cfg jetstream.OrderedConsumerConfig,
	quiet time.Duration, yield func(Message, error) bool) error {
	follow := quiet == 0
	if j, ok := js.(*SharedJetStream); ok && !follow {
		done, err := j.reads.beginPage(ctx)
		if err != nil {
			return err
		}
		defer done()
	}
	r := rest{js: js, stream: stream, cfg: cfg}
	for n := 1; ; n++ {
		err := r.read(ctx, quiet, yield)
		switch {
		case errors.Is(err, errUnasked):
			r.resume(cfg, n)
			continue
		case errors.Is(err, errEnd):
			return nil
		case follow && (errors.Is(err, context.Canceled) || errors.Is(err, jetstream.ErrMsgIteratorClosed)):
			return nil // the usual end of a follower; a reader up to the end gets the error: it is incomplete
		}
		return err
	}
}

// heartbeat is the longest quiet of the server while it has a request for messages. After twice that, a follower makes
// a new consumer: see errUnasked.
const heartbeat = 2 * time.Second

// read calls yield for the messages of one consumer.
func (r *rest) read(ctx context.Context, quiet time.Duration, yield func(Message, error) bool) error {
	follow := quiet == 0
	if r.cfg.NamePrefix != "" {
		defer dropConsumers(ctx, r.js, r.stream, r.cfg.NamePrefix)
	}
	cons, err := r.js.OrderedConsumer(ctx, r.stream, r.cfg)
	if IsAnswered(err) {
		if _, why := r.js.Stream(ctx, r.stream); IsAnswered(why) { // the server may say only that it lacks resources
			err = why
		}
	}
	if err != nil {
		return MissingStreamError(err)
	}
	info, err := cons.Info(ctx)
	if err != nil || info.NumPending == 0 && !follow {
		return err
	}
	it, err := cons.Messages(jetstream.PullMaxBytes(page(r.js.Conn())), jetstream.PullHeartbeat(heartbeat))
	if err != nil {
		return err
	}
	defer it.Stop()
	defer context.AfterFunc(ctx, it.Stop)() // nats.go tries for ever to make a new consumer, at a server that is away
	r.consumer, r.stuck, r.unasked = cons, 0, 0
	for {
		msg, err := r.next(ctx, it, quiet)
		if err != nil {
			return cmp.Or(ctx.Err(), err)
		}
		meta, err := msg.Metadata()
		if err != nil {
			return err
		}
		if !yield(Message{msg, meta.Sequence.Stream, meta.Timestamp}, nil) || !follow && meta.NumPending == 0 {
			return nil
		}
	}
}

// errDamaged means that a stream has messages that the server cannot read.
var errDamaged = errors.New("the server cannot read all messages of the stream: a file of its storage is damaged; " +
	"see docs/operations.md, damaged streams")

// errEnd means that no message remains.
var errEnd = errors.New("end of the stream")

// errUnasked means that the server has no request for messages. It loses one in a thousand that follow the creation of
// a consumer at another server of its cluster, and nats.go repeats such a request after 30 s.
var errUnasked = errors.New("the request for messages is lost")

// probeTime is the quiet after which [Messages] asks why nothing comes, and the time limit of that question.
const probeTime = time.Second

// rest holds the state of a reader with a consumer that has more to deliver.
type rest struct {
	js       jetstream.JetStream
	stream   string
	cfg      jetstream.OrderedConsumerConfig
	consumer jetstream.Consumer
	last     uint64        // sequence of the last message
	waited   time.Duration // since the last message
	stuck    int           // probes in a row that found a message that the server has and does not deliver
	unasked  int           // probes in a row that found such a message, and no request for it
}

// resume makes r continue after the last message with the n-th further consumer.
func (r *rest) resume(cfg jetstream.OrderedConsumerConfig, n int) {
	r.cfg = cfg
	if r.last > 0 {
		r.cfg = StartAfter(r.last)
		r.cfg.FilterSubjects, r.cfg.HeadersOnly = cfg.FilterSubjects, cfg.HeadersOnly
	}
	if cfg.NamePrefix != "" {
		r.cfg.NamePrefix = fmt.Sprint(cfg.NamePrefix, "-", n)
	}
}

// next waits for the next message for at most quiet, or without limit if quiet is 0.
func (r *rest) next(ctx context.Context, it jetstream.MessagesContext, quiet time.Duration) (jetstream.Msg, error) {
	for {
		wait := min(quiet-r.waited, probeTime)
		msg, err := nextWithin(ctx, it, wait)
		if err == nil {
			if meta, err := msg.Metadata(); err == nil {
				r.last, r.waited, r.stuck, r.unasked = meta.Sequence.Stream, 0, 0, 0
			}
		}
		if quiet == 0 || !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return msg, err
		}
		if err := r.probe(ctx); err != nil {
			return nil, err
		}
		if r.waited += wait; r.waited >= quiet {
			return nil, fmt.Errorf("nothing came for %s, before the end: is the server still there?", quiet)
		}
	}
}

// probe returns an error if the server says that no message will come: errEnd, errUnasked, or why it cannot deliver
// those that remain. Without an answer it returns nil.
func (r *rest) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	s, err := r.js.Stream(ctx, r.stream)
	if err != nil {
		if IsAnswered(err) && !HasErrorCode(err, CodeElecting) {
			return MissingStreamError(err)
		}
		return nil
	}
	more, err := r.more(ctx, s)
	if err != nil {
		return nil
	}
	info, err := r.consumer.Info(ctx)
	switch {
	case err != nil:
		return nil
	case more && info.NumWaiting == 0:
		if r.unasked++; r.unasked < maxStuck {
			return nil
		}
		return errUnasked
	case more:
		if r.stuck++; r.stuck < maxStuck {
			return nil
		}
	case info.NumPending == 0 && !s.CachedInfo().Config.DenyDelete: // what was pending has expired
		return errEnd
	}
	return errDamaged
}

// maxStuck is the number of probes after which a consumer that delivers nothing is stuck: a damaged message precedes
// the next one.
const maxStuck = 2

// more reports whether the server can read a message after the last one.
func (r *rest) more(ctx context.Context, s jetstream.Stream) (bool, error) {
	filters := r.cfg.FilterSubjects
	if len(filters) == 0 {
		filters = []string{">"}
	}
	for _, filter := range filters {
		_, err := s.GetMsg(ctx, r.last+1, jetstream.WithGetMsgSubject(filter))
		if !errors.Is(err, jetstream.ErrMsgNotFound) {
			return err == nil, err
		}
	}
	return false, nil
}

// nextWithin waits for the next message for at most quiet, or without limit if quiet is 0.
func nextWithin(ctx context.Context, it jetstream.MessagesContext, quiet time.Duration) (jetstream.Msg, error) {
	if err := ctx.Err(); err != nil { // Next might return a buffered message first
		return nil, err
	}
	if quiet > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, quiet)
		defer cancel()
	}
	return it.Next(jetstream.NextContext(ctx))
}

// MessageAt returns the message with the stream sequence seq. The error is [jetstream.ErrMsgNotFound] if the stream has
// no such message. It is the same if the headers of the message cannot be parsed: Toolbus did not write it.
func MessageAt(ctx context.Context, stream jetstream.Stream, seq uint64) (*jetstream.RawStreamMsg, error) {
	msg, err := stream.GetMsg(ctx, seq)
	if errors.Is(err, nats.ErrBadHeaderMsg) {
		err = jetstream.ErrMsgNotFound
	}
	return msg, err
}
