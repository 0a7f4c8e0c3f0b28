package streaming

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// many is how many chunks the long tests send.
// The runs with -short take an eighth of it: see .ci/race.
func many() int {
	if testing.Short() {
		return 100_000 / 8
	}
	return 100_000
}

// reading is a reader at work in a goroutine of its own.
type reading struct {
	r    *Reader
	done chan error
}

// read expects n chunks and then the end.
func read(ctx context.Context, r *Reader, n int) *reading {
	x := &reading{r: r, done: make(chan error, 1)}
	go func() {
		err := expect(ctx, r, 0, n)
		if err == nil {
			if _, err = r.Next(ctx); errors.Is(err, io.EOF) {
				err = nil
			}
		}
		x.done <- err
	}()
	return x
}

// finish tells the outcome and waits for the reader.
func (x *reading) finish(t *testing.T, chunks envelope.Chunks) {
	t.Helper()
	x.r.Finish(firstRun, &chunks)
	if err := <-x.done; err != nil {
		t.Fatal(err)
	}
}

// closeAll closes w and checks what it says of n sample chunks.
func closeAll(t *testing.T, w *Writer, n int) envelope.Chunks {
	t.Helper()
	got, err := w.Close(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*outcome(n), got); diff != "" {
		t.Fatal(diff)
	}
	return got
}

// write writes n sample chunks as that run, as fast as it can.
func (b *bench) write(t *testing.T, run Run, n int) {
	t.Helper()
	ctx := testContext(t)
	w := NewWriter(ctx, b.store, subjectOf(run), WriterOptions{})
	mustEmit(ctx, t, w, 0, n)
	closeAll(t, w, n)
}

func TestChunksSurviveServerRestarts(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name    string
		options []natstest.Option
	}{
		{"default", nil},
		{"sync always", []natstest.Option{natstest.SyncAlways()}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			b, ctx := newBench(t, row.options...), testContext(t)
			r := NewReader(b.source(), ReaderOptions{})
			b.live(t, r).SetReconnectHandler(func(*nats.Conn) { r.Resync() })
			x := read(ctx, r, many())
			w := NewWriter(ctx, b.store, subjectOf(firstRun), WriterOptions{Window: 16 << 10})
			for part := range 4 {
				mustEmit(ctx, t, w, part*many()/4, (part+1)*many()/4)
				if part < 3 {
					b.Restart() // the last frames of this part are on their way
				}
			}
			x.finish(t, closeAll(t, w, many()))
		})
	}
}

func TestChunksSurviveLossyLivePath(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), testContext(t)
	r := NewReader(b.source(), ReaderOptions{Buffer: 64 << 10})
	random, lost := rand.New(rand.NewPCG(1, 0)), 0
	nc := b.Connect(t)
	if _, err := nc.Subscribe(subjectOf(firstRun), func(m *nats.Msg) {
		if random.IntN(2) == 0 {
			lost++
			return
		}
		r.Offer(firstRun, m.Header, m.Data)
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	x := read(ctx, r, many())
	w := NewWriter(ctx, b.store, subjectOf(firstRun), WriterOptions{Window: 4 << 10})
	mustEmit(ctx, t, w, 0, many())
	x.finish(t, closeAll(t, w, many()))
	nc.Close()
	if lost < many()/1000 {
		t.Fatalf("only %d frames were lost", lost)
	}
}

// A reader stops in the middle; another goes on from its index, from the store alone and without
// a hint.
func TestChunksResumeByIndex(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), testContext(t)
	r := NewReader(b.source(), ReaderOptions{Buffer: 8 << 10})
	b.live(t, r)
	w := NewWriter(ctx, b.store, subjectOf(firstRun), WriterOptions{Window: 4 << 10})
	mustEmit(ctx, t, w, 0, 10)
	mustExpect(ctx, t, r, 0, 10)
	mustEmit(ctx, t, w, 10, many())
	chunks := closeAll(t, w, many())
	mustExpect(ctx, t, r, 10, many()/3)

	r = NewReader(b.source(), ReaderOptions{Run: firstRun, Index: int64(many() / 3)})
	r.Finish(firstRun, &chunks)
	mustExpect(ctx, t, r, many()/3, many())
	mustEnd(ctx, t, r, io.EOF)
}

// lossyLog drops answers after the server has acted on the request.
type lossyLog struct {
	*Store
	random  *rand.Rand
	dropped atomic.Int64
}

