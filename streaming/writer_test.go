package streaming

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// fault is what a fakeLog does to one append.
type fault int

const (
	faultNone  fault = iota
	faultLost        // not stored, no answer
	faultNoAck       // stored, no answer
	faultLate        // stored some time after the writer has given up waiting
	faultBusy        // not stored, and the answer says to try again
	faults
)

var errBusy = errors.New("another write on this subject is in flight")

// fakeLog is one subject of a stream whose answers get lost.
type fakeLog struct {
	mu       sync.Mutex
	sequence uint64
	frames   []mark
	max      int
	appends  int
	onAppend func(Frame) fault
	onLast   func() error
}

func (l *fakeLog) maxFrame() int {
	if l.max > 0 {
		return l.max
	}
	return 1 << 20
}

func (l *fakeLog) append(ctx context.Context, _ string, f Frame, by author, prev uint64) (uint64, error) {
	l.mu.Lock()
	l.appends++
	f.body = bytes.Clone(f.body)
	todo := faultNone
	if l.onAppend != nil {
		todo = l.onAppend(f)
	}
	l.mu.Unlock()
	switch todo {
	case faultBusy:
		return 0, errBusy
	case faultLate:
		time.AfterFunc(90*time.Second, func() { _, _ = l.apply(f, by, prev) })
	case faultNone, faultNoAck:
		sequence, err := l.apply(f, by, prev)
		if todo == faultNone {
			return sequence, err
		}
	}
	<-ctx.Done()
	return 0, ctx.Err()
}

// apply is what the server does: compare and set.
func (l *fakeLog) apply(f Frame, by author, prev uint64) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tail().sequence != prev {
		return 0, errors.New("wrong last sequence")
	}
	l.sequence += 3 // other subjects are written to as well
	l.frames = append(l.frames, mark{sequence: l.sequence, nonce: by.nonce, frame: f})
	return l.sequence, nil
}

func (l *fakeLog) tail() mark {
	if len(l.frames) == 0 {
		return mark{}
	}
	return l.frames[len(l.frames)-1]
}

func (l *fakeLog) last(context.Context, string) (mark, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.onLast != nil {
		if err := l.onLast(); err != nil {
			return mark{}, err
		}
	}
	return l.tail(), nil
}

// check fails unless the log holds the sample chunks [from, to), each once and in order.
func (l *fakeLog) check(t *testing.T, from, to int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	next := int64(from)
	var body []byte
	for _, m := range l.frames {
		if m.frame.first != next {
			t.Fatalf("frame %s after %d", m.frame.indexes(), next)
		}
		if _, err := ParseFrame(m.frame.Header(), m.frame.body); err != nil {
			t.Fatal(err)
		}
		next = m.frame.end
		body = append(body, m.frame.body...)
	}
	if next != int64(to) || !bytes.Equal(body, frameOf(from, to).body) {
		t.Fatalf("%d chunks, or other ones", next)
	}
}

func mustEmit(ctx context.Context, t *testing.T, w *Writer, from, to int) {
	t.Helper()
	if err := emit(ctx, w, from, to); err != nil {
		t.Fatal(err)
	}
}

func mustClose(t *testing.T, w *Writer, n int) {
	t.Helper()
	got, err := w.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*outcome(n), got); diff != "" {
		t.Fatal(diff)
	}
}

// Whatever happens to requests and answers, each chunk is stored once and in order.
func TestWriterStoresExactlyOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 0))
				trouble := random.Float64() * 0.7
				log := &fakeLog{}
				log.onAppend = func(Frame) fault {
					if random.Float64() < trouble {
						return fault(random.IntN(int(faults)))
					}
					return faultNone
				}
				log.onLast = func() error {
					if random.Float64() < trouble {
						return ErrUnavailable
					}
					return nil
				}
				w := newWriter(t.Context(), log, "s", WriterOptions{Window: 1 + random.IntN(500)})
				n := 1 + random.IntN(300)
				mustEmit(t.Context(), t, w, 0, n)
				mustClose(t, w, n)
				<-time.After(time.Hour) // for the late ones
				log.check(t, 0, n)
			})
		})
	}
}

// The first chunk is sent at once; while it is on its way the others gather.
func TestWriterBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{onAppend: func(f Frame) fault {
			if f.first == 0 {
				return faultNoAck
			}
			return faultNone
		}}
		start := time.Now()
		w := newWriter(t.Context(), log, "s", WriterOptions{})
		mustEmit(t.Context(), t, w, 0, 1)
		synctest.Wait()
		log.check(t, 0, 1)
		mustEmit(t.Context(), t, w, 1, 100)
		if time.Since(start) != 0 {
			t.Fatal("Emit waited though there was room")
		}
		mustClose(t, w, 100)
		log.check(t, 0, 100)
		if len(log.frames) != 2 || log.appends != 2 {
			t.Fatalf("%d frames in %d tries", len(log.frames), log.appends)
		}
	})
}

