package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/crew"
	"github.com/seed-018f16cc/toolbus/internal/form"
	"github.com/seed-018f16cc/toolbus/question"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Intake hands call requests to a bounded number of handlers. When all are busy, requests wait
// in the connection's own bounded buffer; what does not fit there is dropped, and asked again.
type Intake struct {
	sub  *nats.Subscription
	crew *crew.Crew[question.Incoming]
}

// Bounds of the intake of one dispatcher.
const (
	maxHandlers     = 1024
	maxIntakeMsgs   = 16 * 1024
	maxIntakeBytes  = 256 << 20
	dispatcherQueue = "dispatchers"
)

// Listen subscribes to call requests, shared with the other dispatchers, and calls handle for
// each, in at most maxHandlers goroutines at once.
func Listen(ctx context.Context, nc *nats.Conn, log *slog.Logger,
	handle func(context.Context, *question.Incoming)) (*Intake, error) {
	strays := newStrays(log)
	in := &Intake{crew: crew.Bounded(maxHandlers, func(request question.Incoming) { handle(ctx, &request) })}
	sub, err := nc.QueueSubscribe(subjects.CallWildcard, dispatcherQueue, func(msg *nats.Msg) {
		tenant, actor, tool, err := subjects.ParseCall(msg.Subject)
		if strays.drops(msg.Subject, msg.Reply) {
			return
		}
		in.crew.Start(question.Incoming{ // once it has stopped the caller asks another dispatcher
			Subject: msg.Subject, From: question.Sender{Tenant: tenant, Actor: actor}, Tool: tool, Misnamed: err,
			Body: msg.Data, Reply: msg.Reply,
			ContentType: msg.Header.Get(subjects.HeaderContentType), InputRef: msg.Header.Get(subjects.HeaderInputRef),
			Patient: msg.Header.Get(subjects.HeaderPatient) != "",
		})
	})
	if err == nil {
		err = sub.SetPendingLimits(maxIntakeMsgs, maxIntakeBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for calls: %w", err)
	}
	in.sub = sub
	return in, nil
}

// drained is how long the requests that are here already may take to be taken up at a stop.
const drained = time.Second

// Stop takes no more requests and waits for those in hand.
func (in *Intake) Stop() {
	closed := in.sub.StatusChanged(nats.SubscriptionClosed)
	if in.sub.Drain() == nil { // it is gone with the connection otherwise
		select {
		case <-closed:
		case <-time.After(drained):
		}
	}
	in.crew.End()
}

// Endpoint answers one operation of the service: body in, answer or refusal out.
type Endpoint struct {
	Op string
	// All lets every dispatcher answer, and not one of them.
	All    bool
	Handle func(ctx context.Context, from question.Sender, body []byte) (answer any, refusal *envelope.Error)
}

// Service is what [Serve] offers.
type Service struct {
	svc  micro.Service
	crew *crew.Crew[asked]
}

// asked is one request to an endpoint.
type asked struct {
	endpoint Endpoint
	request  micro.Request
}

// Bounds of the service of one dispatcher.
const (
	maxQuestions = 256
	questionTime = 10 * time.Second // callers without an answer by then ask again
)

// Serve offers the endpoints as the micro service "toolbus", which the stock nats CLI finds. They
// answer side by side: a cancel waits for executors, and nobody waits for the cancels of others.
func Serve(ctx context.Context, nc *nats.Conn, log *slog.Logger, version string,
	endpoints []Endpoint) (*Service, error) {
	svc, err := micro.AddService(nc, micro.Config{
		Name: "toolbus", Version: version, Description: "Toolbus dispatcher: results, cancels, explanations, tools",
	})
	if err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	strays := newStrays(log)
	s := &Service{svc: svc, crew: crew.Bounded(maxQuestions, func(q asked) {
		if !strays.drops(q.request.Subject(), q.request.Reply()) {
			respond(ctx, nc, log, q.endpoint, q.request)
		}
	})}
	for _, e := range endpoints {
		options := []micro.EndpointOpt{micro.WithEndpointSubject(subjects.ServiceWildcard(e.Op))}
		if e.All {
			options = append(options, micro.WithEndpointQueueGroupDisabled())
		}
		err := svc.AddEndpoint(e.Op, micro.HandlerFunc(func(r micro.Request) { s.crew.Start(asked{e, r}) }), options...)
		if err != nil {
			return nil, fmt.Errorf("service %s: %w", e.Op, errors.Join(err, s.Stop()))
		}
	}
	return s, nil
}

// Stop takes no more requests, whose callers ask another dispatcher, and waits for those in hand.
func (s *Service) Stop() error {
	err := s.svc.Stop()
	s.crew.End()
	return err
}

func respond(ctx context.Context, nc *nats.Conn, log *slog.Logger, e Endpoint, r micro.Request) {
	tenant, actor, ok := subjects.CallerTokens(r.Subject())
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, questionTime)
	defer cancel()
	answer, refusal := e.unharmed(ctx, log, question.Sender{Tenant: tenant, Actor: actor}, r.Data())
	header := nats.Header{subjects.HeaderKind: {question.KindOutcome}}
	if refusal != nil {
		answer, header = question.Refused{Refusal: refusal}, nats.Header{subjects.HeaderKind: {question.KindRefusal}}
	}
	data, err := Stamp(form.Answer, answer)
	if err != nil {
		return // all answers are our own types
	}
	_ = nc.PublishMsg(&nats.Msg{Subject: r.Reply(), Data: data, Header: header}) // the caller asks again
}
