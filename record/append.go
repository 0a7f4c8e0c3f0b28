package record

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus/audit"
	"github.com/seed-018f16cc/toolbus/internal/form"
	"github.com/seed-018f16cc/toolbus/internal/jscode"
	"github.com/seed-018f16cc/toolbus/internal/members"
	"github.com/seed-018f16cc/toolbus/internal/wait"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// encodeRecord encodes a record. What is no text in it is replaced: one record that could not be
// written would keep all others waiting behind it.
func encodeRecord(r audit.Record) ([]byte, error) {
	r.Form = form.Record.Written()
	w := members.Writer{Bytes: make([]byte, 0, roomForRecord)}
	if r.Write(&w); !w.Odd {
		return w.Bytes, nil
	}
	return json.Marshal(r, jsontext.AllowInvalidUTF8(true))
}

// roomForRecord is what most records need.
const roomForRecord = 1 << 10

// decodeRecord is the inverse of encodeRecord. It is not ok for a message that is not a record: anybody who
// reaches the server may write to the stream, and nothing can be removed from it. A record of a newer build is
// a [form.Error].
func decodeRecord(data []byte) (r audit.Record, ok bool, err error) {
	var head struct {
		Form int `json:"form"`
	}
	if json.Unmarshal(data, &head) != nil || head.Form == 0 {
		return r, false, nil
	}
	if err := form.Record.Check(head.Form); err != nil {
		return r, false, err
	}
	err = json.Unmarshal(data, &r)
	return r, err == nil && r.Event != "", nil
}

// Append appends one record of the gate's own: a denial or a late result. It returns when the
// record is stored, with its message id; [audit.ErrRefused] when it is not and will not be.
func Append(ctx context.Context, js jetstream.JetStream, id string, r audit.Record) error {
	data, err := encodeRecord(r)
	if err != nil {
		return fmt.Errorf("audit record: %w", err)
	}
	_, err = js.PublishMsg(ctx, &nats.Msg{
		Subject: subjects.Audit(subjects.AuditFromGate, r.Tenant, string(r.Event), r.ToolName),
		Data:    data,
		Header:  nats.Header{jetstream.MsgIDHeader: {id}},
	})
	if jscode.Answered(err) && !jscode.Is(err, jscode.InProcess) { // which has to come again, stored yet or not
		return fmt.Errorf("%w: %w", audit.ErrRefused, err)
	}
	if err != nil {
		return fmt.Errorf("audit record: %w", err)
	}
	return nil
}

// How records are appended that others wait for: so many at once, each again when its acknowledgement does not
// come soon, which the network or a change of leaders may have lost.
const (
	appendWriters = 64
	appendAck     = 500 * time.Millisecond
	appendPause   = 20 * time.Millisecond
)

// AppendAll appends such records, by their message ids. It returns when all are stored, or ctx has ended, or one
// is refused.
func AppendAll(ctx context.Context, js jetstream.JetStream, records map[string]audit.Record) error {
	var group errgroup.Group
	group.SetLimit(appendWriters)
	for id, r := range records {
		group.Go(func() error { // again and again, which is safe: a message id is stored once
			return wait.Retry{Pause: appendPause, Try: appendAck}.Until(ctx, func(ctx context.Context) (bool, error) {
				err := Append(ctx, js, id, r)
				return err == nil || errors.Is(err, audit.ErrRefused), err
			})
		})
	}
	return group.Wait()
}
