package streaming

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// BenchmarkChunks measures small chunks from Emit to Next, through a real server.
func BenchmarkChunks(b *testing.B) {
	for _, row := range []struct {
		name    string
		options []natstest.Option
	}{
		{"file", nil},
		{"always", []natstest.Option{natstest.SyncAlways()}},
	} {
		b.Run(row.name, func(b *testing.B) {
			be := newBench(b, row.options...)
			ctx := b.Context()
			r := NewReader(be.source(), ReaderOptions{})
			be.live(b, r)
			w := NewWriter(ctx, be.store, subjectOf(firstRun), WriterOptions{MaxBytes: 1 << 40})
			b.ResetTimer()
			go func() {
				_ = emit(ctx, w, 0, b.N)
				_, _ = w.Close(ctx)
			}()
			if err := expect(ctx, r, 0, b.N); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "chunks/s")
		})
	}
}

// BenchmarkFirstChunk measures how long one chunk takes from Emit to Next when nothing else is
// under way.
func BenchmarkFirstChunk(b *testing.B) {
	be := newBench(b)
	ctx := b.Context()
	r := NewReader(be.source(), ReaderOptions{})
	be.live(b, r)
	w := NewWriter(ctx, be.store, subjectOf(firstRun), WriterOptions{MaxBytes: 1 << 40})
	for i := range b.N {
		if err := emit(ctx, w, i, i+1); err != nil {
			b.Fatal(err)
		}
		if err := expect(ctx, r, i, i+1); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := w.Close(ctx); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkReplay measures reading by index what a slow tool wrote: one chunk to a frame.
func BenchmarkReplay(b *testing.B) {
	be := newBench(b)
	ctx := b.Context()
	for i := range b.N {
		body, _ := appendChunk(nil, "data", sample(i))
		f := Frame{first: int64(i), end: int64(i + 1), body: body}
		msg := &nats.Msg{Subject: subjectOf(firstRun), Header: f.Header(), Data: body}
		if _, err := be.store.publish(ctx, msg); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	r := NewReader(be.source(), ReaderOptions{Run: firstRun})
	if err := expect(ctx, r, 0, b.N); err != nil {
		b.Fatal(err)
	}
}
