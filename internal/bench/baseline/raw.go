package baseline

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// RawStreams are the streams to which a call writes.
var RawStreams = [...]string{workStream, "KV_" + resultsBucket, auditStream}

const (
	workStream    = "RAW_WORK"
	auditStream   = "RAW_AUDIT"
	resultsBucket = "raw_results"
	work          = "raw.work"
	audited       = "raw.audit"
	headerReply   = "Raw-Reply"
)

// Raw is a running pipeline that promises only durability.
type Raw struct {
	pipeline
	results jetstream.KeyValue
}

// StartRaw creates the streams and runs the pipeline until Close.
func StartRaw(ctx context.Context, o Options) (*Raw, error) {
	p := &Raw{pipeline: newPipeline("raw", o)}
	if err := p.start(ctx); err != nil {
		p.Close()
		return nil, fmt.Errorf("raw pipeline: %w", err)
	}
	return p, nil
}

func (p *Raw) start(ctx context.Context) error {
	if err := p.connect(); err != nil {
		return err
	}
	if err := p.open(ctx); err != nil {
		return err
	}
	return p.serve(ctx, workStream, jetstream.ConsumerConfig{}, p.store, p.run)
}

// open creates the streams and the bucket of results.
func (p *Raw) open(ctx context.Context) (err error) {
	for stream, subject := range map[string]string{workStream: work, auditStream: audited} {
		_, err := p.admit.CreateStream(ctx, jetstream.StreamConfig{
			Name: stream, Subjects: []string{subject}, Storage: jetstream.FileStorage, MaxAge: p.Keep,
			Duplicates: 10 * time.Second,
		})
		if err != nil {
			return err
		}
	}
	p.results, err = p.decide.CreateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: resultsBucket, Storage: jetstream.FileStorage, TTL: p.Keep,
	})
	return err
}

// store publishes a request to the work stream.
func (p *Raw) store(msg *nats.Msg) error {
	_, err := p.admit.PublishMsg(context.Background(), &nats.Msg{Subject: work, Data: msg.Data, Header: nats.Header{
		jetstream.MsgIDHeader: {msg.Header.Get(jetstream.MsgIDHeader)}, headerReply: {msg.Reply},
	}})
	return err
}

// run handles a work message: it stores the result, replies, publishes the audit record and acknowledges.
func (p *Raw) run(ctx context.Context, msg jetstream.Msg) {
	header := msg.Headers()
	id, reply := header.Get(jetstream.MsgIDHeader), header.Get(headerReply)
	output := p.Tool(msg.Data())
	if _, err := p.results.Put(ctx, id, output); err != nil {
		return // the message is delivered again
	}
	_ = p.worker.Publish(reply, output) // if it is lost, the caller times out
	_, _ = p.decide.PublishAsync(audited, []byte(`{"event":"executed","call":"`+id+`"}`))
	_ = msg.Ack()
}

// Settle waits until no call runs and every audit record is stored: a caller has its answer before that. No calls may
// be made meanwhile.
func (p *Raw) Settle(ctx context.Context) error {
	return p.idle(ctx, func() error {
		for _, js := range []jetstream.JetStream{p.admit, p.decide} {
			select {
			case <-js.PublishAsyncComplete():
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
}
