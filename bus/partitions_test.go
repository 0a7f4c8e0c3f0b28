package bus_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

func partitions(t *testing.T, js jetstream.JetStream) int {
	t.Helper()
	n, err := bus.Partitions(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	for p := range subjects.Partition(n) {
		if _, err := js.Stream(t.Context(), p.Stream()); err != nil {
			t.Errorf("partition %d: %v", p, err)
		}
	}
	return n
}

// Whoever makes the log says how many partitions it has. Whoever says nothing later takes it as it is; whoever says
// otherwise is refused, and told so.
func TestPartitionsAreFixed(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	for _, n := range []int{3, 0, 3} {
		if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{Partitions: n, CallsBytes: 3 << 20}); err != nil {
			t.Fatal(err)
		}
		if got := partitions(t, js); got != 3 {
			t.Errorf("%d partitions", got)
		}
	}
	for _, n := range []int{1, 2, 4} {
		err := bus.Ensure(t.Context(), js, bus.TopologyOptions{Partitions: n})
		if err == nil || !strings.Contains(err.Error(), "has 3 partitions") {
			t.Errorf("asked for %d: %v", n, err)
		}
	}
	for _, n := range []int{-1, subjects.MaxPartitions + 1} {
		if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{Partitions: n}); err == nil {
			t.Errorf("%d partitions are taken", n)
		}
	}
	stream, err := js.Stream(t.Context(), subjects.Partition(2).Stream())
	if err != nil || stream.CachedInfo().Config.MaxBytes != 1<<20 {
		t.Errorf("the third partition has not a third of the bytes: %v", err)
	}
}

// Of those who make the log at the same time, one decides for all, whatever the others wanted.
func TestPartitionsAreMadeAtOnce(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = bus.Ensure(t.Context(), js, bus.TopologyOptions{Partitions: i % 3}) })
	}
	wg.Wait()
	have := partitions(t, js)
	for i, err := range errs {
		if want := i % 3; (err == nil) != (want == 0 || want == have) {
			t.Errorf("the log has %d partitions, and whoever wanted %d got %v", have, want, err)
		}
	}
}

// A process that was interrupted after the first stream leaves a log that the next one completes.
func TestPartitionsAreCompleted(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{Partitions: 3}); err != nil {
		t.Fatal(err)
	}
	for p := subjects.Partition(1); p < 3; p++ {
		if err := js.DeleteStream(t.Context(), p.Stream()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := kv.OpenLog(t.Context(), js, kv.LogOptions{}); err == nil {
		t.Error("a log without all its partitions is opened")
	}
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := partitions(t, js); n != 3 {
		t.Errorf("%d partitions", n)
	}
}

// A partition that has lost what it said, or is gone, does not make a log of one partition of it: every key
// of the others would look new.
func TestPartitionsAreNotForgotten(t *testing.T) {
	srv := natstest.Start(t)
	js := srv.JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), subjects.Partition(0).Stream())
	if err != nil {
		t.Fatal(err)
	}
	c := stream.CachedInfo().Config
	delete(c.Metadata, subjects.MetaPartitions)
	if _, err := js.UpdateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, 2} {
		if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{Partitions: n}); err == nil ||
			!strings.Contains(err.Error(), "KV_calls_1 is there") {
			t.Errorf("asked for %d: %v", n, err)
		}
	}
	said := false
	for _, check := range admin.Diagnose(t.Context(), srv.URL, toolbus.ClientOptions{}) {
		said = said || check.Name == "call log" && check.Status == admin.CheckFailed &&
			strings.Contains(check.Says, "KV_calls_1 is there")
	}
	if !said {
		t.Error("a diagnosis does not say so")
	}
	if err := js.DeleteStream(t.Context(), subjects.Partition(0).Stream()); err != nil {
		t.Fatal(err)
	}
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	if n := partitions(t, js); n != 2 {
		t.Errorf("%d partitions", n)
	}
}

// What the first stream says of partitions may be nonsense, if somebody else wrote it.
func TestPartitionsThatAreNone(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), subjects.Partition(0).Stream())
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "0", "-2", "9", "many", "1e3"} {
		c := stream.CachedInfo().Config
		c.Metadata[subjects.MetaPartitions] = bad
		if _, err := js.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err == nil ||
			!strings.Contains(err.Error(), "partitions") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
