package app

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/client/link"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/streaming"
)

// bulk is the connection of a dispatcher for parts of payloads, which clients store and it reads. It also reads the
// record, the chunks and the dead letters over it. So messages on the other connections do not wait behind half a MiB.
type bulk struct {
	*requestConn
	js       *bus.SharedJetStream
	payloads *streaming.Payloads
}

func openBulk(c *Conn) (*bulk, error) {
	f, err := openRequestConn(c.NC, "payloads", c.Watch)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(f.nc)
	if err != nil {
		f.close()
		return nil, fmt.Errorf("JetStream: %w", err)
	}
	shared := bus.Shared(js)
	return &bulk{requestConn: f, js: shared, payloads: link.OpenPayloads(shared)}, nil
}

func (b *bulk) close() {
	b.requestConn.close()
	b.js.Close()
}

// take stores the parts that clients send, until stop is called. In a deployment without tokens it does nothing,
// because clients write to the stream themselves.
func (b *bulk) take(ctx context.Context, c *node, s *payloadQuota) (stop func(), err error) {
	if !c.Identity {
		return func() {}, nil
	}
	parts, err := rpc.TakeParts(ctx, rpc.PartsOptions{
		NC: b.nc, Log: c.Logger, OverQuota: s.overQuotaOf,
		Store: func(ctx context.Context, subject string, body []byte) (uint64, error) {
			sequence, err := b.payloads.PutPart(ctx, subject, body)
			if err == nil {
				s.Stored(len(body))
			}
			return sequence, err
		},
	})
	if err != nil {
		return nil, err
	}
	b.stores(parts)
	return parts.Stop, nil
}
