package streaming

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// memorySource holds the first stored sample chunks of each run.
type memorySource struct {
	mu     sync.Mutex
	stored map[Run]int
	fetch  func(at Position) (Frame, error, bool) // answers instead, if ok
	calls  int
	pause  func() time.Duration // before each answer, if set
}

func (s *memorySource) put(run Run, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stored == nil {
		s.stored = map[Run]int{}
	}
	s.stored[run] = n
}

func (s *memorySource) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *memorySource) Fetch(_ context.Context, at Position, maxBytes int) (Frame, error) {
	if s.pause != nil {
		<-time.After(s.pause())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.fetch != nil {
		if f, err, ok := s.fetch(at); ok {
			return f, err
		}
	}
	if int(at.Index) >= s.stored[at.Run] {
		return Frame{}, nil
	}
	return frameOfRun(at.Run, int(at.Index), min(s.stored[at.Run], int(at.Index)+50)).limit(maxBytes), nil
}

// offer hands the sample chunks [first, end) to r.
func offer(r *Reader, run Run, first, end int) {
	f := frameOfRun(run, first, end)
	r.Offer(run, f.Header(), f.body)
}

// outcome is what a Writer of n sample chunks of firstRun returns.
func outcome(n int) *envelope.Chunks { return outcomeOf(firstRun, n) }

func outcomeOf(run Run, n int) *envelope.Chunks {
	d := newDigest()
	for i := range n {
		d.add(sampleOf(run.Fence, i))
	}
	c := d.chunks()
	return &c
}

func mustExpect(ctx context.Context, t *testing.T, r *Reader, from, to int) {
	t.Helper()
	if err := expect(ctx, r, from, to); err != nil {
		t.Fatal(err)
	}
}

// mustEnd wants an error from Next, again and again.
func mustEnd(ctx context.Context, t *testing.T, r *Reader, want error) {
	t.Helper()
	for range 2 {
		if c, err := r.Next(ctx); !errors.Is(err, want) {
			t.Fatalf("got chunk %d, %v; want %v", c.Index, err, want)
		}
	}
}

// Whatever happens to live frames, however the source lags and whatever older runs still emit, the
// reader yields exact sequences, each of a newer run than the one before, and the true one whole.
func TestReaderYieldsExactSequence(t *testing.T) {
	t.Parallel()
	for seed := range uint64(many() / 1000) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newTrouble(seed).run(t) })
		})
	}
}

// trouble is a random mix of faults. The lock of the source guards it.
type trouble struct {
	source *memorySource
	random *rand.Rand
	level  float64
	jobs   sync.WaitGroup
}

func newTrouble(seed uint64) *trouble {
	x := &trouble{source: &memorySource{}, random: rand.New(rand.NewPCG(seed, 0))}
	x.level = x.random.Float64()
	x.source.fetch = func(Position) (Frame, error, bool) {
		switch f := x.random.Float64(); {
		case f < x.level/4:
			return Frame{}, fmt.Errorf("%w: try again", ErrUnavailable), true
		case f < x.level/2:
			return Frame{}, nil, true // a replica that lags
		}
		return Frame{}, nil, false
	}
	x.source.pause = func() time.Duration {
		_, delay := x.decide(1)
		return delay / 2
	}
	return x
}

// decide says yes with probability p, and for how long.
func (x *trouble) decide(p float64) (yes bool, delay time.Duration) {
	x.source.mu.Lock()
	defer x.source.mu.Unlock()
	return x.random.Float64() < p, time.Duration(x.random.IntN(20)) * time.Millisecond
}

// write emits n chunks of a run: each frame may be published more than once, before and after it
// is stored, and arrive late or not at all.
func (x *trouble) write(r *Reader, run Run, n int) {
	for first, end := 0, 0; first < n; first = end {
		_, delay := x.decide(1)
		end = min(n, first+1+int(delay/time.Millisecond))
		for range 3 {
			if lost, delay := x.decide(x.level); !lost {
				x.jobs.Go(func() { <-time.After(delay); offer(r, run, first, end) })
			}
		}
		if slow, delay := x.decide(0.5); slow {
			<-time.After(delay)
		}
		x.source.put(run, end)
	}
}

