package reader

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// DirectGets returns a Source that reads the records of all tenants by direct gets, which any server with a replica
// answers. An auditor needs no other permission for it than direct gets on the streams of the record. The dead letters,
// Now and WaitRecorded it requests from dispatchers, like [ViaDispatcher].
func DirectGets(js jetstream.JetStream, asker operation.Asker) Source {
	return directGets{viaDispatcher{asker}, js}
}

type directGets struct {
	viaDispatcher
	js jetstream.JetStream
}

// Limits of one batch of direct gets. It ends with the message that exceeds copiedBytes. A server closes a connection
// for which 8 MiB wait, counting what it has sent until its present write ends, and three streams are read at once.
const (
	copiedMessages = 256
	copiedBytes    = 512 << 10
)

// State counts all sequences from the first to the last as messages, because a direct get does not return their number.
func (c directGets) State(ctx context.Context, stream string) (s State, err error) {
	if !slices.Contains(ofRecord(), stream) {
		return c.viaDispatcher.State(ctx, stream)
	}
	if s.First, err = c.position(ctx, stream, `{"seq":1}`); err != nil || s.First == 0 {
		return State{}, err
	}
	if s.Last, err = c.position(ctx, stream, `{"last_by_subj":">"}`); err != nil {
		return State{}, err
	}
	s.Messages = s.Last - s.First + 1
	return s, nil
}

// position returns the sequence of the message that the direct get which selects, or 0 if the stream has no such
// message.
func (c directGets) position(ctx context.Context, stream, which string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	msg, err := c.js.Conn().RequestWithContext(ctx, subjects.DirectGet(stream), []byte(which))
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", stream, err)
	}
	at := msg.Header.Get(jetstream.SequenceHeader)
	if at == "" {
		return 0, nil // no such message
	}
	return strconv.ParseUint(at, 10, 64)
}

func (c directGets) Messages(ctx context.Context, stream string, from StartAt,
	quiet time.Duration) iter.Seq2[Message, error] {
	if !slices.Contains(ofRecord(), stream) {
		return c.viaDispatcher.Messages(ctx, stream, from, quiet)
	}
	return func(take func(Message, error) bool) {
		more := true
		yield := func(m Message, err error) bool {
			more = take(m, err)
			return more
		}
		at := jetstreamext.GetBatchSeq(from.After + 1)
		if from.After == 0 && !from.Since.IsZero() {
			at = jetstreamext.GetBatchStartTime(from.Since)
		}
		for more {
			n, last, err := c.batch(ctx, stream, at, quiet, yield)
			switch {
			case quiet == 0 && ctx.Err() != nil:
				return
			case err != nil:
				yield(Message{}, fmt.Errorf("read %s: %w", stream, err))
				return
			case n > 0:
				at = jetstreamext.GetBatchSeq(last + 1)
			}
			if more && n == 0 {
				more = quiet == 0 && timer.Sleep(ctx, pollPause)
			}
		}
	}
}

// batch yields the next messages, and returns their number and the last sequence. n is 0 at the end of the stream.
func (c directGets) batch(ctx context.Context, stream string, at jetstreamext.GetBatchOpt, quiet time.Duration,
	yield func(Message, error) bool) (n int, last uint64, err error) {
	if quiet > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, quiet)
		defer cancel()
	}
	msgs, err := jetstreamext.GetBatch(ctx, c.js, stream, copiedMessages, at, jetstreamext.GetBatchMaxBytes(copiedBytes))
	if err != nil {
		return 0, 0, err
	}
	for m, err := range msgs {
		switch {
		case errors.Is(err, jetstreamext.ErrNoMessages):
			return n, last, nil
		case err != nil:
			return n, last, err
		}
		n, last = n+1, m.Sequence
		if !yield(Message{m.Sequence, m.Time, m.Data}, nil) {
			break
		}
	}
	if n == 0 { // GetBatch takes the end of its time for the end of the stream
		return 0, 0, ctx.Err()
	}
	return n, last, nil
}
