package executorapi

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// headerEnd is the header with [kv.StoredEvent].End.
const headerEnd = "Tb-End"

// The answer has the body of the stored event as its body. An event that fits into a message of the log also fits into
// an answer: the headers that the answer adds are not longer than the stored headers of the compare-and-set that it
// omits.

func answerOf(s kv.StoredEvent) *nats.Msg {
	header := nats.Header{headerEnd: {strconv.FormatUint(s.End, 10)}}
	if s.RawStreamMsg == nil {
		return &nats.Msg{Header: header}
	}
	header[subjects.HeaderEvent] = s.Header[subjects.HeaderEvent]
	header[jetstream.SubjectHeader] = []string{s.Subject}
	header[jetstream.SequenceHeader] = []string{strconv.FormatUint(s.Sequence, 10)}
	header[jetstream.TimeStampHeaer] = []string{s.Time.Format(time.RFC3339Nano)}
	return &nats.Msg{Header: header, Data: s.Data}
}

func storedOf(msg *nats.Msg) (s kv.StoredEvent, err error) {
	if s.End, err = strconv.ParseUint(msg.Header.Get(headerEnd), 10, 64); err != nil {
		return s, fmt.Errorf("answer of a dispatcher: %w", err)
	}
	subject := msg.Header.Get(jetstream.SubjectHeader)
	if subject == "" {
		return s, nil
	}
	seq, err := strconv.ParseUint(msg.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return s, fmt.Errorf("answer of a dispatcher: %w", err)
	}
	at, err := time.Parse(time.RFC3339Nano, msg.Header.Get(jetstream.TimeStampHeaer))
	if err != nil {
		return s, fmt.Errorf("answer of a dispatcher: %w", err)
	}
	s.RawStreamMsg = &jetstream.RawStreamMsg{
		Subject: subject, Sequence: seq, Time: at, Data: msg.Data,
		Header: nats.Header{subjects.HeaderEvent: msg.Header[subjects.HeaderEvent]},
	}
	return s, nil
}

// Last implements [kv.Reader].
func (c *Client) Last(ctx context.Context, key subjects.Key) (kv.StoredEvent, error) {
	return c.logged(ctx, logged{Tool: key.Tool, ID: key.ID, Position: call.Position{Partition: key.Partition}})
}

// At implements [kv.Reader].
func (c *Client) At(ctx context.Context, at call.Position) (kv.StoredEvent, error) {
	return c.logged(ctx, logged{Position: at})
}

func (c *Client) logged(ctx context.Context, q logged) (kv.StoredEvent, error) {
	body, err := format.Marshal(format.Message, q)
	if err != nil {
		return kv.StoredEvent{}, err
	}
	msg, err := c.ask(ctx, subjects.OpLog, body)
	if r, ok := errors.AsType[*refusal](err); ok && r.says.Code == envelope.CodeLogDamaged {
		err = &call.DamagedError{Ref: subjects.Key{Tool: q.Tool, ID: q.ID}.Ref()}
	}
	if err != nil {
		return kv.StoredEvent{}, fmt.Errorf("read call log: %w", err)
	}
	return storedOf(msg)
}

// logged returns an event of the call log. It refuses an event of a call that is not of the pool of the requesting
// executor.
func (d *Server) logged(ctx context.Context, from executorName, q logged) (*nats.Msg, error) {
	read := func() (kv.StoredEvent, error) { return d.CallLog.Last(ctx, q.Tool, q.ID) }
	if q.Tool == "" {
		read = func() (kv.StoredEvent, error) { return d.CallLog.At(ctx, q.Position) }
	}
	s, err := read()
	if err != nil || s.RawStreamMsg == nil {
		return answerOf(s), err
	}
	last, err := s.Entry(q.Partition)
	if err == nil && last.State.Pool != from.pool {
		err = refuse(envelope.CodeForbidden, "the call is not one of your pool")
	}
	return answerOf(s), err
}
