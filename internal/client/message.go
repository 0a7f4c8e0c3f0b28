package client

import (
	"cmp"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// message makes the message of the request; a large input goes to the payload store first.
func (c *Client) message(x *exchange) (err error) {
	sent, msg := *x.Body, &x.msg
	msg.Subject, msg.Header = c.subject(sent.ToolID), nats.Header{subjects.HeaderContentType: x.values[0:1:1]}
	if len(sent.Input) > envelope.MaxInline {
		ref, err := c.store(x.of, sent.Input)
		if err != nil {
			return err
		}
		msg.Header.Set(subjects.HeaderInputRef, ref.String())
		sent.Input = []byte("null")
	}
	if msg.Data, err = envelope.AppendRequest(nil, &sent); err != nil { // a text of it is no UTF-8
		sent.Input = []byte("null")
		reason := cmp.Or(sent.Check(), envelope.NewError(envelope.CodeMalformed, ""))
		return unsendable{reason.WithCause(err.Error())}
	}
	if most := c.nc.MaxPayload(); most > 0 && int64(msg.Size()) > most {
		return unsendable{envelope.NewError(envelope.CodeLimit,
			fmt.Sprintf("the request is %d bytes, and the server takes at most %d", msg.Size(), most))}
	}
	return nil
}

// unsendable is the error of a request that cannot be sent.
type unsendable struct{ reason *envelope.Error }

// Error implements error.
func (u unsendable) Error() string { return u.reason.String() }

func (c *Client) store(e *pendingCall, data []byte) (envelope.PayloadRef, error) {
	if c.Payloads == nil {
		return envelope.PayloadRef{}, fmt.Errorf("%w: an input of more than %d bytes goes through the payload store, and "+
			"this client has none: set Options.Payloads",
			streaming.ErrTooLarge, envelope.MaxInline)
	}
	bounded, cancel := e.graced()
	defer cancel()
	return c.Payloads.PutNow(bounded, c.owner().On(e.pool), data)
}