func (l *lossyLog) append(ctx context.Context, subject string, f Frame, by author, prev uint64) (uint64, error) {
	sequence, err := l.Store.append(ctx, subject, f, by, prev)
	if l.random.IntN(3) == 0 {
		l.dropped.Add(1)
		return 0, context.DeadlineExceeded
	}
	return sequence, err
}

func TestChunksSurviveLostAcks(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), testContext(t)
	log := &lossyLog{Store: b.store, random: rand.New(rand.NewPCG(2, 0))}
	w := newWriter(ctx, log, subjectOf(firstRun), WriterOptions{Window: 16 << 10})
	mustEmit(ctx, t, w, 0, many())
	chunks := closeAll(t, w, many())
	if log.dropped.Load() < int64(many()/5000) {
		t.Fatalf("only %d acks were lost", log.dropped.Load())
	}
	read(ctx, NewReader(b.source(), ReaderOptions{Run: firstRun}), many()).finish(t, chunks)
}

// A reader that does not read costs bounded memory, however much passes by. When it wakes up after
// the stream has dropped what it needs, it says so.
func TestChunksMemoryWithStalledReader(t *testing.T) {
	b, ctx := newBench(t), testContext(t)
	config := chunkStream()
	config.MaxBytes = 4 << 20 // the server runs in this process too
	if _, err := b.js.UpdateStream(ctx, config); err != nil {
		t.Fatal(err)
	}
	r := NewReader(b.source(), ReaderOptions{})
	b.live(t, r)
	w := NewWriter(ctx, b.store, subjectOf(firstRun), WriterOptions{MaxBytes: 1 << 30})
	line := []byte(`"` + strings.Repeat("x", 1<<10) + `"`)
	pass := func(n int) {
		for range n {
			if err := w.Emit(ctx, envelope.ChunkLog, line); err != nil {
				t.Fatal(err)
			}
		}
	}
	pass(10_000)
	before := heap()
	pass(many())
	if grown := heap() - before; grown > 24<<20 {
		t.Fatalf("the heap grew by %d bytes while %d passed", grown, w.Size())
	}
	chunks, err := w.Close(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r.Finish(firstRun, &chunks)
	for err == nil {
		_, err = r.Next(ctx)
	}
	if !errors.Is(err, ErrExpired) {
		t.Fatal(err)
	}
}

// Runs of one call, and many() calls, share the stream; each is found by index from anywhere.
func TestSourceFindsAnyIndex(t *testing.T) {
	t.Parallel()
	for _, direct := range []bool{true, false} {
		t.Run(fmt.Sprintf("direct get %v", direct), func(t *testing.T) {
			t.Parallel()
			b, ctx := newBench(t), testContext(t)
			config := chunkStream()
			config.AllowDirect = direct
			if _, err := b.js.UpdateStream(ctx, config); err != nil {
				t.Fatal(err)
			}
			const runs, n = 5, 200
			var writers sync.WaitGroup
			for fence := range runs {
				writers.Go(func() {
					run := Run{1, uint64(fence)}
					w := NewWriter(ctx, b.store, subjectOf(run), WriterOptions{Window: 200})
					if err := emit(ctx, w, 0, n); err != nil {
						t.Error(err)
					}
					if _, err := w.Close(ctx); err != nil {
						t.Error(err)
					}
				})
			}
			writers.Wait()
			random := rand.New(rand.NewPCG(3, 0))
			for range 300 {
				at := Position{Run: Run{1, random.Uint64N(runs)}, Index: random.Int64N(n), After: random.Uint64N(2000)}
				maxBytes := 1 + random.IntN(500)
				before := b.js.Conn().Stats().OutMsgs
				f, err := b.source().Fetch(ctx, at, maxBytes)
				if made := b.js.Conn().Stats().OutMsgs - before; direct && made > 30 {
					t.Fatalf("%d requests to find one of %d frames", made, runs*n)
				}
				if err != nil || f.first != at.Index || f.Len() < 1 || f.Len() > 1 && len(f.body) > maxBytes {
					t.Fatalf("%+v of %d bytes: %+v, %v", at, maxBytes, f, err)
				}
				if diff := cmp.Diff(frameOf(int(f.first), int(f.end)).body, f.body); diff != "" {
					t.Fatal(diff)
				}
				if f.end < n {
					at.Index, at.After = f.end, f.after
					if next, err := b.source().Fetch(ctx, at, 1); err != nil || next.first != at.Index {
						t.Fatalf("next %+v: %+v, %v", at, next, err)
					}
				}
			}
			for _, at := range []Position{{Run: Run{1, 0}, Index: n}, {Run: Run{1, 0}, Index: n, After: 1 << 40},
				{Run: Run{2, 0}}} {
				if f, err := b.source().Fetch(ctx, at, 1000); err != nil || f.Len() > 0 {
					t.Fatalf("%+v: %+v, %v", at, f, err)
				}
			}
		})
	}
}

// What the stream dropped is said to have expired; what comes after it can still be read.
func TestSourceExpired(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), testContext(t)
	w := NewWriter(ctx, b.store, subjectOf(firstRun), WriterOptions{Window: 1})
	mustEmit(ctx, t, w, 0, 20)
	closeAll(t, w, 20)
	stream, err := b.js.Stream(ctx, "CHUNKS")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSequence(6)); err != nil { // frames 0 to 4
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(ctx, 11); err != nil { // frame 10
		t.Fatal(err)
	}
	for index := range int64(20) {
		_, err := b.source().Fetch(ctx, Position{Run: firstRun, Index: index}, 1)
		if gone := index < 5 || index == 10; gone != errors.Is(err, ErrExpired) || !gone && err != nil {
			t.Errorf("chunk %d: %v", index, err)
		}
	}
	if f, err := b.source().Fetch(ctx, Position{Run: firstRun, Index: 5}, 1<<20); err != nil || f.end != 10 {
		t.Errorf("up to the gap: %+v, %v", f, err)
	}
	mustEnd(ctx, t, NewReader(b.source(), ReaderOptions{Run: firstRun}), ErrExpired)
}

