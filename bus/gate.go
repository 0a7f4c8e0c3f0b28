package bus

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/audit"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Gate appends one record of the gate's own: a denial or a late result. It returns when the
// record is stored, with its message id.
func Gate(ctx context.Context, js jetstream.JetStream, id string, r audit.Record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("audit record: %w", err)
	}
	_, err = js.PublishMsg(ctx, &nats.Msg{
		Subject: subjects.Audit(subjects.AuditFromGate, r.Tenant, string(r.Event), r.ToolName),
		Data:    data,
		Header:  nats.Header{jetstream.MsgIDHeader: {id}},
	})
	if err != nil {
		return fmt.Errorf("audit record: %w", err)
	}
	return nil
}
