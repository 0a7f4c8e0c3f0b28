package baseline

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/timer"
)

const (
	requests    = "floor.call"
	headerState = "Floor-State"
	headerError = "Floor-Error"
	workers     = "workers"
)

// An event is stored under the key of its log, which is a tool and an id, and what these say. They have the form,
// and the length, of what Toolbus writes.
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

// FloorOptions of a pipeline.
type FloorOptions struct {
	Dial    func(name string) (*nats.Conn, error)
	Workers int           // calls that run at once; default 256
	Keep    time.Duration // how long events are kept; default an hour
	Bytes   int64         // the most that the log holds; default that of Toolbus
	Tool    func(input []byte) []byte

	// How many bytes of state the two events of a call carry; never less than the reply subject takes.
	RequestState, OutcomeState int
}

// Floor is a running pipeline: a caller, a dispatcher and a worker, each on a connection of
// its own.
type Floor struct {
	FloorOptions
	caller, dispatcher, worker *nats.Conn
	admit, decide              jetstream.JetStream
	log                        jetstream.Stream
	consuming                  jetstream.ConsumeContext
	record                     *record
	ttl, filler                string
	slots                      chan struct{}
	running                    sync.WaitGroup
}

// StartFloor creates the streams and runs the pipeline until Close. Each id may be called once.
func StartFloor(ctx context.Context, o FloorOptions) (*Floor, error) {
	if o.Workers <= 0 {
		o.Workers = 256
	}
	if o.Keep <= 0 {
		o.Keep = time.Hour
	}
	p := &Floor{
		FloorOptions: o, slots: make(chan struct{}, o.Workers), ttl: strconv.Itoa(int(o.Keep / time.Second)),
		filler: strings.Repeat(".", max(o.RequestState, o.OutcomeState)),
	}
	if err := p.start(ctx); err != nil {
		p.Close()
		return nil, fmt.Errorf("floor: %w", err)
	}
	return p, nil
}

func (p *Floor) start(ctx context.Context) error {
	for name, nc := range map[string]**nats.Conn{"caller": &p.caller, "dispatcher": &p.dispatcher, "worker": &p.worker} {
		var err error
		if *nc, err = p.Dial("floor-" + name); err != nil {
			return err
		}
	}
	if err := p.open(ctx); err != nil {
		return err
	}
	if err := p.work(ctx); err != nil {
		return err
	}
	if _, err := p.dispatcher.QueueSubscribe(requests, "dispatchers", p.dispatch); err != nil {
		return err
	}
	return p.dispatcher.Flush()
}

// open creates what calls are written to, and begins to follow it.
func (p *Floor) open(ctx context.Context) (err error) {
	if p.admit, err = jetstream.New(p.dispatcher); err != nil {
		return err
	}
	if p.decide, err = jetstream.New(p.worker); err != nil {
		return err
	}
	events, records := topology(p.Bytes)
	if p.log, err = p.admit.CreateStream(ctx, events); err != nil {
		return err
	}
	if _, err = p.admit.CreateStream(ctx, records); err != nil {
		return err
	}
	p.record, err = follow(ctx, p.admit)
	return err
}

func (p *Floor) work(ctx context.Context) error {
	cons, err := p.decide.CreateConsumer(ctx, logStream, jetstream.ConsumerConfig{
		Durable: workers, FilterSubject: logPrefix + everyWork, AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: -1,
		MaxAckPending: 100_000,
	})
	if err != nil {
		return err
	}
	p.consuming, err = cons.Consume(func(msg jetstream.Msg) {
		p.slots <- struct{}{}
		p.running.Go(func() {
			defer func() { <-p.slots }()
			p.run(ctx, msg)
		})
	})
	return err
}

// dispatch makes the request durable, or answers that it is not.
func (p *Floor) dispatch(msg *nats.Msg) {
	p.running.Go(func() {
		q := event{
			id: msg.Header.Get(jetstream.MsgIDHeader), key: request, nonce: requestNonce,
			state: p.state(msg.Reply, p.RequestState), body: msg.Data,
		}
		if err := p.write(context.Background(), p.admit, q); err != nil {
			failure := &nats.Msg{Subject: msg.Reply, Header: nats.Header{headerError: {err.Error()}}}
			_ = p.dispatcher.PublishMsg(failure) // the caller times out otherwise
		}
	})
}

// run sees one work message to its end: outcome, durable; reply; ack.
func (p *Floor) run(ctx context.Context, msg jetstream.Msg) {
	meta, err := msg.Metadata()
	if err != nil {
		return // no message of a stream
	}
	reply := replyOf(msg.Headers())
	o := event{
		id: idOf(msg.Subject()), key: outcome, nonce: outcomeNonce, after: meta.Sequence.Stream,
		state: p.state(reply, p.OutcomeState), body: p.Tool(msg.Data()),
	}
	if err := p.write(ctx, p.decide, o); err != nil {
		return // delivered again
	}
	_ = p.worker.Publish(reply, o.body) // the caller times out otherwise
	_ = msg.Ack()
}

// event is what is written to the log of an id.
type event struct {
	id, key, nonce, state string
	after                 uint64 // sequence of the last event of the log; 0 for an empty one
	body                  []byte
}

// write appends e by compare-and-set over the whole log of its id.
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

// state is what stands for the state of a log: where the caller waits, and the rest of so many bytes.
func (p *Floor) state(reply string, size int) string {
	return reply + ";" + p.filler[:max(0, size-len(reply)-1)]
}

func replyOf(h nats.Header) string {
	reply, _, _ := strings.Cut(h.Get(headerState), ";")
	return reply
}

// idOf returns the id of the log that an event is of.
func idOf(subject string) string {
	id, _, _ := strings.Cut(subject[len(logPrefix)+len(tool):], ".")
	return id
}

// Call makes one call and returns its output.
func (p *Floor) Call(ctx context.Context, id string, input []byte) ([]byte, error) {
	answer, err := p.caller.RequestMsgWithContext(ctx, &nats.Msg{
		Subject: requests, Data: input, Header: nats.Header{jetstream.MsgIDHeader: {id}},
	})
	if err != nil {
		return nil, err
	}
	if failed := answer.Header.Get(headerError); failed != "" {
		return nil, errors.New(failed)
	}
	return answer.Data, nil
}

// settlePoll is how often Settle looks.
const settlePoll = 25 * time.Millisecond

// Settle waits until no call runs and every event is on record. Nobody may call meanwhile.
func (p *Floor) Settle(ctx context.Context) error {
	for held := range cap(p.slots) {
		select {
		case p.slots <- struct{}{}:
			defer func() { <-p.slots }()
		case <-ctx.Done():
			return fmt.Errorf("%d of %d workers are idle: %w", held, cap(p.slots), ctx.Err())
		}
	}
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
}

// Conns returns the connections of caller, dispatcher and worker, to count their messages.
func (p *Floor) Conns() []*nats.Conn { return []*nats.Conn{p.caller, p.dispatcher, p.worker} }

// Close stops the pipeline and closes its connections. The streams stay.
func (p *Floor) Close() {
	if p.consuming != nil {
		p.consuming.Stop()
		<-p.consuming.Closed()
	}
	p.running.Wait()
	if p.record != nil {
		p.record.stop()
	}
	for _, nc := range p.Conns() {
		if nc != nil {
			nc.Close()
		}
	}
}