func (x *trouble) run(t *testing.T) {
	r := NewReader(x.source, ReaderOptions{
		CallID:     "c",
		Buffer:     200 + x.random.IntN(4000),
		FetchBytes: 1 + x.random.IntN(3000),
	})
	n := 1 + x.random.IntN(400)
	x.jobs.Go(func() { x.write(r, Run{1, 3}, n) })
	x.jobs.Go(func() { <-time.After(20 * time.Millisecond); x.write(r, Run{1, 5}, n) })
	x.jobs.Go(func() {
		<-time.After(40 * time.Millisecond)
		x.write(r, firstRun, n)
		r.Finish(firstRun, outcome(n))
	})
	var want envelope.Chunk
	for {
		if slow, delay := x.decide(x.level / 10); slow {
			<-time.After(delay)
		}
		got, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		index := want.Index + 1
		if got.Fence > want.Fence {
			index = 0
		}
		fence := max(want.Fence, got.Fence)
		data := sampleOf(fence, int(index))
		want = envelope.Chunk{CallID: "c", Index: index, Kind: envelope.ChunkData, Data: data, Fence: fence}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("%v %s", err, diff)
		}
	}
	if want.Fence != firstRun.Fence || want.Index != int64(n-1) {
		t.Fatalf("ended with chunk %d of %d, fence %d", want.Index, n, want.Fence)
	}
	x.jobs.Wait()
}

// A chunk is yielded when it is offered: no clock is involved, and no source.
func TestReaderIsEventDriven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &memorySource{}
		r := NewReader(source, ReaderOptions{})
		start := time.Now()
		time.AfterFunc(time.Hour, func() { offer(r, firstRun, 0, 1) })
		mustExpect(t.Context(), t, r, 0, 1)
		if waited := time.Since(start); waited != time.Hour || source.asked() != 0 {
			t.Fatalf("took %v and %d fetches", waited, source.asked())
		}
	})
}

func TestReaderStartsAnewWithNewerRun(t *testing.T) {
	t.Parallel()
	for _, newer := range []Run{{1, 8}, {2, 3}} {
		t.Run(fmt.Sprint(newer), func(t *testing.T) {
			t.Parallel()
			source := &memorySource{}
			r := NewReader(source, ReaderOptions{})
			offer(r, firstRun, 0, 10)
			mustExpect(t.Context(), t, r, 0, 5)
			offer(r, newer, 0, 2)
			offer(r, firstRun, 10, 20) // a straggler
			mustExpect(t.Context(), t, r, 0, 2)
			source.put(newer, 4)
			r.Finish(newer, outcomeOf(newer, 4))
			offer(r, Run{9, 9}, 0, 1) // there is nothing after the outcome
			mustExpect(t.Context(), t, r, 2, 4)
			mustEnd(t.Context(), t, r, io.EOF)
		})
	}
}

// A newer run whose beginning was not seen live is fetched from its beginning.
func TestReaderFetchesStartOfNewerRun(t *testing.T) {
	t.Parallel()
	newer := Run{1, 8}
	source := &memorySource{}
	source.put(newer, 30)
	r := NewReader(source, ReaderOptions{})
	offer(r, firstRun, 0, 10)
	mustExpect(t.Context(), t, r, 0, 5)
	offer(r, newer, 30, 40)
	mustExpect(t.Context(), t, r, 0, 40)
}

// The outcome decides which run counts, even against what was seen.
func TestReaderFollowsOutcome(t *testing.T) {
	t.Parallel()
	source := &memorySource{}
	source.put(firstRun, 20)
	r := NewReader(source, ReaderOptions{})
	offer(r, Run{1, 8}, 0, 3)
	mustExpect(t.Context(), t, r, 0, 2)
	r.Finish(firstRun, outcome(20))
	r.Finish(Run{1, 8}, outcome(3)) // only the first call counts
	mustExpect(t.Context(), t, r, 0, 20)
	mustEnd(t.Context(), t, r, io.EOF)
}

