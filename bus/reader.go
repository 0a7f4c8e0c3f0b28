package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// reader reads a stream for [Messages]. It has a consumer, and makes another one if that is lost.
type reader struct {
	js     jetstream.JetStream
	stream string
	cfg    jetstream.OrderedConsumerConfig
	quiet  time.Duration // 0 for a follower

	end    uint64        // sequence of the last message that the stream had at the start
	last   uint64        // sequence of the last message
	ahead  uint64        // messages that the consumer had after the last one
	waited time.Duration // since the last message

	made      int                // consumers
	consumer  jetstream.Consumer // the last one that the server has made
	it        jetstream.MessagesContext
	release   func()
	delivered uint64 // messages of the consumer
	stuck     int    // probes in a row that found a message that the server has and does not deliver
	unasked   int    // probes in a row that found such a message, and no request for it
}

const (
	// heartbeat is the longest quiet of the server while it has a request for messages. After twice that, a reader makes
	// a new consumer.
	heartbeat = 2 * time.Second
	// openTime is the time for one attempt to make another consumer.
	openTime = 2 * time.Second
	// dropTime is the time for the answer to the deletion of a consumer.
	dropTime = 500 * time.Millisecond
	// keepConsumer is the time after which the server deletes a consumer that nobody asks for messages.
	keepConsumer = time.Minute
	// probeTime is the quiet after which [Messages] asks why nothing comes, and the time limit of that question.
	probeTime = time.Second
	// maxStuck is the number of probes after which a consumer that delivers nothing is stuck: a damaged message precedes
	// the next one.
	maxStuck = 2
)

var (
	// errDamaged means that a stream has messages that the server cannot read.
	errDamaged = errors.New("the server cannot read all messages of the stream: a file of its storage is damaged; " +
		"see docs/operations.md, damaged streams")
	// errEnd means that no message remains.
	errEnd = errors.New("end of the stream")
	// errUnasked means that the server has no request for messages. It loses one in a thousand that follow the creation
	// of a consumer at another server of its cluster, and nats.go repeats such a request after 30 s.
	errUnasked = errors.New("the request for messages is lost")
	// errBehind means that the leader of the stream has a message that the server of the consumer does not have.
	errBehind = errors.New("the server of the consumer is behind")
	// errMissed means that messages were lost on their way.
	errMissed = errors.New("messages are missing")
	// errNothing means that nothing came for probeTime, or that no other consumer could be made.
	errNothing = errors.New("nothing came")
)

// read calls yield for each message as [Messages] does, and returns the error that ends them.
func (r *reader) read(ctx context.Context, yield func(Message, error) bool) error {
	follow := r.quiet == 0
	if j, ok := r.js.(*SharedJetStream); ok && !follow {
		done, err := j.reads.beginPage(ctx)
		if err != nil {
			return err
		}
		defer done()
	}
	defer r.shut(ctx)
	if err := r.begin(ctx); err != nil {
		return err
	}
	for follow || !r.ended(ctx) {
		msg, err := r.next(ctx)
		switch {
		case errors.Is(err, errEnd):
			return nil
		case follow && err != nil && (errors.Is(err, context.Canceled) || r.js.Conn().IsClosed()):
			return nil // the usual end of a follower; a reader up to the end gets the error: it is incomplete
		case err != nil:
			return err
		}
		if !yield(msg, nil) {
			return nil
		}
	}
	return nil
}

// begin asks the leader for the end of the stream, if that is the end of the read, and makes the first consumer.
func (r *reader) begin(ctx context.Context) error {
	if r.quiet > 0 {
		s, err := r.js.Stream(ctx, r.stream)
		if err != nil {
			return MissingStreamError(err)
		}
		r.end = s.CachedInfo().State.LastSeq
		if r.cfg.DeliverPolicy == jetstream.DeliverByStartSequencePolicy {
			r.last = r.cfg.OptStartSeq - 1
		}
	}
	return r.open(ctx)
}

