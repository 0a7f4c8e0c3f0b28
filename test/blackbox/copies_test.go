package blackbox

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/call"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// deaf is a JetStream whose followers are told nothing: a dispatcher that uses it lags.
type deaf struct{ jetstream.JetStream }

func (d deaf) OrderedConsumer(ctx context.Context, stream string,
	c jetstream.OrderedConsumerConfig) (jetstream.Consumer, error) {
	consumer, err := d.JetStream.OrderedConsumer(ctx, stream, c)
	return deafConsumer{consumer}, err
}

type deafConsumer struct{ jetstream.Consumer }

func (c deafConsumer) Consume(_ jetstream.MessageHandler,
	o ...jetstream.PullConsumeOpt) (jetstream.ConsumeContext, error) {
	return c.Consumer.Consume(func(jetstream.Msg) {}, o...)
}

// copied is what became of the copies of one request.
type copied struct {
	taken    int // copies that were accepted or got the outcome
	refusals []*envelope.Response
	outcome  *envelope.Response
}

// copies sends so many copies of a request and returns all answers to them.
func copies(t *testing.T, nc *nats.Conn, n int, body []byte) (c copied) {
	t.Helper()
	subject := subjects.Call("default", "agent://local", "echo")
	inbox := replyTo(subject)
	answers, err := nc.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	header := nats.Header{subjects.HeaderContentType: {envelope.ContentJSON}}
	for range n {
		if err := nc.PublishMsg(&nats.Msg{Subject: subject, Reply: inbox, Data: body, Header: header}); err != nil {
			t.Fatal(err)
		}
	}
	for c.taken+len(c.refusals) < n || c.taken > 0 && c.outcome == nil {
		msg, err := answers.NextMsg(time.Minute)
		if err != nil {
			t.Fatalf("of %d copies %+v: %v", n, c, err)
		}
		c.hear(t, msg)
	}
	return c
}

func (c *copied) hear(t *testing.T, msg *nats.Msg) {
	t.Helper()
	if _, bad := envelope.DecodeAccepted(envelope.ContentJSON, msg.Data); bad == nil {
		c.taken++
		return
	}
	r, bad := envelope.DecodeResponse(envelope.ContentJSON, msg.Data)
	switch {
	case bad != nil:
		t.Fatalf("%s: %v", msg.Data, bad)
	case r.Provenance.Attempt == 0:
		c.refusals = append(c.refusals, r)
		return
	case r.Provenance.Replayed: // told to a copy that came after it
		c.taken++
	}
	c.outcome = r
}

// Copies of one request meet two dispatchers, of which one lags and turns away what the other takes in. What it
// says is not final, so that no two answers contradict each other, and a client that counts copies has the outcome.
func TestCopiesMeetALaggingDispatcher(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	d := deploy(t, map[string]spec{"echo": {class: call.SideEffectful, run: echo(&runs)}})
	d.dispatcher()
	d.run("dispatcher", func(ctx context.Context, c *app.Conn, ready func()) error {
		c.JS = deaf{c.JS}
		return app.RunDispatcher(ctx, c, app.DispatcherOptions{
			AllowAll: true, Tools: d.registry, Version: "0.0.1", AuditLag: time.Millisecond, Ready: ready,
		})
	})
	d.executor(16)
	nc := d.srv.Connect(t)
	mixed, turnedAway := 0, 0
	for n, end := 0, time.Now().Add(time.Minute); mixed < 10; n++ {
		if time.Now().After(end) {
			t.Fatalf("of %d requests %d had copies that were taken in and turned away, %d all turned away", n, mixed, turnedAway)
		}
		_, body := written(fmt.Sprintf("copies-0123456789-%d", n))
		c := copies(t, nc, 3, body)
		if c.taken > 0 && c.outcome.Status != envelope.Success {
			t.Errorf("%s %+v", c.outcome.Status, c.outcome.Error)
		}
		for _, r := range c.refusals {
			if r.Error.Code != envelope.CodeAuditLag || r.Provenance.Final || r.Provenance.AuditEventID == "" {
				t.Errorf("a copy was refused with %+v, final %t", r.Error, r.Provenance.Final)
			}
		}
		switch {
		case c.taken > 0 && len(c.refusals) > 0:
			mixed++
		case c.taken == 0:
			turnedAway++
		}
	}
	c := d.client()
	for range 10 { // whoever is turned away asks again by itself, and either dispatcher may answer each time
		r := mustCall(t, c, clientlib.Call{Tool: "echo", Key: uuid.NewString(),
			Retry: &envelope.RetryPolicy{MaxAttempts: 100, BaseMS: 10, CapMS: 20}})
		wantStatus(t, r, envelope.Success, "")
	}
}
