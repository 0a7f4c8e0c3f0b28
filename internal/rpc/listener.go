package rpc

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// CallListener receives call requests and passes them to a limited number of handlers, such that no sender delays
// others.
type CallListener struct {
	sub    *nats.Subscription
	intake *intake[*arrived]
}

// arrived is a received request. Its headers are decoded when it is handled.
type arrived struct {
	nats.Msg
	headers []byte // not decoded yet; nil after that
}

func (a *arrived) read() *nats.Msg {
	if a.headers != nil {
		a.Header, _ = nats.DecodeHeadersMsg(a.headers) // a request without valid headers is handled as one without headers
		a.headers = nil
	}
	return &a.Msg
}

const dispatcherQueue = "dispatchers"

// Limits of the messages that wait in the NATS client library before they are put into a queue. Usually few wait,
// because that does not block. If the process is delayed, messages beyond the limits are dropped, and clients send them
// again.
const (
	maxPending      = 32 * 1024
	maxPendingBytes = 64 << 20
)

// Listen subscribes to call requests, in a queue group with the other dispatchers, and calls handle for each, in at
// most maxHandlers goroutines at a time. If a limit of the sender is reached, it calls crowded instead, with the
// request without its body. A request for which there is no room at all is dropped. Call Stop to end the subscription.
func Listen(ctx context.Context, nc *nats.Conn, log *slog.Logger, handle func(context.Context, *call.IncomingRequest),
	crowded func(context.Context, *call.IncomingRequest, *flow.QueueFullError)) (*CallListener, error) {
	in := &CallListener{}
	strays := &replyFilter{log: log}
	in.intake = newIntake(log, "requests", forRequests(),
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

// put puts a message into the queue of its sender. It must be fast, because one goroutine does it for all senders.
func (in *CallListener) put(a *arrived) {
	in.intake.put(sender(a.Subject), a, len(a.headers)+len(a.Data), func() {
		a.Data, a.headers = nil, bytes.Clone(a.headers) // body and headers share memory
	})
}

// Filter is for [NewFilterConn]. It takes call requests from the connection, for Take, if there is room for them, and
// otherwise drops them. It passes other messages to the client library.
func (in *CallListener) Filter(subject []byte, size int) FilterAction {
	if !bytes.HasPrefix(subject, []byte("tb.call.")) {
		return FilterPass
	}
	return in.intake.filter(subject, size)
}

// Take puts a request from a [FilterConn] into the queue of its sender. It does not block, and keeps the memory of m.
func (in *CallListener) Take(m FilteredMessage) {
	a := &arrived{Msg: nats.Msg{Subject: m.Subject, Reply: m.Reply, Data: m.Body}, headers: m.Header}
	if m.Trimmed {
		in.intake.turn(sender(m.Subject), a, &flow.QueueFullError{Of: "actor", Wait: flow.MinWait})
		return
	}
	in.put(a)
}

// incoming decodes the headers and the subject of a request. It returns false if the request must be dropped because it
// has no permitted reply subject.
func incoming(strays *replyFilter, msg *nats.Msg) (call.IncomingRequest, bool) {
	reply, ok := strays.answerTo(msg.Subject, msg.Reply, "", len(msg.Data))
	if !ok {
		return call.IncomingRequest{}, false
	}
	tenant, actor, tool, err := subjects.ParseCall(msg.Subject)
	return call.IncomingRequest{
		Subject: msg.Subject, From: call.Sender{Tenant: tenant, Actor: actor}, Tool: tool, Misnamed: err,
		Body: msg.Data, Reply: reply, Token: token(msg.Header),
		ContentType: msg.Header.Get(subjects.HeaderContentType), InputRef: msg.Header.Get(subjects.HeaderInputRef),
		Patient: msg.Header.Get(subjects.HeaderPatient) != "",
	}, true
}

// drained is how long after Stop received requests may still be handled.
const drained = time.Second

// Stop ends the subscription and waits for the requests that are being handled.
func (in *CallListener) Stop() {
	closed := in.sub.StatusChanged(nats.SubscriptionClosed)
	if in.sub.Drain() == nil { // otherwise the connection is closed, and the subscription with it
		select {
		case <-closed:
		case <-time.After(drained):
		}
	}
	in.intake.stop(drained)
}

// replyFilter checks the reply subjects of requests, and counts and logs the requests with one that is not permitted.
// An answer on such a subject could be taken for the answer to another caller.
type replyFilter struct {
	log *slog.Logger
	flow.Dropped
}

// answerTo returns the subject for the answer to a request with a body of size bytes. ok is false if the request must
// be dropped. With an empty message without a reply subject, `toolbus doctor` tries whether it may publish: that is not
// logged.
func (s *replyFilter) answerTo(subject, reply, word string, size int) (to string, ok bool) {
	if to, ok = subjects.AnswerTo(subject, reply, word); !ok && (reply != "" || size > 0) {
		s.Note(s.log, "a request may be answered below tb.ans.<tenant>.<actor>. of its own subject only; clients of "+
			"Toolbus 0.1 ask otherwise", subject)
	}
	return to, ok
}

// credential returns the token in the header of a message, and the NATS user of the connection that sent it. The server
// sets the header of the user and removes others with the same name, so two values mean that the header is not from the
// server: then neither counts. The look-up is case-sensitive, because a sender may set names with another case.
func credential(h nats.Header) (c call.Credential) {
	c.Token = token(h)
	if infos := h[subjects.HeaderRequestInfo]; len(infos) == 1 {
		c.User = userOf(infos[0])
	}
	return c
}

// token returns the token in the header of a message. It returns "" if there is none, or more than one.
func token(h nats.Header) string {
	if tokens := h[subjects.HeaderToken]; len(tokens) == 1 {
		return tokens[0]
	}
	return ""
}

// userOf returns the user in the JSON object with which the server describes a connection. It does not parse the
// object: names of users contain no quotes, and quotes in values that a client chose, such as the name of the
// connection, are escaped, so no value can look like this member.
func userOf(info string) string {
	_, rest, found := strings.Cut(info, `"user":"`)
	user, _, closed := strings.Cut(rest, `"`)
	if !found || !closed || strings.Contains(user, `\`) {
		return ""
	}
	return user
}
