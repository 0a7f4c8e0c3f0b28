package app

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// The server is asked for each stream at most once in sizesEvery, and not waited for when it is away.
func TestStreamSizes(t *testing.T) {
	srv := natstest.Start(t)
	nc := srv.Connect(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	const partitions = 2
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	asked, err := nc.SubscribeSync("$JS.API.STREAM.INFO." + subjects.DeadStream)
	if err != nil {
		t.Fatal(err)
	}
	questions := func() int {
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		n, _, err := asked.Pending()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var s streamSizes
	names := map[string]int64{}
	for _, info := range s.of(t.Context(), js, partitions) {
		names[info.Config.Name] = info.Config.MaxBytes
	}
	if len(names) != len(bus.Streams(bus.TopologyOptions{Partitions: partitions})) || names[subjects.DeadStream] != 1<<30 {
		t.Errorf("%v", names)
	}
	if s.of(t.Context(), js, partitions); questions() != 1 {
		t.Errorf("the server was asked %d times at once", questions())
	}
	s.asked = s.asked.Add(-sizesEvery)
	if s.of(t.Context(), js, partitions); questions() != 2 {
		t.Errorf("the server was asked %d times in %s", questions(), sizesEvery)
	}
	srv.Stop()
	s.asked = time.Time{}
	began := time.Now()
	if got := s.of(context.WithoutCancel(t.Context()), js, partitions); len(got) > 0 || time.Since(began) > 3*sizesTime {
		t.Errorf("%d streams of a server that is away, after %s", len(got), time.Since(began))
	}
}
