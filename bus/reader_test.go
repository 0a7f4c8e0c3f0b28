package bus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// soon is the time for what must not wait for a time limit of nats.go, which are 10 s and more.
const soon = 8 * time.Second

// readerServer is a server with the stream S, whose user "reader" may not publish to some subjects.
func readerServer(t *testing.T, denied ...string) (*natstest.Server, jetstream.Stream) {
	t.Helper()
	srv := natstest.Start(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "all", Password: "all"}, {Username: "reader", Password: "reader",
			Permissions: &server.Permissions{
				Publish: &server.SubjectPermission{Allow: []string{">"}, Deny: denied},
			}}}
	})
	s, err := userOf(t, srv, "all").CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	if err != nil {
		t.Fatal(err)
	}
	return srv, s
}

func userOf(t *testing.T, srv *natstest.Server, user string, options ...nats.Option) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(srv.Connect(t, append(options, nats.UserInfo(user, user))...))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// stored stores messages in S.
func stored(t *testing.T, srv *natstest.Server, texts ...string) {
	t.Helper()
	js := userOf(t, srv, "all")
	for n, text := range texts {
		if _, err := js.Publish(t.Context(), fmt.Sprint("s.", n%2), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
}

// outdated makes its first consumer of S at the stream OLD, as a server does that is behind the leader of S.
type outdated struct {
	jetstream.JetStream
	made int
}

func (o *outdated) CreateOrUpdateConsumer(ctx context.Context, stream string, c jetstream.ConsumerConfig) (
	jetstream.Consumer, error,
) {
	if o.made++; o.made == 1 {
		stream = "OLD"
	}
	return o.JetStream.CreateOrUpdateConsumer(ctx, stream, c)
}

// The server of the consumer is behind the leader of the stream. A read goes up to the end that the leader has, also
// where nothing has come yet, and no further.
func TestServerBehind(t *testing.T) {
	js := natstest.StartCluster(t, 3)[0].JetStream(t)
	for name, replicas := range map[string]int{"S": 3, "OLD": 1} {
		c := jetstream.StreamConfig{Name: name, Subjects: []string{name + ".>"}, Replicas: replicas}
		if _, err := js.CreateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	store := func(stream string, n int) {
		for range n {
			if _, err := js.Publish(t.Context(), stream+".x", nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	store("S", 4)
	for behind := range 2 {
		store("OLD", behind)
		want := uint64(1)
		for m, err := range bus.Messages(t.Context(), &outdated{JetStream: js}, "S", bus.StartAfter(0), soon) {
			if err != nil || m.Seq != want {
				t.Fatalf("the server has %d: message %d, %v; want %d", behind, m.Seq, err, want)
			}
			want++
			store("S", 1)
		}
		if want < 5 {
			t.Errorf("the server has %d: the read ended before message %d", behind, want)
		}
	}
}

// The first request for messages of a consumer is lost on its way. The reader and the follower get all messages soon,
// once and in order, and not after the 30 s in which nats.go repeats such a request. No consumer of the reader is left.
func TestLostRequestForMessages(t *testing.T) {
	srv, s := readerServer(t, "$JS.API.CONSUMER.MSG.NEXT.S.reads_1", "$JS.API.CONSUMER.MSG.NEXT.S.follows_1")
	stored(t, srv, "1", "2", "3", "4", "5", "6")
	for name, quiet := range map[string]time.Duration{"reads": bus.ReadTimeout, "follows": 0} {
		cfg := bus.StartAfter(2)
		cfg.NamePrefix, cfg.FilterSubjects = name, []string{"s.0"}
		began, want := time.Now(), uint64(3)
		for m, err := range bus.Messages(t.Context(), userOf(t, srv, "reader"), "S", cfg, quiet) {
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
		t.Errorf("%s is left", info.Name)
	}
}

// A reader whose consumer is gone, at a server that does not answer the request for another one, ends at once with its
// context.
func TestReaderEndsWithoutAnswer(t *testing.T) {
	srv, s := readerServer(t, "$JS.API.CONSUMER.CREATE.S.follows_2.>")
	stored(t, srv, "1")
	denied := make(chan struct{}, 1)
	reader := userOf(t, srv, "reader", nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		if strings.Contains(err.Error(), "follows_2") {
			denied <- struct{}{}
		}
	}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cfg := bus.StartAfter(0)
	cfg.NamePrefix, cfg.FilterSubjects = "follows", []string{"s.0"}
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
	case <-time.After(soon):
		t.Error("it does not end")
	}
}

// A message is lost on its way to a follower, alone or with its connection. The follower gets it soon, once and in
// order: where it is alone, as soon as the next one shows that it is missing.
func TestMessageLostOnItsWay(t *testing.T) {
	for name, cut := range map[string]bool{"alone": false, "with its connection": true} {
		t.Run(name, func(t *testing.T) {
			srv, _ := readerServer(t)
			line := &lossy{text: []byte("is lost"), cut: cut, lost: make(chan struct{})}
			reader := userOf(t, srv, "reader", nats.ReconnectWait(time.Millisecond), nats.SetCustomDialer(line))
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			stored(t, srv, "first")
			want := []string{"first", "is lost", "next"}
			for m, err := range bus.Messages(ctx, reader, "S", jetstream.OrderedConsumerConfig{}, 0) {
				if err != nil || string(m.Data()) != want[0] {
					t.Fatalf("%v, want %q", err, want[0])
				}
				if want = want[1:]; len(want) == 0 {
					return
				}
				switch string(m.Data()) {
				case "first":
					stored(t, srv, "is lost")
					<-line.lost
					if !cut {
						stored(t, srv, "next")
					}
				case "is lost":
					if cut {
						stored(t, srv, "next")
					}
				}
			}
			t.Errorf("%q did not come", want)
		})
	}
}

// lossy dials connections that lose what comes with a text, once.
type lossy struct {
	text []byte
	cut  bool // and break
	once sync.Once
	lost chan struct{}
}

// Dial implements [nats.CustomDialer].
func (l *lossy) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	return &lossyConn{c, l}, err
}

type lossyConn struct {
	net.Conn
	*lossy
}

// Read implements [net.Conn].
func (c *lossyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err == nil && bytes.Contains(b[:n], c.text) {
		c.once.Do(func() {
			if n = 0; c.cut {
				err = c.Close()
			}
			close(c.lost)
		})
	}
	return n, err
}
