package rpc

import (
	"log/slog"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Replies delivers answers to the inboxes of callers, in the content type they asked in. It is
// best effort, as core NATS is: callers ask again.
type Replies struct {
	nc  *nats.Conn
	log *slog.Logger
}

// NewReplies returns Replies over nc.
func NewReplies(nc *nats.Conn, log *slog.Logger) *Replies { return &Replies{nc: nc, log: log} }

// Accepted tells a caller that its call is durable.
func (r *Replies) Accepted(to call.ReplyAddress, a *envelope.Accepted) {
	data, err := envelope.EncodeAccepted(to.ContentType, a)
	r.send(to, envelope.KindAccepted, data, err)
}

// Outcome tells a caller the outcome of its call.
func (r *Replies) Outcome(to call.ReplyAddress, resp *envelope.Response) {
	data, err := envelope.EncodeResponse(to.ContentType, resp)
	if err != nil { // the request was refused because nobody knows its content type
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
