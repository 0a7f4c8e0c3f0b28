package deadletter

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Message is a dead letter: a call that executors could not run, with its request, its history and the reason.
type Message struct {
	Form    int             `json:"form"`         // format number; set by encode, see internal/encoding/format
	Seq     uint64          `json:"seq,omitzero"` // sequence in the stream DEAD; set by Parse
	Ref     string          `json:"ref,omitzero"` // of the call; set by Parse
	Time    time.Time       `json:"time"`
	Cause   *envelope.Error `json:"cause"`
	Attempt int             `json:"attempt"`
	// Deliveries is the number of deliveries of the work message. It can exceed the number of claims: a first run may need
	// no claim, and an executor hands a message back if another one has claimed the attempt.
	Deliveries int            `json:"deliveries,omitzero"`
	State      call.State     `json:"state"` // when the call was given up: attempts and their last claims
	Body       jsontext.Value `json:"body"`  // call.RequestBody
	// Extra holds members that a newer build has added.
	Extra map[string]jsontext.Value `json:",embed"`
}

// New returns the dead letter of a call. m is its work message, and s the state of its log when the call is given up.
func New(s call.State, m call.Entry, deliveries int, cause *envelope.Error, now time.Time) Message {
	return Message{Cause: cause, State: s, Attempt: m.Attempt, Deliveries: deliveries, Body: m.Body, Time: now.UTC()}
}

// Fit encodes d for a message of at most most bytes with headers. If d is too large, Fit leaves out the outcomes of
// earlier attempts, which the call log holds.
func (d Message) Fit(most int64) ([]byte, error) {
	data, err := d.encode()
	if err == nil && int64(len(data)) > most-letterRoom {
		data, err = d.short().encode()
	}
	if err != nil {
		return nil, fmt.Errorf("dead letter: %w", err)
	}
	return data, nil
}

func (d Message) encode() ([]byte, error) {
	d.Form = format.Entry.Current()
	if len(d.Body) > 0 && !d.Body.IsValid() { // a body that is not valid JSON is kept as text
		text, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(string(d.Body), "\uFFFD"))
		if err != nil {
			return nil, err
		}
		d.Body = text
	}
	return json.Marshal(d, jsontext.AllowInvalidUTF8(true)) // names that were decoded from a subject may be invalid UTF-8
}

// short returns d without the outcomes of earlier attempts in its body.
func (d Message) short() Message {
	if body, err := call.DecodeRequestBody(d.Body); err == nil {
		body.Earlier = nil
		if only, err := body.Encode(); err == nil {
			d.Body = only
		}
	}
	return d
}

// letterRoom is the number of bytes that Fit leaves for headers.
const letterRoom = 1 << 10

// readTime is the longest silence of the server while PublishOnce reads the dead letters of a tool.
const readTime = 2 * time.Second

// PublishOnce calls [Publish] unless the stream already holds a dead letter of the same attempt. It reads all dead
// letters of the tool.
func PublishOnce(ctx context.Context, js jetstream.JetStream, d Message) error {
	a, _ := d.State.Attempt(d.Attempt)
	filter := jetstream.OrderedConsumerConfig{FilterSubjects: []string{subjects.Dead(d.State.Tenant, d.State.Tool)}}
	for msg, err := range bus.Messages(ctx, js, subjects.DeadStream, filter, readTime) {
		if err != nil {
			return fmt.Errorf("dead letter: %w", err)
		}
		kept, err := Parse(msg.Data(), msg.Seq)
		of, _ := kept.State.Attempt(d.Attempt)
		if err == nil && kept.State.ID == d.State.ID && kept.Attempt == d.Attempt && of.Admitted == a.Admitted {
			return nil
		}
	}
	return Publish(ctx, js, d)
}

// Publish stores a dead letter. If the same attempt was published within the dedup window of the stream, it stores
// nothing and returns nil.
func Publish(ctx context.Context, js jetstream.JetStream, d Message) error {
	data, err := d.Fit(js.Conn().MaxPayload())
	if err != nil {
		return err
	}
	a, _ := d.State.Attempt(d.Attempt)
	_, err = js.PublishMsg(ctx, &nats.Msg{
		Subject: subjects.Dead(d.State.Tenant, d.State.Tool),
		Data:    data,
		Header: nats.Header{jetstream.MsgIDHeader: {d.State.ID + "." + strconv.Itoa(d.Attempt) + "." +
			strconv.FormatUint(a.Admitted, 10)}},
	})
	if err != nil {
		return fmt.Errorf("dead letter: %w", err)
	}
	return nil
}

// Parse decodes the dead letter that is stored at sequence seq.
func Parse(data []byte, seq uint64) (Message, error) {
	var d Message
	if err := json.Unmarshal(data, &d); err != nil {
		return d, fmt.Errorf("dead letter %d: %w", seq, err)
	}
	if err := format.Entry.Check(d.Form); err != nil && d.Form != 0 {
		return d, fmt.Errorf("dead letter %d: %w", seq, err)
	}
	if d.Cause == nil || d.Form == 0 {
		return d, fmt.Errorf("dead letter %d is none: it has no cause", seq)
	}
	d.Seq, d.Ref = seq, d.State.Ref()
	return d, nil
}
