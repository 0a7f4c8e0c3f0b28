package baseline

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Sizes of the state in events.
const (
	requestState = 300
	outcomeState = 400
)

func start(t *testing.T, srv *natstest.Server) *Floor {
	t.Helper()
	p, err := StartFloor(t.Context(), FloorOptions{
		Options: Options{
			Dial:    func(name string) (*nats.Conn, error) { return nats.Connect(srv.URL, nats.Name(name)) },
			Workers: 4, Tool: bytes.ToUpper,
		},
		RequestState: requestState, OutcomeState: outcomeState,
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Each call gets its own result and stores two events, which are recorded once and in order.
func TestCalls(t *testing.T) {
	srv := natstest.Start(t)
	p := start(t, srv)
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	const calls = 100
	var wg sync.WaitGroup
	for n := range calls {
		wg.Go(func() {
			out, err := p.Call(ctx, fmt.Sprint("id", n), fmt.Append(nil, "call ", n))
			if want := fmt.Sprint("CALL ", n); err != nil || string(out) != want {
				t.Errorf("%q, %v; want %q", out, err, want)
			}
		})
	}
	wg.Wait()
	if err := p.Settle(ctx); err != nil {
		t.Fatal(err)
	}
	events := stored(t, srv, logStream)
	if len(events) != 2*calls {
		t.Fatalf("%d events, want %d", len(events), 2*calls)
	}
	for _, e := range events {
		want := requestState
		if strings.HasSuffix(e.Subject, outcome) {
			want = outcomeState
		}
		if n := len(e.Header.Get(headerState)); n != want || e.Header.Get(jetstream.MsgTTLHeader) != "3600" ||
			e.Header.Get(jetstream.ExpectedLastSubjSeqSubjHeader) == "" {
			t.Errorf("%s with %d bytes of state, want %d: %v", e.Subject, n, want, e.Header)
		}
	}
	onRecord(t, events, stored(t, srv, recordStream))
}

// onRecord compares the record with the log.
func onRecord(t *testing.T, events, bundles []*jetstream.RawStreamMsg) {
	t.Helper()
	if len(bundles) == 0 || len(bundles) >= len(events) {
		t.Errorf("%d events in %d messages of the record", len(events), len(bundles))
	}
	var lines []string
	for _, b := range bundles {
		lines = append(lines, strings.SplitAfter(strings.TrimSuffix(string(b.Data), "\n"), "\n")...)
	}
	if len(lines) != len(events) {
		t.Fatalf("%d lines on record of %d events", len(lines), len(events))
	}
	for i, e := range events {
		if want := fmt.Sprintf(`{"log_seq":%d,"event":"%s","state":"`, e.Sequence, e.Subject); !strings.HasPrefix(lines[i],
			want) {
			t.Errorf("line %d is %.200s, want %s", i, lines[i], want)
		}
	}
}

func stored(t *testing.T, srv *natstest.Server, name string) (all []*jetstream.RawStreamMsg) {
	t.Helper()
	s, err := srv.JetStream(t).Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= s.CachedInfo().State.LastSeq; seq++ {
		msg, err := s.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, msg)
	}
	return all
}

// Events are written by compare-and-set: the log of an id is opened once and decided once.
func TestCompareAndSet(t *testing.T) {
	srv := natstest.Start(t)
	p := start(t, srv)
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := p.Call(ctx, "id", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Call(ctx, "id", []byte("x")); err == nil || !strings.Contains(err.Error(), "wrong last sequence") {
		t.Errorf("a second call of the same id: %v", err)
	}
	again := event{id: "id", key: outcome, nonce: ".other", after: 1}
	if err := p.write(ctx, p.decide, again); err == nil || !strings.Contains(err.Error(), "wrong last sequence") {
		t.Errorf("a second outcome: %v", err)
	}
	if n := len(stored(t, srv, logStream)); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}

// The server does the same work for an event as for one of Toolbus: streams have the same settings and subjects the
// same form.
func TestLikeToolbus(t *testing.T) {
	t.Parallel()
	events, records := topology(1 << 30)
	for _, c := range bus.Streams(bus.TopologyOptions{Partitions: 1, CallsBytes: 1 << 30}) {
		own, ok := map[string]jetstream.StreamConfig{subjects.Partition(0).Stream(): events,
			subjects.AuditStream: records}[c.Name]
		if !ok {
			continue
		}
		c.Name, c.Subjects, c.Description, c.Metadata = own.Name, own.Subjects, "", nil
		if !reflect.DeepEqual(own, c) {
			t.Errorf("%+v, want %+v", own, c)
		}
	}
	const id = "tvvkpo628dl23u4k9tut9d554b2032h7"
	key := subjects.Key{Tool: "bench.echo0", ID: id}
	for ours, theirs := range map[string]string{
		logPrefix + tool + id + request:  key.Request(1, "1.0.0", "normal", "default"),
		logPrefix + tool + id + outcome:  key.Outcome(1, "4f4c4d84-de50"),
		logPrefix + tool + id + wholeLog: key.Filter(),
	} {
		if _, rest, _ := strings.Cut(theirs, "calls."); ours != logPrefix+rest || len(ours) != len(theirs) {
			t.Errorf("%s, want %s", ours, theirs)
		}
	}
	if got := idOf(logPrefix + tool + id + request); got != id {
		t.Errorf("id %s", got)
	}
}

// A message of the record contains whole lines and does not exceed the size limit.
func TestFitting(t *testing.T) {
	t.Parallel()
	line := bytes.Repeat([]byte{'x'}, 99_999)
	lines := bytes.Repeat(append(line, '\n'), 12)
	for len(lines) > 0 {
		n := fitting(lines)
		if n == 0 || n > recordBytes || n%100_000 != 0 {
			t.Fatalf("%d of %d bytes", n, len(lines))
		}
		lines = lines[n:]
	}
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	_, err := StartFloor(t.Context(), FloorOptions{Options: Options{
		Dial: func(string) (*nats.Conn, error) { return nats.Connect("nats://127.0.0.1:1") },
	}})
	if err == nil {
		t.Error("runs without a server")
	}
}
