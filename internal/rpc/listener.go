package rpc

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// CallListener takes call requests in, and hands them to a bounded number of handlers, so that no sender keeps another
// waiting.
type CallListener struct {
	sub    *nats.Subscription
	intake *intake[*arrived]
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

// put puts a message where its sender waits. That is all that is done before it is its turn: all senders wait for it.
func (in *CallListener) put(a *arrived) {
	in.intake.put(sender(a.Subject), a, len(a.headers)+len(a.Data), func() {
		a.Data, a.headers = nil, bytes.Clone(a.headers) // they are of the same memory
	})
}

// Filter says how whoever reads a message before the client library does is to treat it: requests are given to Take, as
// far as there is room for them, and dropped where there is none.
func (in *CallListener) Filter(subject []byte, size int) FilterAction {
	if !bytes.HasPrefix(subject, []byte("tb.call.")) {
		return FilterPass
	}
	return in.intake.filter(subject, size)
}

// Take takes in a request. It never waits, and keeps what it is given.
func (in *CallListener) Take(m FilteredMessage) {
	a := &arrived{Msg: nats.Msg{Subject: m.Subject, Reply: m.Reply, Data: m.Body}, headers: m.Header}
	if m.Trimmed {
		in.intake.turn(sender(m.Subject), a, &flow.QueueFullError{Of: "actor", Wait: flow.MinWait})
		return
	}
	in.put(a)
}

// incoming reads a message. It reports whether it may be answered.
func incoming(strays *replyFilter, msg *nats.Msg) (call.IncomingRequest, bool) {
	reply, ok := strays.answerTo(msg.Subject, msg.Reply, "")
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

// drained is how long the requests that are here already may take to be taken up at a stop.
const drained = time.Second

// Stop takes no more requests and waits for those in hand.
func (in *CallListener) Stop() {
	closed := in.sub.StatusChanged(nats.SubscriptionClosed)
	if in.sub.Drain() == nil { // it is gone with the connection otherwise
		select {
		case <-closed:
		case <-time.After(drained):
		}
	}
	in.intake.stop(drained)
}
