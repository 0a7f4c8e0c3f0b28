package writer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/audit"
)

// chain appends segments to one chain, each by compare-and-set on the last message of its subjects. After an error the
// segments may or may not be stored: call [chain.resume] before the next append. It is not safe for concurrent use.
type chain struct {
	js      jetstream.JetStream
	stream  string
	all     string                     // filter of the subjects of the chain
	subject func(tenant string) string // returns the subject of a segment
	answer  time.Duration              // timeout of an ack; a server or leader that goes away sends none

	end  uint64 // sequence of the last message on the subjects of the chain
	hash string // of the last segment; empty if the chain is empty
}

// sealed is a segment that is ready to be published, with its hash.
type sealed struct {
	*nats.Msg
	hash string
}

// Up to fewSegments segments are published one by one, more as atomic batches. The server stores a batch with one
// compare-and-set, but stages and checks each message, so that for few messages single publishes are cheaper.
const (
	fewSegments = 8
	batchSize   = 1000 // limit of the server
)

// seal returns the messages of a flush, the first of which is segment s.K.
func (c *chain) seal(all []*audit.SegmentBody, s audit.Segment) ([]sealed, error) {
	msgs := make([]sealed, 0, len(all))
	s.Prev, s.N = c.hash, s.K+len(all)-1
	for _, lines := range all {
		data, hash, err := lines.Seal(s)
		if err != nil {
			return nil, err
		}
		msgs = append(msgs, sealed{&nats.Msg{Subject: c.subject(lines.Tenant), Data: data}, hash})
		s.Prev, s.K = hash, s.K+1
	}
	return msgs, nil
}

// append stores segments in order, and returns the number that are known to be stored.
func (c *chain) append(ctx context.Context, msgs []sealed) (stored int, err error) {
	size := 1
	if len(msgs) > fewSegments {
		size = batchSize
	}
	for some := range slices.Chunk(msgs, size) {
		some[0].Header = nats.Header{
			jetstream.ExpectedLastSubjSeqHeader:     {strconv.FormatUint(c.end, 10)},
			jetstream.ExpectedLastSubjSeqSubjHeader: {c.all},
		}
		end, err := c.store(ctx, some)
		if err != nil {
			return stored, err
		}
		c.end, c.hash = end, some[len(some)-1].hash
		stored += len(some)
	}
	return stored, nil
}

// store stores messages, several as one batch, and returns the sequence of the last one.
func (c *chain) store(ctx context.Context, msgs []sealed) (uint64, error) {
	if len(msgs) == 1 {
		stored, err := bus.Publish(ctx, c.js, msgs[0].Msg, c.answer)
		if err != nil {
			return 0, fmt.Errorf("audit segment: %w", err)
		}
		return stored.Sequence, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.answer)
	defer cancel()
	first := jetstreamext.BatchFlowControl{AckFirst: true, AckTimeout: c.answer}
	batch, err := jetstreamext.NewBatchPublisher(c.js, first)
	if err != nil {
		return 0, fmt.Errorf("audit segments: %w", err)
	}
	last := len(msgs) - 1
	for _, m := range msgs[:last] {
		if err := batch.AddMsg(m.Msg); err != nil {
			return 0, fmt.Errorf("audit segments: %w", err)
		}
	}
	stored, err := batch.CommitMsg(ctx, msgs[last].Msg)
	if err != nil {
		return 0, fmt.Errorf("audit segments: %w", err)
	}
	return stored.Sequence, nil
}

// tail is the end of a chain: the stored segments of the last flush, and of incomplete flushes with the same After. It
// leaves out foreign messages.
type tail struct {
	end   uint64 // see chain
	flush []audit.OpenedSegment
}

// last returns the last segment, or nil if the chain is empty.
func (t tail) last() *audit.OpenedSegment {
	if len(t.flush) == 0 {
		return nil
	}
	return &t.flush[len(t.flush)-1]
}

// add processes the next message on the subjects of the chain.
func (t *tail) add(seq uint64, data []byte) error {
	t.end = seq
	s, ok, err := audit.Open(data)
	if err != nil || !ok {
		return err
	}
	if last := t.last(); last == nil || s.After != last.After || last.K == last.N {
		t.flush = t.flush[:0]
	}
	t.flush = append(t.flush, s)
	return nil
}

// whole reports whether no earlier message is needed: the last flush is complete, or its first segment is in t.
func (t tail) whole() bool {
	last := t.last()
	return last != nil && (last.K == last.N || t.flush[0].K == 1)
}

// resume reads the end of the chain, so that append continues from there. It returns an error if the server does not
// answer, or if a newer build has continued the chain (a [format.Error]).
func (c *chain) resume(ctx context.Context) (tail, error) {
	t, err := c.tail(ctx)
	if err != nil {
		return t, err
	}
	c.end, c.hash = t.end, ""
	if last := t.last(); last != nil {
		c.hash = last.Hash
	}
	return t, nil
}

func (c *chain) tail(ctx context.Context) (t tail, err error) {
	soon, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	stream, err := c.js.Stream(soon, c.stream)
	if err != nil {
		return t, fmt.Errorf("audit: %w", err)
	}
	msg, err := stream.GetLastMsgForSubject(soon, c.all)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound): // a new chain, or all messages have expired
		return t, nil
	case err != nil && !errors.Is(err, nats.ErrBadHeaderMsg):
		return t, fmt.Errorf("audit: %w", err)
	case err == nil:
		if err := t.add(msg.Sequence, msg.Data); err != nil || t.whole() {
			return t, err
		}
	}
	return c.search(ctx, stream.CachedInfo().State.LastSeq)
}

// firstSpan is the number of messages that search reads first, counted from the end of the stream.
const firstSpan = 1000

// search returns the tail if the last message is not enough. It reads more and more messages before the end of the
// stream. Foreign messages cannot be removed from the stream, so it must read past them.
func (c *chain) search(ctx context.Context, newest uint64) (t tail, err error) {
	for span := uint64(firstSpan); ; span *= 10 {
		t = tail{}
		from := bus.StartAfter(newest - min(span, newest))
		from.FilterSubjects = []string{c.all}
		for msg, err := range bus.Messages(ctx, c.js, c.stream, from, bus.ReadTimeout) {
			if err == nil {
				err = t.add(msg.Seq, msg.Data())
			}
			if err != nil {
				return t, fmt.Errorf("audit: %w", err)
			}
		}
		if t.whole() || span >= newest {
			return t, nil
		}
	}
}
