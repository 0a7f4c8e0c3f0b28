package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// UntilSignal returns a context that ends with the first SIGINT, SIGTERM or SIGHUP. It ignores SIGHUP if the process
// was started to outlive its terminal. A second signal ends the process at once, so that a process that cannot stop
// does not block the terminal. stop ends the handling of signals.
func UntilSignal() (ctx context.Context, stop context.CancelFunc) {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop = signal.NotifyContext(context.Background(), ends...)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// Main runs a command, ends its context at a signal, and ends the process with its exit code. Most memory of a process
// that serves calls is garbage: with GOGC 100, Go's default, garbage collection took a seventh of the CPU time.
func Main(run func(ctx context.Context) int) {
	Collect(os.Environ(), servingPercent, MemoryLimit)
	ctx, stop := UntilSignal()
	code := run(ctx)
	stop()
	os.Exit(code)
}

// soon is the time after a signal from which on Patience prints its message.
const soon = 300 * time.Millisecond

// Patience prints a message to w, unless ended is called within 300 ms after ctx has ended: the process waits for
// running calls. Without the message, it would seem to hang after Ctrl-C. ended must be called in any case.
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
