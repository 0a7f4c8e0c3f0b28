package streaming

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds whatever a test waits for, on the slowest machine; reaching it is a failure.
const patience = 5 * time.Minute

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// bench is a server with a stream for chunks, and a connection to it.
type bench struct {
	*natstest.Server
	js    jetstream.JetStream
	store *Store
}

// chunkStream is how the topology makes the stream, as far as this package depends on it.
func chunkStream() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        "CHUNKS",
		Subjects:    []string{"tb.chunk.>"},
		MaxAge:      time.Hour,
		MaxBytes:    1 << 30,
		AllowDirect: true,
	}
}

func newBench(t testing.TB, options ...natstest.Option) *bench {
	t.Helper()
	srv := natstest.Start(t, options...)
	js := srv.JetStream(t)
	if _, err := js.CreateStream(testContext(t), chunkStream()); err != nil {
		t.Fatal(err)
	}
	return &bench{Server: srv, js: js, store: NewStore(js, "CHUNKS")}
}

var firstRun = Run{Attempt: 1, Fence: 7}

func subjectOf(run Run) string { return fmt.Sprintf("tb.chunk.t.a.id.%d.%d", run.Attempt, run.Fence) }

// source reads what writers of this bench wrote.
func (b *bench) source() StoreSource { return NewStoreSource(b.store, subjectOf) }

// live subscribes r to the frames of firstRun on a connection of its own, like a client.
func (b *bench) live(t testing.TB, r *Reader) *nats.Conn {
	t.Helper()
	nc := b.Connect(t)
	_, err := nc.Subscribe(subjectOf(firstRun), func(m *nats.Msg) { r.Offer(firstRun, m.Header, m.Data) })
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return nc
}

// sample is the data of chunk i of firstRun.
func sample(i int) jsontext.Value { return sampleOf(firstRun.Fence, i) }

// sampleOf is the data of chunk i of the run with that fence.
func sampleOf(fence uint64, i int) jsontext.Value {
	return fmt.Appendf(nil, `{"line":%d,"text":"output of %d"}`, i, fence)
}

// emit writes the chunks [from, to).
func emit(ctx context.Context, w *Writer, from, to int) error {
	for i := from; i < to; i++ {
		if err := w.Emit(ctx, envelope.ChunkData, sample(i)); err != nil {
			return fmt.Errorf("chunk %d: %w", i, err)
		}
	}
	return nil
}

// expect reads the chunks [from, to) of one run and fails unless they come exactly so.
func expect(ctx context.Context, r *Reader, from, to int) error {
	for i := from; i < to; i++ {
		c, err := r.Next(ctx)
		if err != nil {
			return fmt.Errorf("chunk %d: %w", i, err)
		}
		if c.Index != int64(i) || string(c.Data) != string(sampleOf(c.Fence, i)) {
			return fmt.Errorf("chunk %d: got %d %s", i, c.Index, c.Data)
		}
	}
	return nil
}