// A newer run of which nothing was yielded leaves no trace: the run of the outcome goes on where it was, since
// its reader could not tell that it starts over.
func TestReaderGoesBack(t *testing.T) {
	t.Parallel()
	newer := Run{1, 8}
	source := &memorySource{}
	source.put(firstRun, 20)
	r := NewReader(source, ReaderOptions{})
	offer(r, firstRun, 0, 10)
	mustExpect(t.Context(), t, r, 0, 5)
	offer(r, newer, 3, 4) // its beginning has to be fetched, and is not there
	offer(r, Run{1, 9}, 3, 4)
	r.Finish(firstRun, outcome(20))
	mustExpect(t.Context(), t, r, 5, 20)
	mustEnd(t.Context(), t, r, io.EOF)

	r = NewReader(source, ReaderOptions{})
	offer(r, firstRun, 0, 10)
	mustExpect(t.Context(), t, r, 0, 5)
	offer(r, newer, 0, 3)
	mustExpect(t.Context(), t, r, 0, 2) // now it knows of another run
	r.Finish(firstRun, outcome(20))
	mustExpect(t.Context(), t, r, 0, 20)
	mustEnd(t.Context(), t, r, io.EOF)
}

func TestReaderFinish(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		chunks *envelope.Chunks
		read   int // of 10 that were offered, in two frames with a gap after 5
		want   error
	}{
		{"all", outcome(12), 12, io.EOF},
		{"fewer than seen", outcome(3), 3, io.EOF},
		{"none", outcome(0), 0, io.EOF},
		{"without digest", &envelope.Chunks{Count: 12}, 12, io.EOF},
		{"other digest", &envelope.Chunks{Count: 12, Digest: "00"}, 12, ErrDigest},
		{"unknown", nil, 5, io.EOF},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			source := &memorySource{}
			source.put(firstRun, 12)
			r := NewReader(source, ReaderOptions{})
			offer(r, firstRun, 0, 5)
			offer(r, firstRun, 7, 12)
			r.Finish(firstRun, row.chunks)
			mustExpect(t.Context(), t, r, 0, row.read)
			mustEnd(t.Context(), t, r, row.want)
		})
	}
}

// An outcome that counts fewer chunks than were read (a run that was cut off) ends the stream.
func TestReaderFinishBelowWhatWasRead(t *testing.T) {
	t.Parallel()
	r := NewReader(&memorySource{}, ReaderOptions{})
	offer(r, firstRun, 0, 10)
	mustExpect(t.Context(), t, r, 0, 8)
	r.Finish(firstRun, outcome(6))
	mustEnd(t.Context(), t, r, io.EOF)
}

func TestReaderResumesByIndex(t *testing.T) {
	t.Parallel()
	source := &memorySource{}
	source.put(firstRun, 100)
	r := NewReader(source, ReaderOptions{Run: firstRun, Index: 42})
	mustExpect(t.Context(), t, r, 42, 100)
	offer(r, firstRun, 90, 110)
	mustExpect(t.Context(), t, r, 100, 110)
	r.Finish(firstRun, outcome(110))
	mustEnd(t.Context(), t, r, io.EOF)
}

// After Resync the reader asks the source at once; a loss during that very question is asked again.
func TestReaderResync(t *testing.T) {
	t.Parallel()
	source := &memorySource{}
	r := NewReader(source, ReaderOptions{})
	offer(r, firstRun, 0, 10)
	mustExpect(t.Context(), t, r, 0, 10)
	source.put(firstRun, 10)
	source.fetch = func(Position) (Frame, error, bool) {
		source.fetch = nil
		source.stored[firstRun] = 15
		r.Resync()
		return Frame{}, nil, true
	}
	r.Resync()
	mustExpect(t.Context(), t, r, 10, 15)
	if source.asked() != 2 {
		t.Fatalf("%d fetches", source.asked())
	}
}

