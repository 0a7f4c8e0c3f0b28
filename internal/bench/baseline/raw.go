package baseline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// RawStreams are the streams that a call writes to.
var RawStreams = [...]string{workStream, "KV_" + resultsBucket, auditStream}

const (
	workStream     = "RAW_WORK"
	auditStream    = "RAW_AUDIT"
	resultsBucket  = "raw_results"
	rawRequests    = "raw.call"
	work           = "raw.work"
	audited        = "raw.audit"
	rawHeaderReply = "Raw-Reply"
	rawHeaderError = "Raw-Error"
)

// RawOptions of a pipeline.
type RawOptions struct {
	Dial    func(name string) (*nats.Conn, error)
	Workers int           // calls that run at once; default 256
	Keep    time.Duration // how long everything is kept; default an hour
	Tool    func(input []byte) []byte
}

// Raw is a running pipeline: a caller, a dispatcher and a worker, each on a connection of
// its own.
type Raw struct {
	RawOptions
	caller, dispatcher, worker *nats.Conn
	publish, audit             jetstream.JetStream
	results                    jetstream.KeyValue
	consuming                  jetstream.ConsumeContext
	slots                      chan struct{}
	running                    sync.WaitGroup
}

// StartRaw creates the streams and runs the pipeline until Close.
func StartRaw(ctx context.Context, o RawOptions) (*Raw, error) {
	if o.Workers <= 0 {
		o.Workers = 256
	}
	if o.Keep <= 0 {
		o.Keep = time.Hour
	}
	p := &Raw{RawOptions: o, slots: make(chan struct{}, o.Workers)}
	if err := p.start(ctx); err != nil {
		p.Close()
		return nil, fmt.Errorf("raw pipeline: %w", err)
	}
	return p, nil
}

func (p *Raw) start(ctx context.Context) error {
	for name, nc := range map[string]**nats.Conn{"caller": &p.caller, "dispatcher": &p.dispatcher, "worker": &p.worker} {
		var err error
		if *nc, err = p.Dial("raw-" + name); err != nil {
			return err
		}
	}
	if err := p.open(ctx); err != nil {
		return err
	}
	if err := p.work(ctx); err != nil {
		return err
	}
	if _, err := p.dispatcher.QueueSubscribe(rawRequests, "dispatchers", p.dispatch); err != nil {
		return err
	}
	return p.dispatcher.Flush()
}

// open creates what calls are written to.
func (p *Raw) open(ctx context.Context) (err error) {
	p.publish, err = jetstream.New(p.dispatcher)
	if err != nil {
		return err
	}
	if p.audit, err = jetstream.New(p.worker); err != nil {
		return err
	}
	for stream, subject := range map[string]string{workStream: work, auditStream: audited} {
		_, err := p.publish.CreateStream(ctx, jetstream.StreamConfig{
			Name: stream, Subjects: []string{subject}, Storage: jetstream.FileStorage, MaxAge: p.Keep,
			Duplicates: 10 * time.Second,
		})
		if err != nil {
			return err
		}
	}
	p.results, err = p.audit.CreateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: resultsBucket, Storage: jetstream.FileStorage, TTL: p.Keep,
	})
	return err
}

func (p *Raw) work(ctx context.Context) error {
	cons, err := p.audit.CreateConsumer(ctx, workStream, jetstream.ConsumerConfig{
		Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 100_000,
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
func (p *Raw) dispatch(msg *nats.Msg) {
	next := &nats.Msg{Subject: work, Data: msg.Data, Header: nats.Header{
		jetstream.MsgIDHeader: {msg.Header.Get(jetstream.MsgIDHeader)}, rawHeaderReply: {msg.Reply},
	}}
	p.running.Go(func() {
		if _, err := p.publish.PublishMsg(context.Background(), next); err != nil {
			failure := &nats.Msg{Subject: msg.Reply, Header: nats.Header{rawHeaderError: {err.Error()}}}
			_ = p.dispatcher.PublishMsg(failure) // the caller times out otherwise
		}
	})
}

// run sees one work message to its end: result, durable; reply; audit; ack.
func (p *Raw) run(ctx context.Context, msg jetstream.Msg) {
	header := msg.Headers()
	id, reply := header.Get(jetstream.MsgIDHeader), header.Get(rawHeaderReply)
	output := p.Tool(msg.Data())
	if _, err := p.results.Put(ctx, id, output); err != nil {
		return // delivered again
	}
	_ = p.worker.Publish(reply, output) // the caller times out otherwise
	_, _ = p.audit.PublishAsync(audited, []byte(`{"event":"executed","call":"`+id+`"}`))
	_ = msg.Ack()
}

// Call makes one call and returns its output.
func (p *Raw) Call(ctx context.Context, id string, input []byte) ([]byte, error) {
	answer, err := p.caller.RequestMsgWithContext(ctx, &nats.Msg{
		Subject: rawRequests, Data: input, Header: nats.Header{jetstream.MsgIDHeader: {id}},
	})
	if err != nil {
		return nil, err
	}
	if failed := answer.Header.Get(rawHeaderError); failed != "" {
		return nil, errors.New(failed)
	}
	return answer.Data, nil
}

// Settle waits until no call runs and nothing is on its way any more: a caller has its answer
// before the worker has published the audit record. Nobody may call meanwhile.
func (p *Raw) Settle(ctx context.Context) error {
	for held := range cap(p.slots) {
		select {
		case p.slots <- struct{}{}:
			defer func() { <-p.slots }()
		case <-ctx.Done():
			return fmt.Errorf("%d of %d workers are idle: %w", held, cap(p.slots), ctx.Err())
		}
	}
	for _, js := range []jetstream.JetStream{p.publish, p.audit} {
		select {
		case <-js.PublishAsyncComplete():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Conns returns the three connections, to count their messages.
func (p *Raw) Conns() []*nats.Conn { return []*nats.Conn{p.caller, p.dispatcher, p.worker} }

// Close stops the pipeline and closes its connections. The streams stay.
func (p *Raw) Close() {
	if p.consuming != nil {
		p.consuming.Stop()
		<-p.consuming.Closed()
	}
	p.running.Wait()
	for _, nc := range p.Conns() {
		if nc != nil {
			nc.Close()
		}
	}
}