// A full window makes Emit wait, for no longer than its own ctx.
func TestWriterWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := true
		log := &fakeLog{onAppend: func(Frame) fault {
			if stuck {
				return faultLost
			}
			return faultNone
		}}
		w := newWriter(t.Context(), log, "s", WriterOptions{Window: len(frameOf(0, 2).body)})
		mustEmit(t.Context(), t, w, 0, 1)
		synctest.Wait()
		mustEmit(t.Context(), t, w, 1, 3) // these fill the window
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := emit(ctx, w, 3, 4); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		log.mu.Lock()
		stuck = false
		log.mu.Unlock()
		mustEmit(t.Context(), t, w, 3, 10)
		mustClose(t, w, 10)
		log.check(t, 0, 10)
	})
}

// A chunk larger than the window still goes out, alone.
func TestWriterChunkLargerThanWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{}
		w := newWriter(t.Context(), log, "s", WriterOptions{Window: 1})
		mustEmit(t.Context(), t, w, 0, 5)
		mustClose(t, w, 5)
		log.check(t, 0, 5)
		if len(log.frames) != 5 {
			t.Fatalf("%d frames", len(log.frames))
		}
	})
}

func TestWriterRefuses(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		opts   WriterOptions
		data   string
		want   error
		sticky bool
	}{
		{"not JSON", WriterOptions{}, `{`, ErrInvalid, false},
		{"too large for a message", WriterOptions{}, `"` + strings.Repeat("x", 99) + `"`, ErrChunkSize, true},
		{"over the limit", WriterOptions{MaxBytes: int64(len(sample(0))) + 9}, `"12345678"`, ErrOutputLimit, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			log := &fakeLog{max: 100}
			w := newWriter(t.Context(), log, "s", row.opts)
			mustEmit(t.Context(), t, w, 0, 1)
			if err := w.Emit(t.Context(), envelope.ChunkData, []byte(row.data)); !errors.Is(err, row.want) {
				t.Fatalf("got %v", err)
			}
			if got := w.Size(); got != int64(len(sample(0))) {
				t.Fatalf("size %d", got)
			}
			err := w.Emit(t.Context(), envelope.ChunkData, []byte(`1`))
			if row.sticky != errors.Is(err, row.want) {
				t.Fatalf("afterwards: %v", err)
			}
			if got, err := w.Close(t.Context()); err != nil || row.sticky != (got.Count == 1) {
				t.Fatalf("stored %d, %v", got.Count, err)
			}
		})
	}
}

// A larger limit of the tool does not help a chunk that is too large, so its error advises smaller ones.
func TestFaultOfLargeChunk(t *testing.T) {
	t.Parallel()
	run := RunStream{newWriter(t.Context(), &fakeLog{}, "s", WriterOptions{})}
	large := []byte(`"` + strings.Repeat("x", envelope.MaxChunk) + `"`)
	err := run.Emit(t.Context(), envelope.ChunkData, large)
	fault, ok := errors.AsType[envelope.Fault](err)
	if !ok || fault.Fault().Code != envelope.CodeOutputLimit || !strings.Contains(fault.Fault().Fix, "at most 256 KiB") ||
		fault.Fault().Cause != "chunk too large: 262146 bytes of data, at most 262144 fit" {
		t.Errorf("%v: %+v", err, fault)
	}
	if _, err := run.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWriterClosed(t *testing.T) {
	t.Parallel()
	w := newWriter(t.Context(), &fakeLog{}, "s", WriterOptions{})
	mustClose(t, w, 0)
	mustClose(t, w, 0)
	if err := emit(t.Context(), w, 0, 1); !errors.Is(err, ErrClosed) {
		t.Fatalf("got %v", err)
	}
}

// A subject that somebody else wrote to ends the writer, be it from the start or later.
func TestWriterConflict(t *testing.T) {
	t.Parallel()
	for _, mine := range []int{0, 3} {
		t.Run(fmt.Sprintf("after %d chunks", mine), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				log := &fakeLog{}
				w := newWriter(t.Context(), log, "s", WriterOptions{})
				mustEmit(t.Context(), t, w, 0, mine)
				synctest.Wait()
				if _, err := log.apply(frameOf(mine, mine+1), author{nonce: "foreign"}, log.tail().sequence); err != nil {
					t.Fatal(err)
				}
				mustEmit(t.Context(), t, w, mine, mine+1)
				<-w.done
				if err := emit(t.Context(), w, mine+1, mine+2); !errors.Is(err, ErrConflict) {
					t.Fatalf("Emit: %v", err)
				}
				got, err := w.Close(t.Context())
				if diff := cmp.Diff(*outcome(mine), got); !errors.Is(err, ErrConflict) || diff != "" {
					t.Fatalf("Close: %v %s", err, diff)
				}
			})
		})
	}
}

