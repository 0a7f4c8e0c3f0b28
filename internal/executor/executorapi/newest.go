package executorapi

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// stored lists the stored headers of a message that are copied to the answer. Other headers are not copied, because the
// writer of the message could choose them and the executor trusts the headers of a dispatcher.
var stored = []string{streaming.HeaderForm, streaming.HeaderChunks, streaming.HeaderNonce}

// Newest implements [streaming.Newest] for the parts of payloads and the chunks of the executor's pool. It returns nil
// if there is no such message.
func (c *Client) Newest(ctx context.Context, subject string) (*streaming.Message, error) {
	if _, err := subjects.ParsePayload(subject); err == nil {
		m, err := c.newest(ctx, newest{Subject: subject, Direct: true})
		if err != nil || m != nil {
			return m, err
		}
	}
	return c.newest(ctx, newest{Subject: subject})
}

func (c *Client) newest(ctx context.Context, q newest) (*streaming.Message, error) {
	body, err := format.Marshal(format.Message, q)
	if err != nil {
		return nil, err
	}
	msg, err := c.ask(ctx, subjects.OpNewest, body)
	if r, ok := errors.AsType[*refusal](err); ok && r.says.Code == envelope.CodePayloadMissing {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", q.Subject, err)
	}
	m := &streaming.Message{Header: nats.Header{}, Data: msg.Data}
	for _, name := range stored {
		if values := msg.Header[name]; len(values) > 0 {
			m.Header[name] = values
		}
	}
	m.Sequence, err = strconv.ParseUint(msg.Header.Get(jetstream.SequenceHeader), 10, 64)
	switch {
	case err == nil:
		return m, nil
	case q.Direct: // a status
		return nil, nil
	}
	return nil, fmt.Errorf("answer of a dispatcher: %w", err)
}

// newest returns the newest message on a subject. It refuses a subject that is not of the pool of the requesting
// executor.
func (d *Server) newest(ctx context.Context, from executorName, q newest) (*nats.Msg, error) {
	pool, ok := subjects.PoolOf(q.Subject)
	if !ok {
		return nil, refuse(envelope.CodeMalformed, "the subject is neither that of a part of a payload nor that of chunks")
	}
	if pool != subjects.Token(from.pool) && (pool != "" || d.Identity) {
		return nil, refuse(envelope.CodeForbidden, "that is not of your pool")
	}
	_, err := subjects.ParsePayload(q.Subject)
	part := err == nil
	if q.Direct && part {
		to, body := streaming.GetNewest(subjects.PayloadsStream, q.Subject)
		return &nats.Msg{Subject: to, Data: body}, nil
	}
	var m *streaming.Message
	if part {
		m, err = d.Payloads.Newest(ctx, q.Subject)
	} else {
		m, err = d.Chunks.Last(ctx, q.Subject)
	}
	switch {
	case err != nil:
		return nil, err
	case m == nil:
		return nil, refuse(envelope.CodePayloadMissing, "there is no such message")
	}
	answer := &nats.Msg{Header: nats.Header{jetstream.SequenceHeader: {strconv.FormatUint(m.Sequence, 10)}}, Data: m.Data}
	for _, name := range stored {
		if values := m.Header[name]; len(values) > 0 {
			answer.Header[name] = values
		}
	}
	return answer, nil
}
