package baseline

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// As Toolbus does, the record collects the events of recordEvery and stores them in messages of at most recordBytes.
const (
	recordSubject = "floor.audit.log"
	recordEvery   = 200 * time.Millisecond
	recordBytes   = 512 << 10
)

// record follows the log and stores one line for every event.
type record struct {
	js        jetstream.JetStream
	following jetstream.ConsumeContext
	more      chan struct{}
	end       context.CancelFunc
	ended     sync.WaitGroup
	last      uint64 // sequence of the last message in the record stream

	mu    sync.Mutex
	lines []byte // not stored yet
	read  uint64 // sequence up to which the log was read
	done  uint64 // sequence up to which the log is recorded
	err   error
}

// follow starts recording the log from its beginning, until stop.
func follow(ctx context.Context, js jetstream.JetStream) (*record, error) {
	stream, err := js.Stream(ctx, recordStream)
	if err != nil {
		return nil, err
	}
	cons, err := js.OrderedConsumer(ctx, logStream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{logPrefix + ">"}, HeadersOnly: true,
	})
	if err != nil {
		return nil, err
	}
	r := &record{js: js, more: make(chan struct{}, 1), last: stream.CachedInfo().State.LastSeq}
	if r.following, err = cons.Consume(r.see); err != nil {
		return nil, err
	}
	ctx, r.end = context.WithCancel(ctx)
	r.ended.Go(func() { r.run(ctx) })
	return r, nil
}

func (r *record) stop() {
	r.following.Stop()
	<-r.following.Closed()
	r.end()
	r.ended.Wait()
}

// progress returns the sequence up to which the log is recorded, and the error that stopped recording.
func (r *record) progress() (done uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done, r.err
}

// see adds a line for the next event of the log.
func (r *record) see(msg jetstream.Msg) {
	meta, err := msg.Metadata()
	if err != nil {
		return // not a message of a stream
	}
	state := msg.Headers().Get(headerState)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read = meta.Sequence.Stream
	r.lines = strconv.AppendUint(append(r.lines, `{"log_seq":`...), r.read, 10)
	r.lines = append(append(r.lines, `,"event":"`...), msg.Subject()...)
	r.lines = append(append(r.lines, `","state":"`...), state...)
	r.lines = append(r.lines, "\"}\n"...)
	timer.Notify(r.more)
}

// run stores the collected lines until ctx ends.
func (r *record) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.more:
		}
		if !timer.Sleep(ctx, recordEvery) {
			return
		}
		if err := r.flush(ctx); err != nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.err = fmt.Errorf("record: %w", err)
			return
		}
	}
}

func (r *record) flush(ctx context.Context) error {
	r.mu.Lock()
	lines, read := r.lines, r.read
	r.lines = make([]byte, 0, len(lines)) // the next flush will have about the same size
	r.mu.Unlock()
	for len(lines) > 0 {
		n := fitting(lines)
		if err := r.append(ctx, lines[:n]); err != nil {
			return err
		}
		lines = lines[n:]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = read
	return nil
}

// fitting returns how many bytes of lines, in whole lines, fit into one message.
func fitting(lines []byte) int {
	if len(lines) <= recordBytes {
		return len(lines)
	}
	return bytes.LastIndexByte(lines[:recordBytes], '\n') + 1
}

// append stores one message after the last one by compare-and-set.
func (r *record) append(ctx context.Context, lines []byte) error {
	after := strconv.FormatUint(r.last, 10)
	ack, err := r.js.PublishMsg(ctx, &nats.Msg{Subject: recordSubject, Data: lines, Header: nats.Header{
		jetstream.MsgIDHeader:               {recordSubject + "." + after},
		jetstream.ExpectedLastSubjSeqHeader: {after},
	}}, jetstream.WithRetryAttempts(0))
	if err != nil {
		return err
	}
	r.last = ack.Sequence
	return nil
}