// However many frames are offered to a reader that does not read, it keeps a bounded number of
// bytes, and reads all of them later.
func TestReaderStalled(t *testing.T) {
	source := &memorySource{}
	r := NewReader(source, ReaderOptions{})
	const frames, size = 20_000, 10
	before := heap()
	for i := range frames {
		offer(r, firstRun, i*size, (i+1)*size)
	}
	if grown := heap() - before; grown > 4<<20 {
		t.Fatalf("the heap grew by %d bytes", grown)
	}
	if r.assembly.bytes > r.opts.Buffer {
		t.Fatalf("holds %d bytes", r.assembly.bytes)
	}
	source.put(firstRun, frames*size)
	mustExpect(t.Context(), t, r, 0, frames*size)
	runtime.KeepAlive(r)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A frame that comes again takes no room from those that follow.
func TestReaderDuplicatesTakeNoRoom(t *testing.T) {
	t.Parallel()
	source := &memorySource{}
	r := NewReader(source, ReaderOptions{Buffer: 1000})
	for range 100 {
		offer(r, firstRun, 0, 1)
	}
	offer(r, firstRun, 1, 2)
	mustExpect(t.Context(), t, r, 0, 2)
	if source.asked() != 0 {
		t.Fatal("had to ask the source")
	}
}

// A frame that arrived live but was dropped may not be stored yet; that is no reason to give up.
func TestReaderWaitsForWhatIsNotYetStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &memorySource{}
		r := NewReader(source, ReaderOptions{Buffer: 1})
		offer(r, firstRun, 0, 1)
		offer(r, firstRun, 1, 2)
		mustExpect(t.Context(), t, r, 0, 1)
		time.AfterFunc(time.Hour, func() { source.put(firstRun, 2) })
		mustExpect(t.Context(), t, r, 1, 2)
	})
}

func TestReaderExpired(t *testing.T) {
	t.Parallel()
	expired := func(Position) (Frame, error, bool) { return Frame{}, ErrExpired, true }
	for _, row := range []struct {
		name  string
		act   func(*Reader)
		fetch func(Position) (Frame, error, bool)
		took  time.Duration
	}{
		{"the source knows, gap", func(r *Reader) { offer(r, firstRun, 5, 6) }, expired, 0},
		{"the source knows, end", func(r *Reader) { r.Finish(firstRun, outcome(5)) }, expired, 0},
		{"lacks what was before a live frame", func(r *Reader) { offer(r, firstRun, 5, 6) }, nil, 2 * time.Second},
		{"lacks what the outcome counts", func(r *Reader) { r.Finish(firstRun, outcome(5)) }, nil, 2 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := NewReader(&memorySource{fetch: row.fetch}, ReaderOptions{})
				row.act(r)
				start := time.Now()
				_, err := r.Next(t.Context())
				took := time.Since(start)
				if !errors.Is(err, ErrExpired) || took < row.took || took > row.took+time.Second {
					t.Fatalf("%v after %v", err, took)
				}
			})
		})
	}
}

// The time that the source is away does not count against what it lacks.
func TestReaderPatienceStartsWithAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &memorySource{}
		start := time.Now()
		source.fetch = func(Position) (Frame, error, bool) {
			if since := time.Since(start); since > time.Second && since < 10*time.Second {
				return Frame{}, ErrUnavailable, true
			}
			return Frame{}, nil, false
		}
		r := NewReader(source, ReaderOptions{})
		offer(r, firstRun, 5, 6)
		time.AfterFunc(11*time.Second, func() { source.put(firstRun, 5) })
		mustExpect(t.Context(), t, r, 0, 6)
	})
}