// Reading on costs a constant number of requests for each chunk: in the middle of a frame, from
// frame to frame, and for gaps between live frames.
func TestSourceRemembersPosition(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), testContext(t)
	const n = 300
	requests := func(r *Reader) uint64 {
		before := b.js.Conn().Stats().OutMsgs
		mustExpect(ctx, t, r, 0, n)
		return b.js.Conn().Stats().OutMsgs - before
	}
	large, small := firstRun, Run{firstRun.Attempt + 1, firstRun.Fence}
	b.write(t, large, n)
	nc := b.Connect(t)
	live, err := nc.SubscribeSync(subjectOf(small))
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	w := NewWriter(ctx, b.store, subjectOf(small), WriterOptions{Window: 1})
	mustEmit(ctx, t, w, 0, n)
	closeAll(t, w, n)

	if made := requests(NewReader(b.source(), ReaderOptions{Run: large, FetchBytes: 1})); made > 2*n {
		t.Errorf("%d requests for chunks of large frames", made)
	}
	if made := requests(NewReader(b.source(), ReaderOptions{Run: small, FetchBytes: 1})); made > 2*n {
		t.Errorf("%d requests for small frames", made)
	}
	r := NewReader(b.source(), ReaderOptions{FetchBytes: 1})
	for i := range n {
		m, err := live.NextMsgWithContext(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 1 {
			r.Offer(small, m.Header, m.Data)
		}
	}
	if made := requests(r); made > 2*n {
		t.Errorf("%d requests for every other frame", made)
	}
}

// The tool is slower than the stream forgets: the next frame starts the subject again.
func TestWriterGoesOnAfterExpiry(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), testContext(t)
	r := NewReader(b.source(), ReaderOptions{})
	b.live(t, r)
	w := NewWriter(ctx, b.store, subjectOf(firstRun), WriterOptions{})
	mustEmit(ctx, t, w, 0, 1)
	mustExpect(ctx, t, r, 0, 1)
	mustEmit(ctx, t, w, 1, 2) // stored after chunk 0 is
	mustExpect(ctx, t, r, 1, 2)
	stream, err := b.js.Stream(ctx, "CHUNKS")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(ctx); err != nil {
		t.Fatal(err)
	}
	mustEmit(ctx, t, w, 2, 10)
	closeAll(t, w, 10)
	mustExpect(ctx, t, r, 2, 10)
}

