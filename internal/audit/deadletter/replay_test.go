package deadletter

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Reading a stream to its end fails within a bounded time if the server dies.
func TestReadFromAServerThatDies(t *testing.T) {
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	const all = 600
	body := []byte(`{"more":"` + strings.Repeat("x", 4<<10) + `"}`) // all are more than the server sends at once
	for range all {
		if _, err := js.PublishAsync(subjects.Dead("t", "echo"), body); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	read, failed := 0, ""
	for _, err := range bus.Messages(t.Context(), js, subjects.DeadStream, jetstream.OrderedConsumerConfig{},
		time.Second) {
		if err != nil {
			failed = err.Error()
			break
		}
		if read++; read == 1 {
			srv.Stop()
		}
	}
	if read == all || !strings.Contains(failed, "is the server still there") {
		t.Errorf("%d read, then %q", read, failed)
	}
	srv.Restart()
	read = 0
	for _, err := range bus.Messages(t.Context(), js, subjects.DeadStream, jetstream.OrderedConsumerConfig{},
		30*time.Second) {
		if err != nil {
			t.Fatal(err)
		}
		read++
	}
	if read != all {
		t.Errorf("read %d of %d", read, all)
	}
}

// If ctx ends before the end of the stream, reading returns an error.
func TestReadIsStopped(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		if err := Publish(t.Context(), js, Message{Attempt: n, Body: jsontext.Value("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	for _, quiet := range []time.Duration{bus.ReadTimeout, 0} {
		follow := quiet == 0
		ctx, stop := context.WithCancel(t.Context())
		read, failed := 0, 0
		for _, err := range bus.Messages(ctx, js, subjects.DeadStream, jetstream.OrderedConsumerConfig{}, quiet) {
			if err != nil {
				failed++
				continue
			}
			read++
			stop()
		}
		if stop(); read != 1 || failed == 0 != follow {
			t.Errorf("follow %t: %d read, %d errors", follow, read, failed)
		}
	}
}
