package chaos

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/chaos/checker"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// An outage is the longest time without writes to one partition that overlaps the fault, with the callers whose
// deadline was in it.
func TestOutages(t *testing.T) {
	begun := time.Unix(1000, 0)
	at := func(ms int) time.Time { return begun.Add(time.Duration(ms) * time.Millisecond) }
	var h checker.History
	for part, times := range [][]int{{0, 900, 1000, 6000, 6100, 20_000}, {0, 990, 3000, 6060, 20_000}} {
		for _, ms := range times {
			in := call.Position{Partition: subjects.Partition(part)}
			h.Log = append(h.Log, call.Entry{State: call.State{Position: in}, Time: at(ms)})
		}
	}
	for _, a := range []struct {
		sent, done, due int
		final           bool
	}{
		{500, 999, 999, false}, {500, 999, 5000, true}, {2000, 3000, 5000, true},
		{500, 5999, 5999, false}, {2000, 5999, 5999, false}, {2000, 6000, 6000, false},
	} {
		r := &envelope.Response{Provenance: envelope.Provenance{Final: a.final}}
		answers := []*envelope.Response{r}
		h.Asks = append(h.Asks, checker.Ask{Sent: at(a.sent), Due: at(a.due), Done: at(a.done), Answers: answers})
	}
	got := outages(begun, []happening{{what: "a leader is killed", from: at(1001), to: at(6050)}}, h)
	want := []Outage{{AtMS: 1001, What: "a leader is killed", SilentMS: 5000, Due: 3, Local: 2}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A span extends from the first observation with leaders of all streams to the last consecutive one.
func TestWatchSpans(t *testing.T) {
	begun := time.Unix(1000, 0)
	at := func(s int) time.Time { return begun.Add(time.Duration(s) * time.Second) }
	w := &watch{streams: []string{"A", "B"}}
	before := false
	for i, leaders := range [][]string{{"A"}, {"A", "B"}, {"A", "B"}, {"B"}, {"A", "B"}} {
		seen := leading(leaders)
		w.note(seen, at(i), at(i), before)
		before = len(seen) == len(w.streams)
	}
	want := []checker.Span{{From: at(1), To: at(2)}, {From: at(4), To: at(4)}}
	if diff := cmp.Diff(want, w.spans()); diff != "" {
		t.Error(diff)
	}
	if w.leader("A") != "nats-1" || w.whole(at(5), 1) || !w.whole(at(4), 1) || w.whole(at(4), 3) {
		t.Errorf("the last look is not what it was: %+v", w.seen)
	}
}

func leading(streams []string) map[string]*jetstream.ClusterInfo {
	seen := map[string]*jetstream.ClusterInfo{}
	for _, s := range streams {
		seen[s] = &jetstream.ClusterInfo{Leader: "nats-1"}
	}
	return seen
}
