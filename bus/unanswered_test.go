package bus_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// A reader whose consumer is gone, at a server that does not answer the request for another one, ends soon after its
// context. nats.go repeats the request for ever.
func TestReaderEndsWithoutAnswer(t *testing.T) {
	srv := natstest.Start(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "u", Password: "u"}, {Username: "reader", Password: "u",
			Permissions: &server.Permissions{Publish: &server.SubjectPermission{
				Allow: []string{">"}, Deny: []string{"$JS.API.CONSUMER.CREATE.S.follows_2.>"},
			}}}}
	})
	denied := make(chan struct{}, 1)
	reader, err := jetstream.New(srv.Connect(t, nats.UserInfo("reader", "u"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if strings.Contains(err.Error(), "follows_2") {
				select {
				case denied <- struct{}{}:
				default:
				}
			}
		})))
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(srv.Connect(t, nats.UserInfo("u", "u")))
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	if err == nil {
		_, err = js.Publish(t.Context(), "s", nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg := bus.StartAfter(0)
	cfg.NamePrefix, cfg.FilterSubjects = "follows", []string{"s"}
	ended := make(chan error, 1)
	go func() {
		for _, err := range bus.Messages(ctx, reader, "S", cfg, 0) {
			if err == nil {
				err = s.DeleteConsumer(ctx, "follows_1")
			}
			if err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	select {
	case <-denied:
		cancel()
	case err := <-ended:
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("it does not end")
	}
}
