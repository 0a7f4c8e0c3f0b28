package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Endpoint answers one operation of the service: body in, answer or refusal out.
type Endpoint struct {
	Op string
	// All lets every dispatcher answer, and not one of them.
	All    bool
	Handle func(ctx context.Context, from call.Sender, body []byte) (answer any, refusal *envelope.Error)
}

// Service is what [Serve] offers.
type Service struct {
	svc    micro.Service
	intake *intake[*asked]
}

// asked is one request to an endpoint.
type asked struct {
	endpoint Endpoint
	from     call.Sender
	by       call.Credential
	reply    string
	body     []byte
}

// questionTime is how long a question is worked on: callers without an answer by then ask again.
const questionTime = 10 * time.Second

// Serve offers the endpoints as the micro service "toolbus", which the stock nats CLI finds. They
// answer side by side: a cancel waits for executors, and nobody waits for the questions of others.
func Serve(ctx context.Context, nc *nats.Conn, log *slog.Logger, version string,
	endpoints []Endpoint) (*Service, error) {
	svc, err := micro.AddService(nc, micro.Config{
		Name: "toolbus", Version: version, Description: "Toolbus dispatcher: results, cancels, explanations, tools",
	})
	if err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	strays := &replyFilter{log: log}
	s := &Service{svc: svc, intake: newIntake(log, "questions", forQuestions(),
		func(q *asked, _ func()) { respond(ctx, nc, log, q) },
		func(q *asked, full *flow.QueueFullError) { q.tell(nc, nil, crowded(full)) })}
	for _, e := range endpoints {
		options := []micro.EndpointOpt{
			micro.WithEndpointSubject(subjects.ServiceWildcard(e.Op)),
			micro.WithEndpointPendingLimits(maxPending, maxPendingBytes),
		}
		if e.All {
			options = append(options, micro.WithEndpointQueueGroupDisabled())
		}
		err := svc.AddEndpoint(e.Op, micro.HandlerFunc(func(r micro.Request) { s.take(strays, e, r) }), options...)
		if err != nil {
			return nil, fmt.Errorf("service %s: %w", e.Op, errors.Join(err, s.Stop()))
		}
	}
	return s, nil
}

// take takes in a question.
func (s *Service) take(strays *replyFilter, e Endpoint, r micro.Request) {
	tenant, actor, ok := subjects.CallerTokens(r.Subject())
	reply, answered := strays.answerTo(r.Subject(), r.Reply(), r.Headers().Get(subjects.HeaderAnswer))
	if !ok || !answered {
		return
	}
	q := &asked{
		endpoint: e, from: call.Sender{Tenant: tenant, Actor: actor}, by: credential(nats.Header(r.Headers())),
		reply: reply, body: r.Data(),
	}
	q.by.Reply = reply
	s.intake.put(flow.Sender(q.from), q, len(q.body), func() { q.body = nil })
}

// Filter is [CallListener.Filter] for service requests. It takes none of them, because the client library reads them.
func (s *Service) Filter(subject []byte, size int) FilterAction {
	if bytes.HasPrefix(subject, []byte("tb.svc.")) && s.intake.filter(subject, size) == FilterDrop {
		return FilterDrop
	}
	return FilterPass
}

// crowded refuses a question that found no room.
func crowded(full *flow.QueueFullError) *envelope.Error {
	return envelope.NewError(envelope.CodeQueue, full.Error()).WithRetryAfter(full.Wait)
}

// Stop takes no more requests, whose callers ask another dispatcher, and waits for those in hand.
func (s *Service) Stop() error {
	err := s.svc.Stop()
	s.intake.stop(drained)
	return err
}

func respond(ctx context.Context, nc *nats.Conn, log *slog.Logger, q *asked) {
	ctx, cancel := context.WithTimeout(ctx, questionTime)
	defer cancel()
	answer, refusal := q.endpoint.unharmed(call.NewContext(ctx, q.by), log, q.from, q.body)
	q.tell(nc, answer, refusal)
}

// Forward is the answer of an [Endpoint] that has the server answer instead: with a message that the server reads from
// a stream and that does not pass through the dispatcher. The request goes To a subject of the server, with the answer
// subject of the question, which belongs to the sender.
type Forward struct {
	To   string
	Body []byte
}

// tell answers a question, or refuses it.
func (q *asked) tell(nc *nats.Conn, answer any, refusal *envelope.Error) {
	header := nats.Header{subjects.HeaderKind: {envelope.KindOutcome}}
	if refusal != nil {
		answer, header = envelope.ServiceRefusal{Refusal: refusal}, nats.Header{subjects.HeaderKind: {envelope.KindRefusal}}
	}
	if f, ok := answer.(Forward); ok {
		_ = nc.PublishMsg(&nats.Msg{Subject: f.To, Reply: q.reply, Data: f.Body}) // the caller asks again
		return
	}
	data, err := format.Marshal(format.Message, answer)
	if err != nil {
		return // all answers are our own types
	}
	_ = nc.PublishMsg(&nats.Msg{Subject: q.reply, Data: data, Header: header}) // the caller asks again
}
