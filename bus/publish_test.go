package bus_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ackTime is longer than any answer takes.
const ackTime = time.Minute

// setupAcks returns a server with a stream of three messages on s.>, and a connection with an inbox.
func setupAcks(t testing.TB) (*natstest.Server, *bus.SharedJetStream) {
	t.Helper()
	srv := natstest.Start(t)
	js := bus.Shared(srv.JetStream(t))
	t.Cleanup(js.Close)
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "S", Subjects: []string{"s.>"}, MaxMsgSize: 1 << 10, MaxMsgs: 3, MaxMsgsPerSubject: 2,
		Discard: jetstream.DiscardNew,
	})
	if err != nil {
		t.Fatal(err)
	}
	return srv, js
}

func ackMessage(subject string, header ...string) *nats.Msg {
	msg := nats.NewMsg(subject)
	for i := 0; i < len(header); i += 2 {
		msg.Header.Set(header[i], header[i+1])
	}
	return msg
}

// unansweredSubject returns a subject that somebody hears and nobody answers, and a channel of what was heard.
func unansweredSubject(t *testing.T, srv *natstest.Server) (subject string, heard chan *nats.Msg) {
	t.Helper()
	heard = make(chan *nats.Msg, 100)
	nc := srv.Connect(t)
	if _, err := nc.ChanSubscribe("nobody", heard); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return "nobody", heard
}

// Whatever the server says, it is said as the library says it.
func TestAnswers(t *testing.T) {
	_, js := setupAcks(t)
	plain := js.JetStream
	if got, err := bus.Publish(t.Context(), js, ackMessage("s.1", jetstream.MsgIDHeader, "a"), ackTime); err != nil ||
		got != (bus.PubAck{Sequence: 1}) {
		t.Fatalf("%+v, %v", got, err)
	}
	for name, msg := range map[string]*nats.Msg{
		"a duplicate":          ackMessage("s.1", jetstream.MsgIDHeader, "a"),
		"a failed expectation": ackMessage("s.1", jetstream.ExpectedLastSubjSeqHeader, "7"),
		"another stream":       ackMessage("s.1", jetstream.ExpectedStreamHeader, "other"),
		"too large a message":  {Subject: "s.1", Data: make([]byte, 2<<10)},
		"no such stream":       ackMessage("elsewhere"),
		"more than a payload":  {Subject: "s.1", Data: make([]byte, 2<<20)},
		"a bad subject":        ackMessage("s..1"),
		"a subject with space": ackMessage("s 1"),
		"a TTL that is none":   ackMessage("s.1", jetstream.MsgTTLHeader, "long"),
	} {
		t.Run(name, func(t *testing.T) {
			want, wanted := bus.Publish(t.Context(), plain, msg, ackTime)
			got, err := bus.Publish(t.Context(), js, msg, ackTime)
			if got != want || fmt.Sprint(err) != fmt.Sprint(wanted) || bus.ErrorCode(err) != bus.ErrorCode(wanted) {
				t.Errorf("%+v, %v; the library: %+v, %v", got, err, want, wanted)
			}
			for _, is := range []error{nats.ErrMaxPayload, jetstream.ErrNoStreamResponse, nats.ErrBadSubject} {
				if errors.Is(err, is) != errors.Is(wanted, is) {
					t.Errorf("%v is not as the library says: %v", err, wanted)
				}
			}
		})
	}
}

