package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// quick is the time in which a fault of a stream must be named.
const quick = 5 * time.Second

// Whatever message of a stream is damaged, a reader gets all others, and soon an error that says so. After a damaged
// first message, the server delivers nothing through a filter.
func TestDamagedMessage(t *testing.T) {
	for _, damaged := range []int{0, 1, 3} {
		srv := natstest.Start(t)
		js := srv.JetStream(t)
		if err := Ensure(t.Context(), js, TopologyOptions{}); err != nil {
			t.Fatal(err)
		}
		for n := range 4 {
			_, err := js.Publish(t.Context(), subjects.JournalSubject("p", "t"), fmt.Append(nil, "segment ", n))
			if err != nil {
				t.Fatal(err)
			}
		}
		srv.Stop()
		srv.Damage(subjects.AuditStream, fmt.Sprint("segment ", damaged), 3)
		srv.Restart()
		for name, cfg := range map[string]jetstream.OrderedConsumerConfig{
			"all": {}, "tenant": {FilterSubjects: subjects.AuditOfTenant("t")},
		} {
			read, err := drain(t, js, cfg)
			if read != 3 && damaged > 0 || !errors.Is(err, errDamaged) ||
				!strings.Contains(err.Error(), subjects.AuditStream) {
				t.Errorf("message %d is damaged, %s: %d were read, %v", damaged, name, read, err)
			}
		}
	}
}

// drain reads a stream, and returns the number of its messages and the error that comes within quick.
func drain(t *testing.T, js jetstream.JetStream, cfg jetstream.OrderedConsumerConfig) (read int, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), quick)
	defer cancel()
	for _, err := range Messages(ctx, js, subjects.AuditStream, cfg, ReadTimeout) {
		if err != nil {
			return read, err
		}
		read++
	}
	return read, nil
}

// A stream whose server is away is named within 5 s, with the remedy.
func TestStreamIsOffline(t *testing.T) {
	servers := natstest.StartCluster(t, 3)
	nc := servers[0].Connect(t, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	js, err := jetstream.New(nc)
	if err == nil {
		err = Ensure(t.Context(), js, TopologyOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	audit, err := js.Stream(t.Context(), subjects.AuditStream)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range servers {
		if s.Name() == audit.CachedInfo().Cluster.Leader {
			s.Stop()
		}
	}
	for {
		began := time.Now()
		_, err := drain(t, js, jetstream.OrderedConsumerConfig{})
		if HasErrorCode(err, codeOffline) {
			if time.Since(began) > quick || !strings.Contains(err.Error(), "start the missing servers") ||
				!strings.Contains(err.Error(), subjects.AuditStream) {
				t.Errorf("after %s: %v", time.Since(began), err)
			}
			return
		}
		if t.Context().Err() != nil || err == nil {
			t.Fatal(err)
		}
	}
}

// A stream that acknowledges writes before they are stored is refused by name, with the remedy.
func TestAsyncStream(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	for _, c := range Streams(TopologyOptions{Partitions: 1}) {
		if c.AllowAtomicPublish { // the server refuses both together
			continue
		}
		if c.PersistMode = jetstream.AsyncPersistMode; c.Name == subjects.ControlStream {
			if _, err := js.CreateStream(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	err := Ensure(t.Context(), js, TopologyOptions{})
	if err == nil || !strings.Contains(err.Error(), "KV_control: persist_mode is Async, must be Default") ||
		!strings.Contains(err.Error(), "restore it with persist_mode default") {
		t.Error(err)
	}
}
