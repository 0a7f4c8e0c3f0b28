package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/audit"
	"github.com/seed-018f16cc/toolbus/internal/members"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// encodeRecord encodes a record. What is no text in it is replaced: one record that could not be
// written would keep all others waiting behind it.
func encodeRecord(r audit.Record) ([]byte, error) {
	w := members.Writer{Bytes: make([]byte, 0, roomForRecord)}
	if r.Write(&w); !w.Odd {
		return w.Bytes, nil
	}
	return json.Marshal(r, jsontext.AllowInvalidUTF8(true))
}

// roomForRecord is what most records need.
const roomForRecord = 1 << 10

// decodeRecord is the inverse of encodeRecord. It is not ok for what is no record: anybody who reaches
// the server may write to the stream, and nothing can be removed from it.
func decodeRecord(data []byte) (r audit.Record, ok bool) {
	err := json.Unmarshal(data, &r)
	return r, err == nil && r.Event != ""
}

// ErrRecordRefused means that the server takes no record: AUDIT has no room, say.
var ErrRecordRefused = errors.New("the audit record takes nothing")

// Gate appends one record of the gate's own: a denial or a late result. It returns when the
// record is stored, with its message id; [ErrRecordRefused] when it is not and will not be.
func Gate(ctx context.Context, js jetstream.JetStream, id string, r audit.Record) error {
	msg, err := gateMessage(id, r)
	if err == nil {
		_, err = js.PublishMsg(ctx, msg)
	}
	return recordError(err)
}

// GateAll appends such records, by their message ids, all at once. It returns when all are stored, or one
// is not.
func GateAll(ctx context.Context, js jetstream.JetStream, records map[string]audit.Record) error {
	stored := make([]jetstream.PubAckFuture, 0, len(records))
	for id, r := range records {
		msg, err := gateMessage(id, r)
		if err != nil {
			return recordError(err)
		}
		ack, err := js.PublishMsgAsync(msg)
		if err != nil {
			return recordError(err)
		}
		stored = append(stored, ack)
	}
	for _, ack := range stored {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			return recordError(err)
		case <-ctx.Done():
			return recordError(ctx.Err())
		}
	}
	return nil
}

func gateMessage(id string, r audit.Record) (*nats.Msg, error) {
	data, err := encodeRecord(r)
	return &nats.Msg{
		Subject: subjects.Audit(subjects.AuditFromGate, r.Tenant, string(r.Event), r.ToolName),
		Data:    data,
		Header:  nats.Header{jetstream.MsgIDHeader: {id}},
	}, err
}

func recordError(err error) error {
	if _, refused := errors.AsType[*jetstream.APIError](err); refused {
		return fmt.Errorf("%w: %w", ErrRecordRefused, err)
	}
	if err != nil {
		return fmt.Errorf("audit record: %w", err)
	}
	return nil
}
