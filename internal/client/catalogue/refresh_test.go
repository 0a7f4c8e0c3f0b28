package catalogue

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
)

// An old description is replaced although the answer comes when its caller does not wait any more.
func TestRefreshedOverASlowNetwork(t *testing.T) {
	var asked sync.Map // the ids of requests
	gone := make(chan struct{}, 1)
	c, key := asking(t, func(ctx context.Context) *envelope.Error {
		if _, again := asked.LoadOrStore(call.CredentialFromContext(ctx).Request, true); !again {
			<-gone
		}
		return nil
	}), Key{Tool: "tool"}
	gone <- struct{}{}
	old, err := c.Find(t.Context(), key, MaxWait)
	if err != nil || old == nil {
		t.Fatal(old, err)
	}
	old.Fetched = old.Fetched.Add(-freshTime)
	for range 3 {
		if found, err := c.Find(t.Context(), key, MaxWait); err != nil || found != old {
			t.Errorf("found %+v, %v before the answer", found, err)
		}
	}
	question := c.asking.DoChan(key.String(), func() (any, error) {
		return nil, errors.New("the question ended with its callers")
	})
	close(gone)
	if answer := <-question; answer.Err != nil {
		t.Fatal(answer.Err)
	}
	if found, err := c.Find(t.Context(), key, MaxWait); err != nil || found == old {
		t.Errorf("found %+v, %v after the answer", found, err)
	}
}

// The deadline of a caller cuts its last question off. It is told what the dispatcher answered to the one before.
func TestLastQuestionIsCutOff(t *testing.T) {
	refusals := make(chan *envelope.Error, 1)
	refusals <- envelope.NewError(envelope.CodeUnavailable, "starting").WithRetryAfter(1700 * time.Millisecond)
	c := asking(t, func(ctx context.Context) *envelope.Error {
		select {
		case refusal := <-refusals:
			return refusal
		case <-ctx.Done():
			return envelope.NewError(envelope.CodeQueue, "too late")
		}
	})
	_, err := c.Await(t.Context(), Key{Tool: "tool"}, time.Now().Add(2*time.Second))
	if err == nil || !strings.Contains(err.Error(), "starting") {
		t.Errorf("the caller is told %v", err)
	}
}

// asking returns a catalogue that asks a service about a tool, which answers or refuses after refuse has returned.
func asking(t *testing.T, refuse func(context.Context) *envelope.Error) *Catalogue {
	t.Helper()
	srv := natstest.Start(t)
	nc := srv.Connect(t)
	svc, err := rpc.Serve(t.Context(), nc, slog.New(slog.DiscardHandler), "0.0.1", time.Now, []rpc.Endpoint{
		rpc.NewEndpoint(operation.Describe, func(ctx context.Context, _ call.Sender, _ envelope.DescribeRequest) (
			envelope.DescribeResponse, *envelope.Error) {
			refusal := refuse(ctx)
			return envelope.DescribeResponse{Tools: []envelope.ToolInfo{{ToolID: "tool"}}}, refusal
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = svc.Stop() }) // the connection ends next
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	in, err := rpc.NewInbox(srv.Connect(t), "t", "agent://a")
	if err != nil {
		t.Fatal(err)
	}
	return New(in, time.Now)
}
