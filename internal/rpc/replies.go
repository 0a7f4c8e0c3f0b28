package rpc

import (
	"log/slog"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Replies sends answers to the inboxes of callers, in the content type of the request. An answer may be lost, as with
// all core NATS messages. The caller then sends its request again.
type Replies struct {
	nc  *nats.Conn
	log *slog.Logger
}

// NewReplies returns Replies over nc. It logs errors of sending to log.
func NewReplies(nc *nats.Conn, log *slog.Logger) *Replies { return &Replies{nc: nc, log: log} }

// Accepted tells a caller that its call is stored.
func (r *Replies) Accepted(to call.ReplyAddress, a *envelope.Accepted) {
	data, err := envelope.EncodeAccepted(to.ContentType, a)
	r.send(to, envelope.KindAccepted, data, err)
}

// Outcome sends a caller the outcome of its call.
func (r *Replies) Outcome(to call.ReplyAddress, resp *envelope.Response) {
	data, err := envelope.EncodeResponse(to.ContentType, resp)
	if err != nil { // its content type is unknown, for which the request was refused
		to.ContentType = envelope.ContentJSON
		data, err = envelope.EncodeResponse(to.ContentType, resp)
	}
	r.send(to, envelope.KindOutcome, data, err)
}

func (r *Replies) send(to call.ReplyAddress, kind string, data []byte, err error) {
	if to.Reply == "" {
		return
	}
	if err == nil {
		values := [...]string{kind, to.ContentType} // one allocation for all headers
		err = r.nc.PublishMsg(&nats.Msg{Subject: to.Reply, Data: data, Header: nats.Header{
			subjects.HeaderKind: values[0:1:1], subjects.HeaderContentType: values[1:2:2],
		}})
	}
	if err != nil {
		r.log.Warn("answer not sent", "kind", kind, "err", err)
	}
}