// ended reports whether the last message was the last one up to the end. If the consumer has no more, it asks the
// leader of the stream: the server of the consumer may be behind. It asks by sequence, so it cannot where the read
// begins at a time and nothing has come yet.
func (r *reader) ended(ctx context.Context) bool {
	if r.ahead > 0 || r.last >= r.end || r.last == 0 && r.cfg.OptStartTime != nil {
		return r.ahead == 0
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	s, err := r.js.Stream(ctx, r.stream)
	if err != nil {
		return false // the next probe asks again
	}
	seq, err := r.following(ctx, s)
	return err == nil && (seq == 0 || seq > r.end)
}

// open makes a consumer for the messages after the last one.
func (r *reader) open(ctx context.Context) error {
	r.made++
	cons, err := r.js.CreateOrUpdateConsumer(ctx, r.stream, r.config())
	if IsAnswered(err) {
		if _, why := r.js.Stream(ctx, r.stream); IsAnswered(why) { // the server may say only that it lacks resources
			err = why
		}
	}
	if err != nil {
		if !IsAnswered(err) { // the server may have made it
			r.drop(ctx)
		}
		return MissingStreamError(err)
	}
	it, err := cons.Messages(jetstream.PullMaxBytes(page(r.js.Conn())), jetstream.PullHeartbeat(heartbeat),
		jetstream.WithMessagesErrOnMissingHeartbeat(true))
	if err != nil {
		return err
	}
	r.consumer, r.it, r.release = cons, it, stopAtReconnect(r.js.Conn(), it)
	r.delivered, r.stuck, r.unasked, r.ahead = 0, 0, 0, cons.CachedInfo().NumPending
	return nil
}

// config returns the configuration of the next consumer: that of an ordered consumer.
func (r *reader) config() jetstream.ConsumerConfig {
	c := jetstream.ConsumerConfig{
		DeliverPolicy: r.cfg.DeliverPolicy, OptStartSeq: r.cfg.OptStartSeq, OptStartTime: r.cfg.OptStartTime,
		FilterSubjects: r.cfg.FilterSubjects, HeadersOnly: r.cfg.HeadersOnly,
		AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: keepConsumer, Replicas: 1, MemoryStorage: true,
	}
	if r.last > 0 {
		c.DeliverPolicy, c.OptStartSeq, c.OptStartTime = jetstream.DeliverByStartSequencePolicy, r.last+1, nil
	}
	switch {
	case len(c.FilterSubjects) == 1:
		c.FilterSubject, c.FilterSubjects = c.FilterSubjects[0], nil
	case len(c.FilterSubjects) == 0 && c.DeliverPolicy == jetstream.DeliverLastPerSubjectPolicy:
		c.FilterSubjects = []string{">"} // which the server demands
	}
	if r.cfg.NamePrefix != "" {
		c.Name = r.name()
	}
	return c
}

// name returns the name of the newest consumer.
func (r *reader) name() string { return fmt.Sprintf("%s_%d", r.cfg.NamePrefix, r.made) }

// stopAtReconnect stops it after a reconnect, because messages on their way are lost then. The function that it returns
// ends that.
func stopAtReconnect(nc *nats.Conn, it jetstream.MessagesContext) (release func()) {
	status, done := nc.StatusChanged(nats.CONNECTED), make(chan struct{})
	go func() {
		defer close(done)
		if _, connected := <-status; connected {
			it.Stop()
		}
	}()
	return func() {
		nc.RemoveStatusListener(status)
		<-done
	}
}

// shut ends the consumer.
func (r *reader) shut(ctx context.Context) {
	if r.it == nil {
		return
	}
	r.it.Stop()
	r.release()
	r.it = nil
	r.drop(ctx)
}

// drop deletes the newest consumer if it has a name of ours. After an error the server deletes it later.
func (r *reader) drop(ctx context.Context) {
	if r.cfg.NamePrefix != "" {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
		defer cancel()
		_ = r.js.DeleteConsumer(ctx, r.stream, r.name())
	}
}

// next waits for the next message for at most quiet, or without limit if quiet is 0.
func (r *reader) next(ctx context.Context) (Message, error) {
	for r.waited = 0; r.quiet == 0 || r.waited < r.quiet; {
		msg, err := r.take(ctx)
		switch {
		case err == nil:
			return msg, nil
		case ctx.Err() != nil:
			return Message{}, ctx.Err()
		case r.js.Conn().IsClosed():
			return Message{}, err
		case errors.Is(err, errNothing) && r.quiet == 0:
			continue
		case errors.Is(err, errNothing):
			if err = r.probe(ctx); err == nil {
				continue
			}
			if !errors.Is(err, errUnasked) && !errors.Is(err, errBehind) && !errors.Is(err, jetstream.ErrConsumerNotFound) {
				return Message{}, err
			}
		}
		r.shut(ctx)
	}
	return Message{}, fmt.Errorf("nothing came for %s, before the end: is the server still there?", r.quiet)
}

// take waits for the next message for at most probeTime, or without limit if quiet is 0. Without a consumer it makes
// one. The error is errNothing, or says that the consumer is lost.
func (r *reader) take(ctx context.Context) (m Message, err error) {
	if err := ctx.Err(); err != nil { // Next might return a buffered message first
		return m, err
	}
	if r.it == nil && !r.openAgain(ctx) {
		return m, errNothing
	}
	waits := ctx
	if r.quiet > 0 {
		wait := min(r.quiet-r.waited, probeTime)
		r.waited += wait
		var cancel context.CancelFunc
		waits, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	msg, err := r.it.Next(jetstream.NextContext(waits))
	if errors.Is(err, context.DeadlineExceeded) {
		return m, errNothing
	}
	if err != nil {
		return m, err
	}
	meta, err := msg.Metadata()
	if err != nil {
		return m, err
	}
	if meta.Sequence.Consumer != r.delivered+1 {
		return m, errMissed
	}
	r.delivered, r.last, r.ahead = meta.Sequence.Consumer, meta.Sequence.Stream, meta.NumPending
	r.stuck, r.unasked = 0, 0
	return Message{msg, meta.Sequence.Stream, meta.Timestamp}, nil
}

// openAgain tries to make another consumer for openTime.
func (r *reader) openAgain(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	if r.open(ctx) == nil {
		return true
	}
	r.waited += openTime
	<-ctx.Done()
	return false
}

// probe returns an error if the server says that no message will come: errEnd, that the consumer is gone, errBehind or
// errUnasked, or why it cannot deliver those that remain. Without an answer it returns nil.
func (r *reader) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	s, err := r.js.Stream(ctx, r.stream)
	if err != nil {
		if IsAnswered(err) && !HasErrorCode(err, CodeElecting) {
			return MissingStreamError(err)
		}
		return nil
	}
	seq, err := r.following(ctx, s)
	if err != nil {
		return nil
	}
	info, err := r.consumer.Info(ctx)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		return err
	case err != nil:
		return nil
	case seq > 0 && info.NumPending == 0 && s.CachedInfo().Config.Replicas > 1:
		return errBehind
	case seq > 0 && info.NumWaiting == 0:
		if r.unasked++; r.unasked < maxStuck {
			return nil
		}
		return errUnasked
	case seq > 0:
		if r.stuck++; r.stuck < maxStuck {
			return nil
		}
	case info.NumPending == 0 && (r.ahead == 0 || !s.CachedInfo().Config.DenyDelete): // what was pending has expired
		return errEnd
	}
	return errDamaged
}

// following returns the sequence of the next message after the last one that the server can read, or 0.
func (r *reader) following(ctx context.Context, s jetstream.Stream) (seq uint64, err error) {
	filters := r.cfg.FilterSubjects
	if len(filters) == 0 {
		filters = []string{">"}
	}
	for _, filter := range filters {
		msg, err := s.GetMsg(ctx, r.last+1, jetstream.WithGetMsgSubject(filter))
		switch {
		case err == nil && (seq == 0 || msg.Sequence < seq):
			seq = msg.Sequence
		case err != nil && !errors.Is(err, jetstream.ErrMsgNotFound):
			return 0, err
		}
	}
	return seq, nil
}