// Frames that expired behind a slow tool do not stop it.
func TestWriterOutlivesItsFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{}
		w := newWriter(t.Context(), log, "s", WriterOptions{})
		mustEmit(t.Context(), t, w, 0, 3)
		synctest.Wait()
		log.frames = nil
		mustEmit(t.Context(), t, w, 3, 5)
		mustClose(t, w, 5)
		log.check(t, 3, 5)
	})
}

func TestWriterRefusedByServer(t *testing.T) {
	t.Parallel()
	w := newWriter(t.Context(), refusingLog{}, "s", WriterOptions{})
	mustEmit(t.Context(), t, w, 0, 1)
	if got, err := w.Close(t.Context()); !errors.Is(err, errRefused) || got.Count != 0 {
		t.Fatalf("got %d, %v", got.Count, err)
	}
}

type refusingLog struct{}

func (refusingLog) maxFrame() int { return 1 << 20 }

func (refusingLog) append(context.Context, string, Frame, author, uint64) (uint64, error) {
	return 0, errRefused
}

func (refusingLog) last(context.Context, string) (mark, error) { return mark{}, nil }

// When ctx ends, whether that of the Writer or of Close, nothing is left running (which synctest
// checks), and the count is left out where a frame on its way may be stored or not.
func TestWriterGivesUp(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		end  func(ctx context.Context, cancel func(), w *Writer) (envelope.Chunks, error)
		want error
	}{
		{"writer, idle", func(ctx context.Context, cancel func(), w *Writer) (envelope.Chunks, error) {
			cancel()
			<-w.done
			if err := w.Emit(ctx, envelope.ChunkData, sample(1)); !errors.Is(err, context.Canceled) {
				return envelope.Chunks{}, fmt.Errorf("Emit: %w", err)
			}
			return w.Close(ctx)
		}, nil},
		{"writer, sending", func(ctx context.Context, cancel func(), w *Writer) (envelope.Chunks, error) {
			cancel()
			return w.Close(ctx)
		}, context.Canceled},
		{"close", func(ctx context.Context, _ func(), w *Writer) (envelope.Chunks, error) {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			return w.Close(ctx)
		}, context.DeadlineExceeded},
		{"dropped", func(_ context.Context, cancel func(), w *Writer) (envelope.Chunks, error) {
			cancel()
			<-w.done
			return envelope.Chunks{}, w.failed
		}, context.Canceled},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				log := &fakeLog{}
				w := newWriter(ctx, log, "s", WriterOptions{})
				mustEmit(t.Context(), t, w, 0, 1)
				synctest.Wait()
				log.onAppend = func(Frame) fault { return faultLost }
				if row.want != nil {
					mustEmit(t.Context(), t, w, 1, 2)
					synctest.Wait()
				}
				got, err := row.end(t.Context(), cancel, w)
				want := *outcome(1)
				if row.want != nil {
					want = envelope.Chunks{}
				}
				if diff := cmp.Diff(want, got); diff != "" || !errors.Is(err, row.want) {
					t.Fatalf("%v %s", err, diff)
				}
			})
		})
	}
}

// A frame whose answer does not come in time is stored all the same: then no count is named, instead of one that is
// less than the stream holds.
func TestWriterNamesNoCountBelowTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &fakeLog{}
		w := newWriter(t.Context(), log, "s", WriterOptions{})
		mustEmit(t.Context(), t, w, 0, 1)
		synctest.Wait()
		log.onAppend = func(Frame) fault { return faultNoAck }
		log.onLast = func() error { return errBusy }
		mustEmit(t.Context(), t, w, 1, 3)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got, err := w.Close(ctx)
		if got != (envelope.Chunks{}) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%+v, %v", got, err)
		}
		log.check(t, 0, 3)
	})
}

// A writer that never stops sending keeps its memory flat.
func TestWriterMemory(t *testing.T) {
	log := discardLog{}
	w := newWriter(t.Context(), log, "s", WriterOptions{MaxBytes: 1 << 40})
	mustEmit(t.Context(), t, w, 0, 10_000)
	before := heap()
	mustEmit(t.Context(), t, w, 0, 300_000)
	if grown := heap() - before; grown > 2<<20 {
		t.Fatalf("the heap grew by %d bytes", grown)
	}
	if got, err := w.Close(t.Context()); err != nil || got.Count != 310_000 {
		t.Fatalf("%d chunks, %v", got.Count, err)
	}
}

type discardLog struct{}

func (discardLog) maxFrame() int { return 1 << 20 }

func (discardLog) append(_ context.Context, _ string, _ Frame, _ author, prev uint64) (uint64, error) {
	return prev + 1, nil
}

func (discardLog) last(context.Context, string) (mark, error) { return mark{}, nil }

// Size is the number of data bytes taken so far.
func (w *Writer) Size() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.size
}
