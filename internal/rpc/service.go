package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Endpoint handles one operation of the service.
type Endpoint struct {
	Op string
	// All makes every dispatcher answer each request. Otherwise one of them answers.
	All    bool
	Handle func(ctx context.Context, from call.Sender, body []byte) (answer any, refusal *envelope.Error)
}

// Service is the running service that [Serve] returns.
type Service struct {
	svc      micro.Service
	intake   *intake[*asked]
	nc       *nats.Conn
	log      *slog.Logger
	now      func() time.Time // bus time
	underway sync.Map         // of copied: what is being handled
}

// copied names a request: its copies are those with the same id of one sender.
type copied struct {
	from call.Sender
	id   string
}

// asked is one request to an endpoint.
type asked struct {
	endpoint Endpoint
	from     call.Sender
	by       call.Credential
	reply    string
	until    time.Time // bus time; zero without a limit
	body     []byte
}

// questionTime is the time limit of handling a service request. A client without an answer repeats it.
const questionTime = 10 * time.Second

// Serve registers the endpoints as the NATS micro service "toolbus", which the nats CLI can list. It handles requests
// concurrently, within limits for each actor and tenant. now returns bus time. Call Stop to end it.
func Serve(ctx context.Context, nc *nats.Conn, log *slog.Logger, version string, now func() time.Time,
	endpoints []Endpoint) (*Service, error) {
	svc, err := micro.AddService(nc, micro.Config{
		Name: "toolbus", Version: version, Description: "Toolbus dispatcher: results, cancels, explanations, tools",
	})
	if err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	strays := &replyFilter{log: log}
	s := &Service{svc: svc, nc: nc, log: log, now: now}
	s.intake = newIntake(log, "questions", forQuestions(), func(q *asked, _ func()) { s.respond(ctx, q) },
		func(q *asked, full *flow.QueueFullError) { s.tell(q, nil, crowded(full)) })
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

// take puts a service request into the queue of its sender, or drops it if it has no permitted reply subject.
func (s *Service) take(strays *replyFilter, e Endpoint, r micro.Request) {
	tenant, actor, ok := subjects.CallerTokens(r.Subject())
	reply, answered := strays.answerTo(r.Subject(), r.Reply(), r.Headers().Get(subjects.HeaderAnswer), len(r.Data()))
	if !ok || !answered {
		return
	}
	q := &asked{
		endpoint: e, from: call.Sender{Tenant: tenant, Actor: actor}, by: credential(nats.Header(r.Headers())),
		reply: reply, until: unixMS(r.Headers().Get(subjects.HeaderUntil)), body: r.Data(),
	}
	q.by.Reply, q.by.Request = reply, r.Headers().Get(subjects.HeaderRequest)
	if len(q.by.Request) > maxRequestID {
		return
	}
	s.intake.put(sender(r.Subject()), q, len(q.body), func() { q.body = nil })
}

// Filter is [CallListener.Filter] for service requests. It drops those for which there is no room, and passes all
// others to the client library.
func (s *Service) Filter(subject []byte, size int) FilterAction {
	if bytes.HasPrefix(subject, []byte("tb.svc.")) && s.intake.filter(subject, size) == FilterDrop {
		return FilterDrop
	}
	return FilterPass
}

// crowded returns the refusal for a service request for which there is no room.
func crowded(full *flow.QueueFullError) *envelope.Error {
	return envelope.NewError(envelope.CodeQueue, full.Error()).WithRetryAfter(full.Wait)
}

// Stop ends the subscriptions and waits for the requests that are being handled. Other dispatchers receive later ones.
func (s *Service) Stop() error {
	err := s.svc.Stop()
	s.intake.stop(drained)
	return err
}

// maxRequestID is the largest length of an id of a request in bytes.
const maxRequestID = 64

// respond handles a request. It refuses one after its deadline: its sender has given it up, or learns from the answer
// that its estimate of bus time is wrong. It does nothing for a copy of one that is being handled.
func (s *Service) respond(ctx context.Context, q *asked) {
	left := questionTime
	if !q.until.IsZero() {
		left = min(left, q.until.Sub(s.now()))
	}
	if left <= 0 {
		s.log.Info("a request came after its deadline", "op", q.endpoint.Op)
		s.tell(q, nil, envelope.NewError(envelope.CodeTimeout, "the deadline of the request had passed before it came"))
		return
	}
	if q.by.Request != "" {
		is := copied{q.from, q.by.Request}
		if _, twice := s.underway.LoadOrStore(is, nil); twice {
			return
		}
		defer s.underway.Delete(is)
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	answer, refusal := q.endpoint.unharmed(call.NewContext(ctx, q.by), s.log, q.from, q.body)
	s.tell(q, answer, refusal)
}

// unixMS returns the time of a header; zero if it has none.
func unixMS(header string) time.Time {
	ms, err := strconv.ParseInt(header, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// Forward is an answer of an [Endpoint] that makes the NATS server answer instead, with a message of a stream, which
// then does not pass through the dispatcher. The dispatcher publishes Body on the subject To of the JetStream API,
// with the sender's subject for the answer as reply subject.
type Forward struct {
	To   string
	Body []byte
}

// tell sends the answer to a service request, or the refusal.
func (s *Service) tell(q *asked, answer any, refusal *envelope.Error) {
	header := nats.Header{subjects.HeaderKind: {envelope.KindOutcome}}
	if refusal != nil {
		answer, header = envelope.ServiceRefusal{Refusal: refusal}, nats.Header{subjects.HeaderKind: {envelope.KindRefusal}}
	}
	if q.by.Request != "" {
		header[subjects.HeaderNow] = []string{strconv.FormatInt(s.now().UnixMilli(), 10)}
	}
	if f, ok := answer.(Forward); ok {
		_ = s.nc.PublishMsg(&nats.Msg{Subject: f.To, Reply: q.reply, Data: f.Body}) // the caller asks again
		return
	}
	data, err := format.Marshal(format.Message, answer)
	if err != nil {
		return // all answers are our own types
	}
	_ = s.nc.PublishMsg(&nats.Msg{Subject: q.reply, Data: data, Header: header}) // the caller asks again
}