func TestWritersOnOneSubjectConflict(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), testContext(t)
	b.write(t, firstRun, 5)
	w := NewWriter(ctx, b.store, subjectOf(firstRun), WriterOptions{})
	mustEmit(ctx, t, w, 0, 1)
	if _, err := w.Close(ctx); !errors.Is(err, ErrConflict) {
		t.Fatalf("got %v", err)
	}
	// A message that is no frame at all is foreign too.
	other := Run{1, 99}
	if _, err := b.js.Publish(ctx, subjectOf(other), []byte("hello")); err != nil {
		t.Fatal(err)
	}
	w = NewWriter(ctx, b.store, subjectOf(other), WriterOptions{})
	mustEmit(ctx, t, w, 0, 1)
	if _, err := w.Close(ctx); !errors.Is(err, ErrConflict) {
		t.Fatalf("got %v", err)
	}
	if _, err := b.source().Fetch(ctx, Position{Run: other}, 1000); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("got %v", err)
	}
}

// Answers that cannot change end the writer at once, with the reason.
func TestWriterDefiniteAnswers(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), testContext(t)
	if _, err := b.js.CreateStream(ctx, jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"other.>"}}); err != nil {
		t.Fatal(err)
	}
	closed := b.JetStream(t)
	closed.Conn().Close()
	small := chunkStream()
	small.Name, small.Subjects, small.MaxMsgSize = "SMALL", []string{"small.>"}, 150
	if _, err := b.js.CreateStream(ctx, small); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name    string
		store   *Store
		subject string
	}{
		{"subject of another stream", b.store, "other.x"},
		{"connection closed", NewStore(closed, "CHUNKS"), subjectOf(firstRun)},
		{"larger than the stream allows", NewStore(b.js, "SMALL"), "small.x"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := NewWriter(ctx, row.store, row.subject, WriterOptions{})
			if err := w.Emit(ctx, envelope.ChunkData, []byte(`"`+fmt.Sprintf("%200d", 1)+`"`)); err != nil {
				t.Fatal(err)
			}
			if got, err := w.Close(ctx); !errors.Is(err, errRefused) || got.Count != 0 {
				t.Fatalf("got %d, %v", got.Count, err)
			}
		})
	}
}

// The largest chunk that is taken fits into a message, and into the answers of a Source and of a
// dispatcher, in which it is larger.
func TestWriterLargestChunk(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), testContext(t)
	text := []byte(`"` + strings.Repeat("x", envelope.MaxChunk-2) + `"`)
	w := NewWriter(ctx, b.store, subjectOf(firstRun), WriterOptions{})
	if err := w.Emit(ctx, envelope.ChunkLog, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Emit(ctx, envelope.ChunkLog, append(text, ' ')); !errors.Is(err, ErrChunkSize) {
		t.Fatalf("got %v", err)
	}
	if _, err := w.Close(ctx); err != nil {
		t.Fatal(err)
	}
	f, err := b.source().Fetch(ctx, Position{Run: firstRun}, 1)
	if err != nil || len(f.body) != envelope.MaxChunk+overhead {
		t.Fatalf("%d bytes, %v", len(f.body), err)
	}
	if last, err := b.store.last(ctx, subjectOf(firstRun)); err != nil || last.frame.Len() != 1 {
		t.Fatalf("%+v, %v", last.frame, err)
	}
}

func TestSourceUnavailable(t *testing.T) {
	t.Parallel()
	b, ctx := newBench(t), testContext(t)
	b.write(t, firstRun, 5)
	if _, err := NewStoreSource(NewStore(b.js, "NONE"), subjectOf).Fetch(ctx, Position{Run: firstRun}, 1); !errors.Is(err,
		ErrUnavailable) {
		t.Fatalf("no such stream: %v", err)
	}
	b.Stop()
	short, cancel := context.WithTimeout(ctx, 1)
	defer cancel()
	if _, err := b.source().Fetch(short, Position{Run: firstRun}, 1); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("server down: %v", err)
	}
	b.Restart()
	mustExpect(ctx, t, NewReader(b.source(), ReaderOptions{Run: firstRun}), 0, 5)
}

func TestStorePrefix(t *testing.T) {
	t.Parallel()
	nc := natstest.Start(t).Connect(t)
	plain, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	domain, err := jetstream.NewWithDomain(nc, "hub")
	if err != nil {
		t.Fatal(err)
	}
	prefix, err := jetstream.NewWithAPIPrefix(nc, "from.other")
	if err != nil {
		t.Fatal(err)
	}
	for want, js := range map[string]jetstream.JetStream{"$JS.API.": plain, "$JS.hub.API.": domain,
		"from.other.": prefix} {
		if got := NewStore(js, "S").prefix; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
