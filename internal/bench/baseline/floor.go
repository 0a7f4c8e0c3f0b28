package baseline

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/timer"
)

const (
	headerState = "Floor-State"
)

// An event is stored below the key of its log, which consists of a tool and an id. The keys and nonces have the form
// and the length of those that Toolbus writes.
const (
	logPrefix = "floor.log."
	tool      = "bench_2eecho0."
	everyWork = "*.*.1.q.*.normal.default"
	request   = ".1.q.1_2e0_2e0.normal.default"
	outcome   = ".1.x.o.4f4c4d84-de50"
	wholeLog  = ".>"

	requestNonce = ".1448a8c3-f283.1000"
	outcomeNonce = ".4f4c4d84-de50.2000"
)

// FloorOptions configures a [Floor].
type FloorOptions struct {
	Options
	Bytes int64 // size limit of the log in bytes; 0 is the default of Toolbus

	// Size in bytes of the state in the two events of a call, but at least the size of the reply subject.
	RequestState, OutcomeState int
}

// Floor is a running pipeline that makes only the writes of Toolbus's protocol.
type Floor struct {
	pipeline
	options     FloorOptions
	log         jetstream.Stream
	record      *record
	ttl, filler string
}

// StartFloor creates the streams and runs the pipeline until Close. Each id may be called only once.
func StartFloor(ctx context.Context, o FloorOptions) (*Floor, error) {
	p := &Floor{
		pipeline: newPipeline("floor", o.Options), options: o,
		filler: strings.Repeat(".", max(o.RequestState, o.OutcomeState)),
	}
	p.ttl = strconv.Itoa(int(p.Keep / time.Second))
	if err := p.start(ctx); err != nil {
		p.Close()
		return nil, fmt.Errorf("floor: %w", err)
	}
	return p, nil
}

func (p *Floor) start(ctx context.Context) error {
	if err := p.connect(); err != nil {
		return err
	}
	if err := p.open(ctx); err != nil {
		return err
	}
	work := jetstream.ConsumerConfig{FilterSubject: logPrefix + everyWork, MaxDeliver: -1}
	return p.serve(ctx, logStream, work, p.store, p.run)
}

// open creates the streams and starts the audit record.
func (p *Floor) open(ctx context.Context) (err error) {
	events, records := topology(p.options.Bytes)
	if p.log, err = p.admit.CreateStream(ctx, events); err != nil {
		return err
	}
	if _, err = p.admit.CreateStream(ctx, records); err != nil {
		return err
	}
	p.record, err = follow(ctx, p.admit)
	return err
}

// store writes a request to the log.
func (p *Floor) store(msg *nats.Msg) error {
	return p.write(context.Background(), p.admit, event{
		id: msg.Header.Get(jetstream.MsgIDHeader), key: request, nonce: requestNonce,
		state: p.state(msg.Reply, p.options.RequestState), body: msg.Data,
	})
}

// run handles a work message: it stores the outcome, replies and acknowledges.
func (p *Floor) run(ctx context.Context, msg jetstream.Msg) {
	meta, err := msg.Metadata()
	if err != nil {
		return // not a message of a stream
	}
	reply := replyOf(msg.Headers())
	o := event{
		id: idOf(msg.Subject()), key: outcome, nonce: outcomeNonce, after: meta.Sequence.Stream,
		state: p.state(reply, p.options.OutcomeState), body: p.Tool(msg.Data()),
	}
	if err := p.write(ctx, p.decide, o); err != nil {
		return // the message is delivered again
	}
	_ = p.worker.Publish(reply, o.body) // if it is lost, the caller times out
	_ = msg.Ack()
}

// event is an event in the log of an id.
type event struct {
	id, key, nonce, state string
	after                 uint64 // sequence of the last event of the log; 0 if the log is empty
	body                  []byte
}

// write appends e with a compare-and-set on the whole log of its id.
func (p *Floor) write(ctx context.Context, js jetstream.JetStream, e event) error {
	log := logPrefix + tool + e.id
	_, err := js.PublishMsg(ctx, &nats.Msg{Subject: log + e.key, Data: e.body, Header: nats.Header{
		headerState:                             {e.state},
		jetstream.MsgIDHeader:                   {e.id + e.nonce},
		jetstream.MsgTTLHeader:                  {p.ttl},
		jetstream.ExpectedLastSubjSeqHeader:     {strconv.FormatUint(e.after, 10)},
		jetstream.ExpectedLastSubjSeqSubjHeader: {log + wholeLog},
	}}, jetstream.WithRetryAttempts(0))
	return err
}

// state returns a placeholder for the state of a log: the reply subject and a filler of size bytes in all.
func (p *Floor) state(reply string, size int) string {
	return reply + ";" + p.filler[:max(0, size-len(reply)-1)]
}

func replyOf(h nats.Header) string {
	reply, _, _ := strings.Cut(h.Get(headerState), ";")
	return reply
}

// idOf returns the id in the subject of an event.
func idOf(subject string) string {
	id, _, _ := strings.Cut(subject[len(logPrefix)+len(tool):], ".")
	return id
}

// settlePoll is the interval at which Settle checks.
const settlePoll = 25 * time.Millisecond

// Settle waits until no call runs and every event is recorded. No calls may be made meanwhile.
func (p *Floor) Settle(ctx context.Context) error {
	return p.idle(ctx, func() error {
		info, err := p.log.Info(ctx)
		if err != nil {
			return err
		}
		for {
			done, err := p.record.progress()
			if err != nil || done >= info.State.LastSeq {
				return err
			}
			if !timer.Sleep(ctx, settlePoll) {
				return fmt.Errorf("the log is at %d, its record at %d: %w", info.State.LastSeq, done, ctx.Err())
			}
		}
	})
}

// Close stops the pipeline and its audit record, and closes its connections. It does not delete the streams.
func (p *Floor) Close() {
	p.stop()
	if p.record != nil {
		p.record.stop()
	}
	p.disconnect()
}
