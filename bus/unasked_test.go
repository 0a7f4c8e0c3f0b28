package bus_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// The first request for messages of a consumer is lost on its way. The reader and the follower get all messages soon,
// once and in order, and not after the 30 s in which nats.go repeats such a request. No consumer of the reader is left.
func TestLostRequestForMessages(t *testing.T) {
	srv := natstest.Start(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "u", Password: "u", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{
				Allow: []string{">"},
				Deny:  []string{"$JS.API.CONSUMER.MSG.NEXT.S.reads_1", "$JS.API.CONSUMER.MSG.NEXT.S.follows_1"},
			},
		}}}
	})
	js, err := jetstream.New(srv.Connect(t, nats.UserInfo("u", "u")))
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 6 {
		if _, err := js.Publish(t.Context(), fmt.Sprint("s.", n%2), nil); err != nil {
			t.Fatal(err)
		}
	}
	for name, quiet := range map[string]time.Duration{"reads": bus.ReadTimeout, "follows": 0} {
		cfg := bus.StartAfter(2)
		cfg.NamePrefix, cfg.FilterSubjects = name, []string{"s.0"}
		began, want := time.Now(), uint64(3)
		for m, err := range bus.Messages(t.Context(), js, "S", cfg, quiet) {
			if err != nil || m.Seq != want {
				t.Fatalf("%s: message %d, %v; want %d", name, m.Seq, err, want)
			}
			if want += 2; want > 5 && quiet == 0 {
				break
			}
		}
		if took := time.Since(began); want != 7 || took > 20*time.Second {
			t.Errorf("%s: up to %d after %s", name, want, took)
		}
	}
	for info := range s.ListConsumers(t.Context()).Info() {
		if info.Name == "reads_1" || info.Name == "reads-1_1" {
			t.Errorf("%s is left", info.Name)
		}
	}
}
