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

// A message is answered with its body as body. The sequence is a header of ours; the headers of a frame are those
// that a writer of frames sets, by name: another stored header would be the writer's word in the dispatcher's name.
var stored = []string{streaming.HeaderForm, streaming.HeaderChunks, streaming.HeaderNonce}

// Newest implements [streaming.Newest] for the parts of payloads and the chunks of the executor's pool.
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

// newest answers for the pool of the executor that asks.
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
	if q.Direct && part && !d.OlderBuilds { // the server does not answer at the reply subject that it made itself
		to, body := streaming.GetNewest(subjects.PayloadsStream, q.Subject)
		return &nats.Msg{Subject: to, Data: body}, nil
	}
	var m *streaming.Message
	if part {
		m, err = d.Payloads.Newest(ctx, q.Subject, !d.Identity)
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
