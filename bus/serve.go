package bus

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
	"github.com/seed-018f16cc/toolbus/internal/dropped"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/internal/form"
	"github.com/seed-018f16cc/toolbus/internal/sieve"
	"github.com/seed-018f16cc/toolbus/question"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Intake takes call requests in, and hands them to a bounded number of handlers, so that no sender keeps another
// waiting.
type Intake struct {
	sub  *nats.Subscription
	desk *desk[*arrived]
}

// arrived is a request. Its headers are read when it is its turn.
type arrived struct {
	nats.Msg
	headers []byte // nil where they were read
}

func (a *arrived) read() *nats.Msg {
	if a.headers != nil {
		a.Header, _ = nats.DecodeHeadersMsg(a.headers) // without any it says where to answer, or is none of ours
		a.headers = nil
	}
	return &a.Msg
}

const dispatcherQueue = "dispatchers"

// What may wait in the NATS client before it is put into a queue. That is done at once, so that this line, which is one
// for all senders, is short however many messages come; it is bounded all the same, for a process that is held up. What
// does not fit in is dropped, and asked again.
const (
	maxPending      = 32 * 1024
	maxPendingBytes = 64 << 20
)

// Listen subscribes to call requests, shared with the other dispatchers, and calls handle for each, in at most
// maxHandlers goroutines at once. What is too much of its sender is given, without its body, to crowded.
func Listen(ctx context.Context, nc *nats.Conn, log *slog.Logger, handle func(context.Context, *call.Incoming),
	crowded func(context.Context, *call.Incoming, *flow.QueueFullError)) (*Intake, error) {
	in := &Intake{}
	strays := &strays{log: log}
	in.desk = newDesk(log, "requests", forRequests(),
		func(a *arrived, waits func()) {
			if request, ok := incoming(strays, a.read()); ok {
				request.Waits = waits
				handle(ctx, &request)
			}
		},
		func(a *arrived, full *flow.QueueFullError) {
			if request, ok := incoming(strays, a.read()); ok {
				crowded(ctx, &request, full)
			}
		})
	sub, err := nc.QueueSubscribe(subjects.CallWildcard, dispatcherQueue, func(msg *nats.Msg) {
		in.put(&arrived{Msg: *msg})
	})
	if err == nil {
		err = sub.SetPendingLimits(maxPending, maxPendingBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("listen for calls: %w", err)
	}
	in.sub = sub
	return in, nil
}

// put puts a message where its sender waits. That is all that is done before it is its turn: all senders wait for it.
func (in *Intake) put(a *arrived) {
	in.desk.put(sender(a.Subject), a, len(a.headers)+len(a.Data), func() {
		a.Data, a.headers = nil, bytes.Clone(a.headers) // they are of the same memory
	})
}

// Fate says how whoever reads a message before the client library does is to treat it: requests are given to Take, as
// far as there is room for them, and dropped where there is none.
func (in *Intake) Fate(subject []byte, size int) sieve.Fate {
	if !bytes.HasPrefix(subject, []byte("tb.call.")) {
		return sieve.Pass
	}
	return in.desk.fate(subject, size)
}

// Take takes in a request. It never waits, and keeps what it is given.
func (in *Intake) Take(m sieve.Message) {
	a := &arrived{Msg: nats.Msg{Subject: m.Subject, Reply: m.Reply, Data: m.Body}, headers: m.Header}
	if m.Trimmed {
		in.desk.turn(sender(m.Subject), a, &flow.QueueFullError{Of: "actor", Wait: flow.MinWait})
		return
	}
	in.put(a)
}

// incoming reads a message. It reports whether it may be answered.
func incoming(strays *strays, msg *nats.Msg) (call.Incoming, bool) {
	reply, ok := strays.answerTo(msg.Subject, msg.Reply, "")
	if !ok {
		return call.Incoming{}, false
	}
	tenant, actor, tool, err := subjects.ParseCall(msg.Subject)
	return call.Incoming{
		Subject: msg.Subject, From: call.Sender{Tenant: tenant, Actor: actor}, Tool: tool, Misnamed: err,
		Body: msg.Data, Reply: reply, Token: token(msg.Header),
		ContentType: msg.Header.Get(subjects.HeaderContentType), InputRef: msg.Header.Get(subjects.HeaderInputRef),
		Patient: msg.Header.Get(subjects.HeaderPatient) != "",
	}, true
}

// strays counts the requests of callers that may not be answered where they name: an answer there could be taken for
// the answer to another caller.
type strays struct {
	log *slog.Logger
	dropped.Messages
}

// answerTo returns where a request is answered; ok is false for one that is dropped.
func (s *strays) answerTo(subject, reply, word string) (to string, ok bool) {
	if to, ok = subjects.AnswerTo(subject, reply, word); !ok {
		s.Note(s.log, "a request may be answered below tb.ans.<tenant>.<actor>. of its own subject only; clients of "+
			"Toolbus 0.1 ask otherwise", subject)
	}
	return to, ok
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
	in.desk.stop(drained)
}

// Endpoint answers one operation of the service: body in, answer or refusal out.
type Endpoint struct {
	Op string
	// All lets every dispatcher answer, and not one of them.
	All    bool
	Handle func(ctx context.Context, from call.Sender, body []byte) (answer any, refusal *envelope.Error)
}

// Service is what [Serve] offers.
type Service struct {
	svc  micro.Service
	desk *desk[*asked]
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
	strays := &strays{log: log}
	s := &Service{svc: svc, desk: newDesk(log, "questions", forQuestions(),
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
func (s *Service) take(strays *strays, e Endpoint, r micro.Request) {
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
	s.desk.put(flow.Sender(q.from), q, len(q.body), func() { q.body = nil })
}

// Fate is [Intake.Fate] for questions, which the client library reads.
func (s *Service) Fate(subject []byte, size int) sieve.Fate {
	if bytes.HasPrefix(subject, []byte("tb.svc.")) && s.desk.fate(subject, size) == sieve.Drop {
		return sieve.Drop
	}
	return sieve.Pass
}

// crowded refuses a question that found no room.
func crowded(full *flow.QueueFullError) *envelope.Error {
	return envelope.NewError(envelope.CodeQueue, full.Error()).WithRetryAfter(full.Wait)
}

// Stop takes no more requests, whose callers ask another dispatcher, and waits for those in hand.
func (s *Service) Stop() error {
	err := s.svc.Stop()
	s.desk.stop(drained)
	return err
}

func respond(ctx context.Context, nc *nats.Conn, log *slog.Logger, q *asked) {
	ctx, cancel := context.WithTimeout(ctx, questionTime)
	defer cancel()
	answer, refusal := q.endpoint.unharmed(call.With(ctx, q.by), log, q.from, q.body)
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
	header := nats.Header{subjects.HeaderKind: {question.KindOutcome}}
	if refusal != nil {
		answer, header = question.Refused{Refusal: refusal}, nats.Header{subjects.HeaderKind: {question.KindRefusal}}
	}
	if f, ok := answer.(Forward); ok {
		_ = nc.PublishMsg(&nats.Msg{Subject: f.To, Reply: q.reply, Data: f.Body}) // the caller asks again
		return
	}
	data, err := Stamp(form.Answer, answer)
	if err != nil {
		return // all answers are our own types
	}
	_ = nc.PublishMsg(&nats.Msg{Subject: q.reply, Data: data, Header: header}) // the caller asks again
}
