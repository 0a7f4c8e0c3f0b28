package record

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/form"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// DeadLetter is a call that could not be run: what was asked, why it was given up, and its
// history.
type DeadLetter struct {
	Form    int             `json:"form"`         // filled in on writing; see internal/form
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

func (d DeadLetter) encode() ([]byte, error) {
	d.Form = form.Letter.Written()
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
func (d DeadLetter) short() DeadLetter {
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

// Bury keeps a dead letter. Burying the same attempt again within the dedup window changes nothing.
// The outcomes of earlier attempts, which the call log holds, are left out where there is no room.
func Bury(ctx context.Context, js jetstream.JetStream, d DeadLetter) error {
	data, err := d.encode()
	if err == nil && int64(len(data)) > js.Conn().MaxPayload()-letterRoom {
		data, err = d.short().encode()
	}
	if err != nil {
		return fmt.Errorf("dead letter: %w", err)
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

// DeadLetters returns all dead letters, oldest first. Messages that somebody else put into their
// stream are left out.
func DeadLetters(ctx context.Context, from Archive) ([]DeadLetter, error) {
	letters := []DeadLetter{}
	for msg, err := range from.Messages(ctx, subjects.DeadStream, Place{}, quietTime) {
		if err != nil {
			return nil, err
		}
		d, err := letter(msg.Data, msg.Seq)
		if form.Unreadable(err) {
			return nil, err
		}
		if err == nil {
			letters = append(letters, d)
		}
	}
	return letters, nil
}

// DeadLetterAt returns one dead letter.
func DeadLetterAt(ctx context.Context, from Archive, seq uint64) (DeadLetter, error) {
	if seq == 0 {
		return DeadLetter{}, errors.New("dead letters are counted from 1; `toolbus dead list` shows them")
	}
	for msg, err := range from.Messages(ctx, subjects.DeadStream, Place{After: seq - 1}, quietTime) {
		if err != nil {
			return DeadLetter{}, err
		}
		if msg.Seq == seq {
			return letter(msg.Data, seq)
		}
		break
	}
	return DeadLetter{}, fmt.Errorf("there is no dead letter %d; `toolbus dead list` shows them", seq)
}

func letter(data []byte, seq uint64) (DeadLetter, error) {
	var d DeadLetter
	if err := json.Unmarshal(data, &d); err != nil {
		return d, fmt.Errorf("dead letter %d: %w", seq, err)
	}
	if err := form.Letter.Check(d.Form); err != nil && d.Form != 0 {
		return d, fmt.Errorf("dead letter %d: %w", seq, err)
	}
	if d.Cause == nil || d.Form == 0 {
		return d, fmt.Errorf("dead letter %d is none: it has no cause", seq)
	}
	d.Seq, d.Ref = seq, d.State.Ref()
	return d, nil
}
