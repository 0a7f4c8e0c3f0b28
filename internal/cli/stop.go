package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// UntilSignal returns a context that ends with the first SIGINT, SIGTERM or, unless the process was
// started to outlive its terminal, SIGHUP, which lets a process end in order. The second one ends it at
// once: a process that cannot end in order must not hold on to the terminal. stop ends the watch.
func UntilSignal() (ctx context.Context, stop context.CancelFunc) {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop = signal.NotifyContext(context.Background(), ends...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// ballast is how much memory is allocated and never touched.
const ballast = 64 << 20

// Main runs a command until it ends, or a signal tells it to, and ends the process with its exit code.
//
// It lets more garbage gather before it is collected. What is alive in these processes is a few megabytes, and memory
// is collected when there is as much garbage: under load that is all the time, a seventh of their CPU time
// (docs/performance.md). The ballast counts as alive, but is never resident, because nobody touches it. A higher GOGC
// would save as much, but let a heap that is large by itself grow to several times its size.
func Main(run func(ctx context.Context) int) {
	ctx, stop := UntilSignal()
	b := make([]byte, ballast)
	code := run(ctx)
	stop()
	runtime.KeepAlive(b)
	os.Exit(code)
}

// soon is how long a process that was told to stop may take without a word.
const soon = 300 * time.Millisecond

// Patience tells w, once ctx has ended, that the process waits for the calls in hand, unless ended is called soon
// after: whoever pressed Ctrl-C would take it for one that hangs. ended must be called in any case.
func Patience(ctx context.Context, w io.Writer) (ended func()) {
	done := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		select {
		case <-done:
			return
		case <-ctx.Done():
		}
		select {
		case <-done:
		case <-time.After(soon):
			fmt.Fprintln(w, "stopping: calls in hand have ten seconds to end; another Ctrl-C (or SIGTERM) ends at once")
		}
	})
	return sync.OnceFunc(func() { close(done); telling.Wait() })
}
