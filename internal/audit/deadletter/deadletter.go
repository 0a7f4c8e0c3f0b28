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

// Message is a call that could not be run: what was asked, why it was given up, and its
// history.
type Message struct {
	Form    int             `json:"form"`         // filled in on writing; see internal/encoding/format
	Seq     uint64          `json:"seq,omitzero"` // in the DEAD stream; filled in on reading
	Ref     string          `json:"ref,omitzero"` // of the call; filled in on reading
	Time    time.Time       `json:"time"`
	Cause   *envelope.Error `json:"cause"`
	Attempt int             `json:"attempt"`
	// Deliveries is how often its work was handed out, which is more often than it was claimed: a first run may
	// need no claim, and work of which somebody else has taken hold is handed back.
	Deliveries int            `json:"deliveries,omitzero"`
	State      call.State     `json:"state"` // when it was given up: attempts, and who claimed them last
	Body       jsontext.Value `json:"body"`  // call.RequestBody
	// Extra are members that a newer build has added.
	Extra map[string]jsontext.Value `json:",embed"`
}

// New returns the letter of a call that is given up: s is what became of it since its work message m was written.
func New(s call.State, m call.Entry, deliveries int, cause *envelope.Error, now time.Time) Message {
	return Message{Cause: cause, State: s, Attempt: m.Attempt, Deliveries: deliveries, Body: m.Body, Time: now.UTC()}
}

// Fit encodes the letter for a message of at most so many bytes. The outcomes of earlier attempts, which the call log
// holds, are left out where there is no room.
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
	if len(d.Body) > 0 && !d.Body.IsValid() { // what could not be read is kept as text
		text, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(string(d.Body), "\uFFFD"))
		if err != nil {
			return nil, err
		}
		d.Body = text
	}
	return json.Marshal(d, jsontext.AllowInvalidUTF8(true)) // names of a subject may be no text
}

// short returns the letter with nothing but the request in its body.
func (d Message) short() Message {
	if body, err := call.DecodeRequestBody(d.Body); err == nil {
		body.Earlier = nil
		if only, err := body.Encode(); err == nil {
			d.Body = only
		}
	}
	return d
}

// letterRoom is what a dead letter leaves of a message for its headers.
const letterRoom = 1 << 10

// readTime is how long a server may be silent while the dead letters of a tool are read.
const readTime = 2 * time.Second

// PublishOnce is [Publish], but changes nothing either where the same attempt was published long ago.
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

// Publish keeps a dead letter. Publishing the same attempt again within the dedup window changes nothing.
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

// Parse reads the dead letter that lies at seq.
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
