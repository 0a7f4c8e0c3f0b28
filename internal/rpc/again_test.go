package rpc_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// served serves the operation "why" with handle until the test ends, and returns an inbox to ask over.
func served(
	t *testing.T, now func() time.Time, handle func(context.Context) (any, *envelope.Error),
) (*natstest.Server, *rpc.Inbox) {
	t.Helper()
	srv := natstest.Start(t)
	nc := srv.Connect(t)
	svc, err := rpc.Serve(context.WithoutCancel(t.Context()), nc, slog.New(slog.DiscardHandler), "0.0.1", now,
		[]rpc.Endpoint{{Op: "why", Handle: func(ctx context.Context, _ call.Sender, _ []byte) (any, *envelope.Error) {
			return handle(ctx)
		}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = svc.Stop() }) // the connection ends next
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	in, err := rpc.NewInbox(srv.Connect(t), "t", "agent://a")
	if err = errors.Join(err, in.NC.Flush()); err != nil { // other connections send to it
		t.Fatal(err)
	}
	return srv, in
}

// A request that a responder swallows is sent again until another one answers, with one id.
func TestAskedAgain(t *testing.T) {
	var ids sync.Map
	srv, in := served(t, time.Now, func(ctx context.Context) (any, *envelope.Error) {
		ids.Store(call.CredentialFromContext(ctx).Request, true)
		return struct{}{}, nil
	})
	deaf, swallowed := srv.Connect(t), atomic.Int64{}
	_, err := deaf.QueueSubscribe(subjects.ServiceWildcard("why"), "q", func(m *nats.Msg) {
		ids.Store(m.Header.Get(subjects.HeaderRequest), true)
		swallowed.Add(1)
	})
	if err = errors.Join(err, deaf.Flush()); err != nil {
		t.Fatal(err)
	}
	for asked := 1; swallowed.Load() < 3; asked++ {
		if refusal, err := in.Ask(t.Context(), "why", struct{}{}, &struct{}{}); err != nil || refusal != nil {
			t.Fatal(refusal, err)
		}
		n := 0
		ids.Range(func(id, _ any) bool { n++; return id != "" })
		if n != asked {
			t.Fatalf("%d ids of %d requests", n, asked)
		}
	}
}

// A request whose sender has given it up is not handled. Bus time is what the service says it is.
func TestAskedTooLate(t *testing.T) {
	var handled, ahead atomic.Int64
	var due atomic.Pointer[time.Time]
	_, in := served(t, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
		func(ctx context.Context) (any, *envelope.Error) {
			handled.Add(1)
			deadline, _ := ctx.Deadline()
			due.Store(&deadline)
			return struct{}{}, nil
		})
	ahead.Store(int64(time.Hour))
	ask := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := in.Ask(ctx, "why", struct{}{}, &struct{}{})
		return err
	}
	for range 2 { // the first answer tells the time
		if err := ask(5 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if left := time.Until(*due.Load()); left > 6*time.Second { // the most is 10 s
		t.Errorf("the handler has %s of 5s", left)
	}
}

// A request whose deadline has passed is refused, and not handled.
func TestRefusedTooLate(t *testing.T) {
	var handled atomic.Int64
	srv, in := served(t, time.Now, func(context.Context) (any, *envelope.Error) {
		handled.Add(1)
		return struct{}{}, nil
	})
	answers := make(chan *nats.Msg, 1)
	reply := in.Open(func(m *nats.Msg) { answers <- m })
	defer in.Drop(reply)
	msg := nats.NewMsg(subjects.Service("why", in.Tenant, in.Actor))
	msg.Reply, msg.Data = reply, []byte("{}")
	msg.Header.Set(subjects.HeaderRequest, "r")
	msg.Header.Set(subjects.HeaderAnswer, strings.TrimPrefix(reply, subjects.Answers(in.Tenant, in.Actor)))
	msg.Header.Set(subjects.HeaderUntil, strconv.FormatInt(time.Now().Add(-time.Second).UnixMilli(), 10))
	if err := srv.Connect(t).PublishMsg(msg); err != nil {
		t.Fatal(err)
	}
	select {
	case answer := <-answers:
		if kind := answer.Header.Get(subjects.HeaderKind); kind != envelope.KindRefusal || handled.Load() > 0 {
			t.Errorf("answered with a %s, handled %d times", kind, handled.Load())
		}
	case <-time.After(5 * time.Second):
		t.Error("not answered")
	}
}

// A client whose estimate of bus time becomes wrong, because somebody sets the clock of the server, has its answer at
// once, and its deadlines are right again.
func TestAskedAfterAStepOfBusTime(t *testing.T) {
	for _, by := range []time.Duration{15 * time.Second, time.Hour, -15 * time.Second, -time.Hour} {
		var ahead atomic.Int64
		var left atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
		_, in := served(t, now, func(ctx context.Context) (any, *envelope.Error) {
			deadline, _ := ctx.Deadline()
			left.Store(int64(time.Until(deadline)))
			return struct{}{}, nil
		})
		for n := range 4 { // the first answer tells the time, and one after the step that it is another one
			if n == 2 {
				ahead.Store(int64(by))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			refusal, err := in.Ask(ctx, "why", struct{}{}, &struct{}{})
			cancel()
			if refusal != nil || err != nil {
				t.Fatalf("%s, request %d: %v, %v", by, n, refusal, err)
			}
		}
		if has := time.Duration(left.Load()); has > 6*time.Second || has < 4*time.Second {
			t.Errorf("%s: the handler has %s of 5s", by, has)
		}
	}
}

// Copies of a request that is being handled are dropped, and the same id of another sender is not one.
func TestCopiesOfOneQuestion(t *testing.T) {
	var handled atomic.Int64
	began, end := make(chan struct{}, 10), make(chan struct{})
	srv, in := served(t, time.Now, func(context.Context) (any, *envelope.Error) {
		handled.Add(1)
		began <- struct{}{}
		<-end
		return struct{}{}, nil
	})
	done := make(chan error, 1)
	go func() {
		_, err := in.Ask(t.Context(), "why", struct{}{}, &struct{}{})
		done <- err
	}()
	<-began
	copies := make(chan struct{}, 10)
	sub, err := srv.Connect(t).Subscribe(subjects.ServiceWildcard("why"), func(*nats.Msg) { copies <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }() // the server ends with the test
	for range 3 {
		<-copies
	}
	if n := handled.Load(); n != 1 { // the copies before the last one have been taken
		t.Errorf("handled %d times", n)
	}
	close(end)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