func TestFull(t *testing.T) {
	_, js := setupAcks(t)
	for n := range 3 {
		if _, err := bus.Publish(t.Context(), js, ackMessage(fmt.Sprint("s.", n)), ackTime); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := bus.Publish(t.Context(), js, ackMessage("s.3"), ackTime); !bus.IsStorageFull(err) {
		t.Errorf("got %v", err)
	}
}

// An answer that does not come is waited for as long as was said, and what comes late is not taken for that to
// another message.
func TestNoAnswer(t *testing.T) {
	srv, js := setupAcks(t)
	subject, heard := unansweredSubject(t, srv)
	for _, answer := range []time.Duration{50 * time.Millisecond, 20 * time.Millisecond, 0} {
		start := time.Now()
		_, err := bus.Publish(t.Context(), js, ackMessage(subject), answer)
		if took := time.Since(start); err != context.DeadlineExceeded || took < answer {
			t.Errorf("%v after %s of %s", err, took, answer)
		}
		if err := (<-heard).Respond([]byte(`{"stream":"S","seq":99}`)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := bus.Publish(t.Context(), js, ackMessage("s.1"), ackTime); err != nil || got.Sequence != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// Each wait ends at its own time, whatever else is waited for.
func TestShortAmongLong(t *testing.T) {
	srv, js := setupAcks(t)
	subject, heard := unansweredSubject(t, srv)
	var long sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range 3 {
		long.Go(func() {
			if _, err := bus.Publish(ctx, js, ackMessage(subject), time.Hour); err != context.Canceled {
				t.Errorf("got %v", err)
			}
		})
		<-heard
	}
	for range 3 {
		if _, err := bus.Publish(ctx, js, ackMessage(subject), time.Millisecond); err != context.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
	}
	cancel()
	long.Wait()
}

func TestContext(t *testing.T) {
	srv, js := setupAcks(t)
	subject, heard := unansweredSubject(t, srv)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := bus.Publish(ctx, js, ackMessage(subject), time.Hour)
		ended <- err
	}()
	<-heard
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Errorf("got %v", err)
	}
	if _, err := bus.Publish(ctx, js, ackMessage(subject), time.Hour); err != context.Canceled || len(heard) > 0 {
		t.Errorf("a context that had ended: %v", err)
	}
}

// The end of the inbox, or of the connection, ends all waits, and there are none after it.
func TestEnd(t *testing.T) {
	for name, end := range map[string]func(*bus.SharedJetStream){
		"inbox":      (*bus.SharedJetStream).Close,
		"connection": func(js *bus.SharedJetStream) { js.Conn().Close() },
		"drain": func(js *bus.SharedJetStream) {
			if err := js.Conn().Drain(); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			srv, js := setupAcks(t)
			subject, heard := unansweredSubject(t, srv)
			var waits sync.WaitGroup
			for range 50 {
				waits.Go(func() {
					_, err := bus.Publish(t.Context(), js, ackMessage(subject), time.Hour)
					if !errors.Is(err, nats.ErrConnectionClosed) {
						t.Errorf("got %v", err)
					}
				})
				<-heard
			}
			end(js)
			waits.Wait()
			_, err := bus.Publish(t.Context(), js, ackMessage(subject), time.Hour)
			if !errors.Is(err, nats.ErrConnectionClosed) {
				t.Errorf("after it: %v", err)
			}
			js.Close()
			js.Close()
		})
	}
}

func TestClosedBeforeItWasOpened(t *testing.T) {
	_, js := setupAcks(t)
	other := bus.Shared(js.JetStream)
	other.Close()
	if _, err := bus.Publish(t.Context(), other, ackMessage("s.1"), ackTime); err != nats.ErrConnectionClosed {
		t.Errorf("got %v", err)
	}
	js.Conn().Close()
	if _, err := bus.Publish(t.Context(), js, ackMessage("s.1"), ackTime); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("the connection was closed: %v", err)
	}
}

// What is being published while the server goes away ends in time, and the inbox hears again once it is back.
func TestRestart(t *testing.T) {
	srv, js := setupAcks(t)
	subject, heard := unansweredSubject(t, srv)
	if _, err := bus.Publish(t.Context(), js, ackMessage("s.1"), ackTime); err != nil {
		t.Fatal(err)
	}
	var waits sync.WaitGroup
	for range 20 {
		waits.Go(func() {
			if _, err := bus.Publish(t.Context(), js, ackMessage(subject), 300*time.Millisecond); err == nil {
				t.Error("nobody has answered")
			}
		})
		<-heard
	}
	srv.Restart()
	waits.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), ackTime)
	defer cancel()
	for n := 2; ; n++ {
		_, err := bus.Publish(ctx, js, ackMessage("s.2", jetstream.MsgIDHeader, "again"), time.Second)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("after %d tries: %v", n, err)
		}
	}
}

// Many at once are told their own answers, and nothing of them is left.
func TestMany(t *testing.T) {
	srv := natstest.Start(t)
	js := bus.Shared(srv.JetStream(t))
	defer js.Close()
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"},
		Storage: jetstream.MemoryStorage})
	if err != nil {
		t.Fatal(err)
	}
	const many = 10_000
	var at [many + 1]atomic.Int32 // which message was said to be at a sequence, from 1
	var publishers sync.WaitGroup
	for n := range many {
		publishers.Go(func() {
			got, err := bus.Publish(t.Context(), js, ackMessage(fmt.Sprint("s.", n)), ackTime)
			if err != nil || got.Sequence > many || !at[got.Sequence].CompareAndSwap(0, int32(n+1)) {
				t.Errorf("message %d: %+v, %v", n, got, err)
			}
		})
	}
	publishers.Wait()
	stream, err := js.Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= many; seq += 997 {
		msg, err := stream.GetMsg(t.Context(), seq)
		if err != nil || msg.Subject != fmt.Sprint("s.", at[seq].Load()-1) {
			t.Errorf("at %d: %+v, %v", seq, msg, err)
		}
	}
}

func BenchmarkPublish(b *testing.B) {
	srv := natstest.Start(b)
	js := bus.Shared(srv.JetStream(b))
	b.Cleanup(js.Close)
	_, err := js.CreateStream(b.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"},
		Storage: jetstream.MemoryStorage, MaxMsgs: 1000})
	if err != nil {
		b.Fatal(err)
	}
	for name, over := range map[string]jetstream.JetStream{"library": js.JetStream, "inbox": js} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(64)
			b.RunParallel(func(pb *testing.PB) {
				msg := ackMessage("s.1", jetstream.ExpectedStreamHeader, "S")
				for pb.Next() {
					if _, err := bus.Publish(b.Context(), over, msg, ackTime); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
