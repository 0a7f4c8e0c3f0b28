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

// Options configures a pipeline.
type Options struct {
	Dial    func(name string) (*nats.Conn, error)
	Workers int           // number of calls that run at a time; default 256
	Keep    time.Duration // TTL of events and messages; default an hour
	Tool    func(input []byte) []byte
}

// pipeline consists of a caller, a dispatcher and a worker, each with its own connection. [Raw] and [Floor] embed it.
type pipeline struct {
	Options
	name                       string // of the pipeline; calls are requests to "<name>.call"
	caller, dispatcher, worker *nats.Conn
	admit, decide              jetstream.JetStream // on the connections of dispatcher and worker
	consuming                  jetstream.ConsumeContext
	slots                      chan struct{}
	running                    sync.WaitGroup
}

// headerError is the header of an answer with the reason why a request was not stored.
const headerError = "Bench-Error"

// newPipeline returns a pipeline whose options have defaults.
func newPipeline(name string, o Options) pipeline {
	if o.Workers <= 0 {
		o.Workers = 256
	}
	if o.Keep <= 0 {
		o.Keep = time.Hour
	}
	return pipeline{Options: o, name: name, slots: make(chan struct{}, o.Workers)}
}

// connect opens the three connections.
func (p *pipeline) connect() (err error) {
	for role, nc := range map[string]**nats.Conn{"caller": &p.caller, "dispatcher": &p.dispatcher, "worker": &p.worker} {
		if *nc, err = p.Dial(p.name + "-" + role); err != nil {
			return err
		}
	}
	if p.admit, err = jetstream.New(p.dispatcher); err != nil {
		return err
	}
	p.decide, err = jetstream.New(p.worker)
	return err
}

// serve makes the worker run the messages of a consumer, and the dispatcher store requests.
func (p *pipeline) serve(
	ctx context.Context, stream string, c jetstream.ConsumerConfig, store func(*nats.Msg) error,
	run func(context.Context, jetstream.Msg),
) error {
	c.Durable, c.AckPolicy, c.MaxAckPending = "workers", jetstream.AckExplicitPolicy, 100_000
	cons, err := p.decide.CreateConsumer(ctx, stream, c)
	if err != nil {
		return err
	}
	p.consuming, err = cons.Consume(func(msg jetstream.Msg) {
		p.slots <- struct{}{}
		p.running.Go(func() {
			defer func() { <-p.slots }()
			run(ctx, msg)
		})
	})
	if err != nil {
		return err
	}
	_, err = p.dispatcher.QueueSubscribe(p.name+".call", "dispatchers", func(msg *nats.Msg) {
		p.running.Go(func() { p.dispatch(msg, store) })
	})
	return errors.Join(err, p.dispatcher.Flush())
}

// dispatch stores a request. If that fails, it answers with the error.
func (p *pipeline) dispatch(msg *nats.Msg, store func(*nats.Msg) error) {
	if err := store(msg); err != nil {
		failure := &nats.Msg{Subject: msg.Reply, Header: nats.Header{headerError: {err.Error()}}}
		_ = p.dispatcher.PublishMsg(failure) // if it is lost, the caller times out
	}
}

// Call makes one call and returns its output.
func (p *pipeline) Call(ctx context.Context, id string, input []byte) ([]byte, error) {
	answer, err := p.caller.RequestMsgWithContext(ctx, &nats.Msg{
		Subject: p.name + ".call", Data: input, Header: nats.Header{jetstream.MsgIDHeader: {id}},
	})
	if err != nil {
		return nil, err
	}
	if failed := answer.Header.Get(headerError); failed != "" {
		return nil, errors.New(failed)
	}
	return answer.Data, nil
}

// idle waits until no worker runs a call, and then calls settled.
func (p *pipeline) idle(ctx context.Context, settled func() error) error {
	for held := range cap(p.slots) {
		select {
		case p.slots <- struct{}{}:
			defer func() { <-p.slots }()
		case <-ctx.Done():
			return fmt.Errorf("%d of %d workers are idle: %w", held, cap(p.slots), ctx.Err())
		}
	}
	return settled()
}

// Conns returns the connections of caller, dispatcher and worker. Their statistics count the messages.
func (p *pipeline) Conns() []*nats.Conn { return []*nats.Conn{p.caller, p.dispatcher, p.worker} }

// Close stops the pipeline and closes its connections. It does not delete the streams.
func (p *pipeline) Close() {
	p.stop()
	p.disconnect()
}

// stop ends the consumer and waits for running calls and requests.
func (p *pipeline) stop() {
	if p.consuming != nil {
		p.consuming.Stop()
		<-p.consuming.Closed()
	}
	p.running.Wait()
}

func (p *pipeline) disconnect() {
	for _, nc := range p.Conns() {
		if nc != nil {
			nc.Close()
		}
	}
}
