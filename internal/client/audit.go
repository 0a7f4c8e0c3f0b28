package client

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
)

// Archive returns where operators read the record and the dead letters of all tenants, and auditors those of theirs.
func (c *Client) Archive(ctx context.Context) (reader.Source, error) {
	js, err := jetstream.New(c.nc)
	if err != nil {
		return nil, fmt.Errorf("JetStream: %w", err)
	}
	return reader.Open(ctx, js, c.inbox), nil
}