// A question that gets no answer at all, as when it is lost with a connection, is asked again.
func TestReaderAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &memorySource{}
		source.put(firstRun, 5)
		r := NewReader(&deafSource{memorySource: source, deaf: 3}, ReaderOptions{})
		offer(r, firstRun, 5, 6)
		mustExpect(t.Context(), t, r, 0, 6)
	})
}

// deafSource does not answer the first requests.
type deafSource struct {
	*memorySource
	deaf int
}

func (s *deafSource) Fetch(ctx context.Context, at Position, maxBytes int) (Frame, error) {
	if s.deaf > 0 {
		s.deaf--
		<-ctx.Done()
		return Frame{}, ctx.Err()
	}
	return s.memorySource.Fetch(ctx, at, maxBytes)
}

// While a fetch is being retried, whatever makes it unnecessary is noticed at once.
func TestReaderPauseEndsEarly(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		act  func(*Reader)
		want int
	}{
		{"the frame comes live", func(r *Reader) { offer(r, firstRun, 0, 5) }, 6},
		{"a newer run", func(r *Reader) { offer(r, Run{2, 9}, 0, 3) }, 3},
		{"a newer run that has to be fetched", func(r *Reader) { offer(r, Run{2, 9}, 3, 4) }, 4},
		{"the outcome counts none", func(r *Reader) { r.Finish(firstRun, outcome(0)) }, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source := &memorySource{fetch: func(at Position) (Frame, error, bool) {
					return Frame{}, ErrUnavailable, at.Run == firstRun
				}}
				source.put(Run{2, 9}, 4)
				r := NewReader(source, ReaderOptions{})
				offer(r, firstRun, 5, 6)
				acted := make(chan time.Time, 1)
				time.AfterFunc(time.Minute, func() {
					calls := source.asked()
					offer(r, firstRun, 6, 7) // is of no help
					synctest.Wait()
					if source.asked() != calls {
						t.Error("asked again before the pause was over")
					}
					row.act(r)
					acted <- time.Now()
				})
				if row.want > 0 {
					mustExpect(t.Context(), t, r, 0, row.want)
				} else {
					mustEnd(t.Context(), t, r, io.EOF)
				}
				if late := time.Since(<-acted); late != 0 {
					t.Fatalf("%v late", late)
				}
			})
		})
	}
}

func TestReaderErrors(t *testing.T) {
	t.Parallel()
	denied := errors.New("denied")
	gap := func(r *Reader) { offer(r, firstRun, 5, 6) }
	for _, row := range []struct {
		name  string
		act   func(*Reader)
		frame Frame
		err   error
		want  error
	}{
		{"the source's own", gap, Frame{}, denied, denied},
		{"the wrong frame", gap, frameOf(3, 4), nil, ErrCorrupt},
		{"corrupt frame from the source", gap, Frame{first: 0, end: 1, body: []byte("d{\n")}, nil, ErrCorrupt},
		{"corrupt live frame", func(r *Reader) { r.Offer(firstRun, header("0-0"), []byte("d{\n")) }, Frame{}, nil,
			ErrCorrupt},
		{"malformed live frame is lost", func(r *Reader) { r.Offer(firstRun, header("0-1"), []byte("d1\n")); gap(r) },
			Frame{}, denied, denied},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			source := &memorySource{fetch: func(Position) (Frame, error, bool) { return row.frame, row.err, true }}
			r := NewReader(source, ReaderOptions{})
			row.act(r)
			mustEnd(t.Context(), t, r, row.want)
		})
	}
}

func TestReaderContext(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		act  func(*Reader)
	}{
		{"waiting", func(*Reader) {}},
		{"pausing", func(r *Reader) { offer(r, firstRun, 5, 6) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				source := &memorySource{fetch: func(Position) (Frame, error, bool) { return Frame{}, ErrUnavailable, true }}
				r := NewReader(source, ReaderOptions{})
				row.act(r)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if _, err := r.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
				offer(r, firstRun, 0, 5) // and it can go on
				mustExpect(t.Context(), t, r, 0, 5)
			})
		})
	}
}
