package cli

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Limits of the lines that wait until standard error takes them.
const (
	maxWaiting = 1 << 20              // bytes
	maxWrite   = 4096                 // bytes; what a pipe takes at once, so that lines of several processes stay whole
	together   = 5 * time.Millisecond // after lines were written, so that the next ones share a write
	flushTime  = time.Second          // at the end of the process
)

// Unblocked returns e with a Stderr that delays nobody who writes to it: a goroutine writes the lines, and if they are
// not read it keeps 1 MiB of them and counts the others. A closed pipe does not end the process, either. Call end at
// the end of the process. It waits at most 1 s until the lines are written; then Stderr writes at once again.
func (e Env) Unblocked() (_ Env, end func()) {
	w := &lines{to: e.Stderr, some: make(chan struct{}, 1), done: make(chan struct{}), ended: make(chan struct{})}
	w.lost = func(n int) []byte {
		var line bytes.Buffer
		slog.New(e.handler(&line, slog.LevelWarn)).Warn("log lines were left out: standard error was not read", "lines", n)
		return line.Bytes()
	}
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE) // otherwise a write to a closed pipe would end the process
	go w.run()
	e.Stderr = w
	return e, sync.OnceFunc(func() {
		w.close()
		signal.Stop(broken)
	})
}

// lostLines returns how many lines a Stderr of [Env.Unblocked] has left out, or could not write.
func (e Env) lostLines() int64 {
	if w, ok := e.Stderr.(*lines); ok {
		return w.missing.Load()
	}
	return 0
}

// lines writes lines in a goroutine of its own.
type lines struct {
	to    io.Writer
	lost  func(n int) []byte // returns a line that says how many are left out
	some  chan struct{}      // there are lines
	done  chan struct{}      // closed by close
	ended chan struct{}      // closed when run has returned

	missing atomic.Int64 // lines that were left out or could not be written, since the start

	mu      sync.Mutex
	waiting []byte
	left    int       // lines that are left out, since others were written
	after   io.Writer // that takes lines after the end; nil before
}

// Write implements io.Writer. It never waits for the reader.
func (w *lines) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.after != nil:
		return w.after.Write(p)
	case len(w.waiting)+len(p) > maxWaiting:
		w.left++
		w.missing.Add(1)
		return len(p), nil
	}
	w.waiting = append(w.waiting, p...)
	select {
	case w.some <- struct{}{}:
	default: // run knows
	}
	return len(p), nil
}

// run writes lines until close is called.
func (w *lines) run() {
	defer close(w.ended)
	var spare []byte
	for {
		select {
		case <-w.some:
			spare = w.flush(spare)
		case <-w.done:
			w.flush(spare)
			return
		}
		select {
		case <-w.done:
		case <-time.After(together):
		}
	}
}

// flush writes the lines that wait. It keeps new ones in spare, and returns the memory of those that are written.
func (w *lines) flush(spare []byte) []byte {
	w.mu.Lock()
	batch, left := w.waiting, w.left
	w.waiting, w.left = spare[:0], 0
	w.mu.Unlock()
	if left > 0 {
		batch = append(batch, w.lost(left)...)
	}
	for rest := batch; len(rest) > 0; {
		n := whole(rest)
		if _, err := w.to.Write(rest[:n]); err != nil {
			w.missing.Add(int64(bytes.Count(rest[:n], []byte("\n"))))
		}
		rest = rest[n:]
	}
	return batch
}

// whole returns the length of the lines at the start of text that one write takes, at least that of the first one.
func whole(text []byte) int {
	if len(text) <= maxWrite {
		return len(text)
	}
	if n := bytes.LastIndexByte(text[:maxWrite], '\n'); n >= 0 {
		return n + 1
	}
	if n := bytes.IndexByte(text, '\n'); n >= 0 {
		return n + 1
	}
	return len(text)
}

// close ends run, and waits for it. If it does not end, because nothing reads standard error, the process ends without
// the lines that are left.
func (w *lines) close() {
	close(w.done)
	after := w.to
	select {
	case <-w.ended:
	case <-time.After(flushTime):
		after = io.Discard
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.after = after
}
